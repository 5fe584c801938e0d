"""The machine that a catalog's arguments are written with: tables, a vocabulary, sessions.

Owns the choice between the plain machine and the compiled one, which give the same answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from decoder.arguments.completion import Completer
from decoder.arguments.facts import facts_of
from decoder.arguments.grammar import Grammar
from decoder.arguments.native import NativeMachine, NativeSession
from decoder.arguments.session import ArgumentSession, ReferenceSession
from decoder.errors import KernelError, RequestError

if TYPE_CHECKING:
    from decoder.arguments.tables import ArgumentTables
    from decoder.arguments.vocabulary import TokenVocabulary


class ArgumentMachine:
    """Makes sessions.

    Args:
        tables: the catalog's grammars.
        vocabulary: of the model that writes.
        kernels: "native", compiled for this machine when it is first asked for, or "reference".

    Raises:
        KernelError: an unknown name, or native code that can't be built here. There is no silent
            fallback: the reference is some thousand times slower.

    """

    def __init__(
        self, tables: ArgumentTables, vocabulary: TokenVocabulary, *, kernels: str = "native"
    ) -> None:
        if kernels not in ("native", "reference"):
            raise KernelError(f"unknown kernels {kernels!r}; known: native, reference")
        self.tables = tables
        self.vocabulary = vocabulary
        facts = facts_of(tables)
        self._grammar = Grammar(tables, facts)
        self._completer = Completer(self._grammar)
        self._native = NativeMachine(tables, facts, vocabulary) if kernels == "native" else None

    def begin(self, root: int) -> ArgumentSession:
        """Begin a value of a node (an entry of the catalog's `roots`).

        Raises:
            RequestError: there is no such node, or none of its values keeps the bound on nesting.

        """
        if not 0 <= root < len(self.tables.nodes):
            raise RequestError(
                f"there is no node {root}; nodes are numbered 0 to {len(self.tables.nodes) - 1}, "
                "and -1 stands for arguments that are refused"
            )
        if not self.fits(root):
            raise RequestError(f"node {root} has no value within the bound on nesting")
        if self._native is not None:
            return NativeSession(self._native, self.vocabulary, self._completer, root)
        return ReferenceSession(self._grammar, self.vocabulary, self._completer, root)

    def fits(self, root: int) -> bool:
        """Tell whether some value of a node keeps the bound on nesting."""
        return self._grammar.fits(root, 0)
