"""`unevaluatedItems` and `unevaluatedProperties`: what other keywords left alone.

Owns what of a shape counts as evaluated. Never decides which alternatives hold.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_compiler.arguments.schema.meet import settled
from catalog_compiler.arguments.schema.places import TRUE, both
from catalog_compiler.arguments.schema.shapes import (
    ALL_ITEMS,
    SOME_ITEMS,
    Arrays,
    Objects,
    Others,
    Seen,
    Shapes,
    Some,
    join,
)

if TYPE_CHECKING:
    from catalog_compiler.arguments.schema.holding import Oracle
    from catalog_compiler.arguments.schema.places import Conj
    from catalog_compiler.arguments.schema.reading import Reader


def without_unevaluated(shapes: Shapes, reader: Reader, oracle: Oracle) -> Shapes:
    """Return the shapes of which what nobody evaluated is as the keywords of the place say."""
    rest = reader.schema("unevaluatedItems") if "unevaluatedItems" in reader else None
    if rest is not None:
        found: list[Arrays | Some] = []
        for shape in shapes.get("array", ()):
            assert isinstance(shape, Arrays | Some)
            if isinstance(shape, Some) or shape.evaluated == SOME_ITEMS:
                if rest != TRUE:
                    _note(reader, "unevaluatedItems")
                found.append(shape)
                continue
            after = _rest_of(shape, rest, oracle)
            if after is not None:
                found.append(replace(after, evaluated=ALL_ITEMS))
        shapes = {**shapes, "array": tuple(found)}
    others = "unevaluatedProperties"
    if others not in reader:
        return join(shapes)
    conj = reader.schema(others)
    objects: list[Objects | Some] = []
    for each in shapes.get("object", ()):
        assert isinstance(each, Objects | Some)
        if isinstance(each, Some):
            if conj != TRUE:
                _note(reader, others)
            objects.append(each)
            continue
        rules = each.rules
        if not each.seen.everything and conj != TRUE:
            rules |= {(Others(each.seen.keys, each.seen.patterns), conj)}
        objects.append(replace(each, rules=rules, seen=Seen(everything=True)))
    return join({**shapes, "object": tuple(objects)})


def _rest_of(arrays: Arrays, rest: Conj, oracle: Oracle) -> Arrays | None:
    """Return the arrays whose items that are not evaluated are `rest` too."""
    if arrays.evaluated == ALL_ITEMS:
        return arrays
    size = max(len(arrays.prefix), arrays.evaluated)
    prefix = tuple(
        arrays.item(at) if at < arrays.evaluated else both(arrays.item(at), rest)
        for at in range(size)
    )
    return settled(replace(arrays, prefix=prefix, rest=both(arrays.rest, rest)), oracle)


def _note(reader: Reader, keyword: str) -> None:
    reader.note(
        "unevaluated", keyword, "what is evaluated can't be told here",
        "list the properties or items, and use additionalProperties or items",
    )  # fmt: skip


def all_evaluated(shapes: Shapes) -> Shapes:
    """Return the shapes with nothing left to unevaluated keywords."""
    return evaluated(shapes, ALL_ITEMS, Seen(everything=True))


def evaluated(shapes: Shapes, items: int, seen: Seen) -> Shapes:
    """Return the shapes with this as what was evaluated."""
    out = dict(shapes)
    out["array"] = tuple(
        replace(each, evaluated=items) if isinstance(each, Arrays) else each
        for each in shapes.get("array", ())
    )
    out["object"] = tuple(
        replace(each, seen=seen) if isinstance(each, Objects) else each
        for each in shapes.get("object", ())
    )
    return join(out)
