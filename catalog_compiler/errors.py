"""Typed errors of the catalog compiler. Each says what was wrong, where, and what to do."""

from __future__ import annotations


class CatalogError(Exception):
    """Base of every error this package raises on purpose."""


class SourceError(CatalogError):
    """An input could not be read at all (missing, not JSON or YAML, unrecognised format)."""


class StrictError(CatalogError):
    """`strict` was asked for and a tool had to be set aside."""


class GrammarError(CatalogError):
    """The name grammar cannot be built (no tools, or a tokenizer that cannot spell a name)."""


class ArtifactError(CatalogError):
    """A compiled catalog is truncated, altered, foreign or newer than this program."""
