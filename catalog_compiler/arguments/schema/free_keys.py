"""Which further keys an object may have, and what their values are.

Owns the automaton of free keys. Never looks at declared ones but to leave them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_compiler.arguments import automata
from catalog_compiler.arguments.schema import texts
from catalog_compiler.arguments.schema.places import FALSE, TRUE, Conj, both
from catalog_compiler.arguments.schema.shapes import Matching, Others, Some, Strings

if TYPE_CHECKING:
    from catalog_compiler.arguments.automaton import Automaton
    from catalog_compiler.arguments.schema.expand import Expander
    from catalog_compiler.arguments.schema.result import Note
    from catalog_compiler.arguments.schema.shapes import Objects


def free_keys(
    objects: Objects, declared: frozenset[str], expander: Expander, notes: set[Note]
) -> tuple[Automaton | None, tuple[Conj, ...]]:
    """Return the automaton of free keys, whose labels index the values, and the values.

    Raises:
        PatternError: it has too many states.

    """
    if objects.high is not None and objects.high <= len(objects.required):
        return None, ()
    sources: dict[str, int] = {}
    names: dict[Conj, int] = {}
    for keys, _ in objects.rules:
        if isinstance(keys, Matching):
            sources.setdefault(keys.pattern, len(sources))
        elif isinstance(keys, Others):
            for pattern in sorted(keys.patterns):
                sources.setdefault(pattern, len(sources))
        else:
            names.setdefault(keys.names, len(names))
    if not sources and not names:
        value = TRUE
        for _, conj in objects.rules:
            value = both(value, conj)
        return (None, ()) if value == FALSE else (texts.all_but(declared), (value,))
    parts = [automata.any_string()]
    parts += [automata.pattern(source) for source in sources]
    parts += [names_automaton(conj, expander, notes) for conj in names]
    product, labels = automata.labelled(parts)
    first_name = 1 + len(sources)
    values: dict[Conj, int] = {}
    label_of: list[int] = []
    for held in labels:
        value = TRUE if 0 in held else FALSE
        for keys, conj in objects.rules:
            if isinstance(keys, Matching):
                speaks = 1 + sources[keys.pattern] in held
            elif isinstance(keys, Others):
                speaks = not any(1 + sources[pattern] in held for pattern in keys.patterns)
            else:
                speaks = first_name + names[keys.names] not in held
            if speaks:
                value = both(value, conj)
        label_of.append(-1 if value == FALSE else values.setdefault(value, len(values)))
    automaton = texts.without(texts.relabelled(product, label_of.__getitem__), declared)
    if automaton.empty:
        return None, ()
    # Declared keys may have been all that had a label.
    left = sorted({label for label in automaton.accepts if label >= 0})
    by_label = tuple(values)
    return texts.relabelled(automaton, left.index), tuple(by_label[label] for label in left)


def names_automaton(conj: Conj, expander: Expander, notes: set[Note]) -> Automaton:
    """Return the strings that a schema of names allows. Raises PatternError."""
    found = texts.EMPTY
    expansion = expander.expand(conj)
    notes |= expansion.notes
    for shape in expansion.shapes.get("string", ()):
        if isinstance(shape, Some):
            part = automata.literals(sorted(each.value for each in shape.literals))
        else:
            assert isinstance(shape, Strings)
            part = texts.folded(shape)
        found = part if found.empty else automata.union(found, part)
    return found
