"""Objects that must hold some member, as objects of which the member is known.

Owns the negations of `additionalProperties`, `patternProperties` and `propertyNames` where they
reduce to that; elsewhere a note. Never reads a keyword.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from catalog_compiler.arguments.schema.free_keys import free_keys
from catalog_compiler.arguments.schema.holding import has_key, member
from catalog_compiler.arguments.schema.places import FALSE, TRUE, both
from catalog_compiler.arguments.schema.result import Note
from catalog_compiler.arguments.schema.shapes import Matching, Others, Unnamed

MAX_OPTIONAL: Final = 2
"""Optional declared members of which every choice is tried."""

if TYPE_CHECKING:
    from catalog_compiler.arguments.schema.expand import Expander
    from catalog_compiler.arguments.schema.places import Conj
    from catalog_compiler.arguments.schema.shapes import Held, Keys, Objects


def without_held(objects: Objects, expander: Expander, notes: set[Note]) -> list[Objects]:
    """Return objects that together are these, without what they must hold.

    Raises:
        PatternError: an automaton of keys has too many states.

    """
    found = [replace(objects, held=frozenset())]
    for held in sorted(objects.held, key=lambda each: each.pointer):
        found = [part for each in found for part in _reduced(each, held, expander, notes)]
    return found


def _reduced(objects: Objects, held: Held, expander: Expander, notes: set[Note]) -> list[Objects]:
    named = held.keys.keys if isinstance(held.keys, Others) else ()
    declared = tuple(
        dict.fromkeys((*(key for key, _ in objects.members), *objects.required, *sorted(named)))
    )
    found = []
    for key in declared:
        if not has_key(held.keys, key, expander):
            continue
        conj = member(objects, key, expander)
        if expander.is_empty(both(conj, held.value)):
            continue
        if key in objects.required and _is_within(conj, held.value, expander):
            return [objects]
        found.append(_with_member(objects, key, held.value))
    names = frozenset(declared)
    rules = objects.rules | _only(held.keys, expander)
    _, values = free_keys(replace(objects, rules=rules), names, expander, notes)
    if all(expander.is_empty(both(conj, held.value)) for conj in values):
        return found
    _, every_value = free_keys(objects, names, expander, notes)
    optional = [key for key in declared if key not in objects.required]
    if (
        len(optional) <= MAX_OPTIONAL
        and isinstance(held.keys, Others)
        and not held.keys.patterns
        and all(_is_within(conj, held.value, expander) for conj in every_value)
    ):
        return found + _with_free_member(objects, optional)
    notes.add(
        Note(
            "not-keys",
            held.pointer,
            "that some key is not so is not enforced",
            "say what is allowed instead of what is not",
        )
    )
    return [replace(objects, low=max(objects.low, 1))]


def _with_member(objects: Objects, key: str, value: Conj) -> Objects:
    """Return the objects that have a member, of which its value is this too."""
    members = dict(objects.members)
    members[key] = both(members.get(key, TRUE), value)
    required = tuple(dict.fromkeys((*objects.required, key)))
    return replace(objects, members=tuple(members.items()), required=required)


def _with_free_member(objects: Objects, optional: list[str]) -> list[Objects]:
    """Return the objects that have some member besides those that are declared."""
    found = [objects]
    for key in optional:
        found = [_with_member(each, key, TRUE) for each in found] + [
            replace(each, members=tuple({**dict(each.members), key: FALSE}.items()))
            for each in found
        ]
    return [replace(each, low=max(each.low, len(each.required) + 1)) for each in found]


def _is_within(conj: Conj, wider: Conj, expander: Expander) -> bool:
    """Tell whether what is in the one is in the other, which is an atom or true."""
    return wider in (TRUE, conj) or expander.is_empty(both(conj, expander.negation(wider)))


def _only(keys: Keys, expander: Expander) -> frozenset[tuple[Keys, Conj]]:
    """Return rules that forbid every free key that is not of a kind."""
    nothing: frozenset[str] = frozenset()
    if isinstance(keys, Matching):
        return frozenset({(Others(nothing, frozenset({keys.pattern})), FALSE)})
    if isinstance(keys, Others):
        return frozenset((Matching(pattern), FALSE) for pattern in keys.patterns)
    return frozenset({(Unnamed(expander.negation(keys.names)), FALSE)})
