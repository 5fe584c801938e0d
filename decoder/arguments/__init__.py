"""Arguments under a grammar: tables in, allowed tokens out; `docs/arguments.md` is the map."""

from __future__ import annotations

from decoder.arguments.machine import ArgumentMachine
from decoder.arguments.session import ArgumentSession
from decoder.arguments.tables import ArgumentTables
from decoder.arguments.vocabulary import TokenVocabulary, vocabulary_of

__all__ = [
    "ArgumentMachine",
    "ArgumentSession",
    "ArgumentTables",
    "TokenVocabulary",
    "vocabulary_of",
]
