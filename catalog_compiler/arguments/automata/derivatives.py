"""What may follow a character, for all characters of an expression at once.

Owns the derivation of expressions over an alphabet of classes. Never numbers states.

Source: S. Owens, J. Reppy, A. Turon, Regular-expression derivatives re-examined, JFP 2009; rows
stand in place of their approximate derivative classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from catalog_compiler.arguments.automata.expressions import AGAIN, ALT, AND, CAT, CHARS, LOOP, NOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from catalog_compiler.arguments.automata.alphabets import Alphabet
    from catalog_compiler.arguments.automata.expressions import Expr, Expressions

Row: TypeAlias = tuple[tuple[int, "Expr"], ...]
"""Disjoint masks of classes, each with what may follow; what is in no mask is refused."""


class Derivatives:
    """The rows of an arena's expressions."""

    def __init__(self, arena: Expressions, alphabet: Alphabet) -> None:
        """Begin with none; the alphabet tells all sets of the arena apart."""
        self._arena = arena
        self._alphabet = alphabet
        self._rows: dict[Expr, Row] = {}

    def row(self, part: Expr) -> Row:
        """Return what may follow each class of characters."""
        found = self._rows.get(part)
        if found is None:
            found = self._rows[part] = self._derive(part)
        return found

    def _derive(self, part: Expr) -> Row:
        arena = self._arena
        key = arena.key(part)
        kind = key[0]
        if kind == CHARS:
            mask = self._alphabet.mask(key[1])
            return ((mask, arena.empty),) if mask else ()
        if kind == CAT:
            return self._derive_cat(part)
        if kind == LOOP:
            _, inner, low, high = key
            rest = arena.loop(inner, max(low - 1, 0), None if high is None else high - 1)
            return tuple((mask, arena.cat2(target, rest)) for mask, target in self.row(inner))
        if kind == ALT:
            return self._any([self.row(each) for each in key[1:]])
        if kind == AND:
            return self._all([self.row(each) for each in key[1:]])
        if kind == NOT:
            inner_row = self.row(key[1])
            left = self._alphabet.scalars
            for mask, _ in inner_row:
                left &= ~mask
            found = [(mask, arena.without(target)) for mask, target in inner_row]
            return self._joined([*found, (left, arena.any_text)])
        if kind == AGAIN:
            return self.row(arena.meaning(part))
        return ()  # the empty text

    def _derive_cat(self, part: Expr) -> Row:
        """Derive along a concatenation without recursion: patterns may have thousands of parts."""
        arena = self._arena
        rows: list[Row] = []
        while (key := arena.key(part))[0] == CAT:
            _, left, right = key
            rows.append(tuple((mask, arena.cat2(to, right)) for mask, to in self.row(left)))
            if not arena.nullable(left):
                break
            part = right
        else:
            rows.append(self.row(part))
        return rows[0] if len(rows) == 1 else self._any(rows)

    def _any(self, rows: list[Row]) -> Row:
        pieces: list[tuple[int, list[Expr]]] = []
        for row in rows:
            for mask, target in row:
                left, cut = mask, []
                for place, (own, targets) in enumerate(pieces):
                    both = own & left
                    if both:
                        if both != own:
                            cut.append((own & ~both, list(targets)))
                            pieces[place] = (both, targets)
                        targets.append(target)
                        left &= ~both
                        if not left:
                            break
                pieces += cut
                if left:
                    pieces.append((left, [target]))
        return self._merged(pieces, self._arena.alt)

    def _all(self, rows: list[Row]) -> Row:
        pieces = [(mask, [target]) for mask, target in rows[0]]
        for row in rows[1:]:
            pieces = [
                (both, [*targets, target])
                for own, targets in pieces
                for mask, target in row
                if (both := own & mask)
            ]
        return self._merged(pieces, self._arena.both)

    def _merged(
        self, pieces: list[tuple[int, list[Expr]]], join: Callable[[Iterable[Expr]], Expr]
    ) -> Row:
        return self._joined(
            (mask, targets[0] if len(targets) == 1 else join(targets)) for mask, targets in pieces
        )

    def _joined(self, pieces: Iterable[tuple[int, Expr]]) -> Row:
        found: dict[Expr, int] = {}
        for mask, target in pieces:
            if mask and target != self._arena.nothing:
                found[target] = found.get(target, 0) | mask
        return tuple((mask, target) for target, mask in found.items())
