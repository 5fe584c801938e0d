"""Keywords that apply other schemas in the same place.

Owns `allOf`, `anyOf`, `oneOf`, `not`, `if`, `$ref` and the dependent keywords, and their negation.
Never remembers anything (`expand`).
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

from catalog_compiler.arguments.schema import keywords, negation
from catalog_compiler.arguments.schema.places import TRUE
from catalog_compiler.arguments.schema.shapes import EVERYTHING, Seen, Shapes, join
from catalog_compiler.arguments.schema.unevaluated import (
    all_evaluated,
    evaluated,
    without_unevaluated,
)
from catalog_compiler.arguments.values import TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from catalog_compiler.arguments.schema.expand import Expander
    from catalog_compiler.arguments.schema.places import Conj
    from catalog_compiler.arguments.schema.reading import Reader
    from catalog_compiler.arguments.schema.result import Note

MAX_SUBSETS: Final = 5
"""Options of an anyOf past which unevaluated keywords don't tell apart which of them hold."""
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_ALL_BUT_OBJECT: Final = [kind for kind in TYPES if kind != "object"]


def holding(reader: Reader, expander: Expander, notes: set[Note]) -> Shapes:
    """Return the values for which the place's schema holds."""
    shapes = keywords.of_types(reader, expander)
    for values in keywords.of_values(reader):
        shapes = expander.meet_values(shapes, values, reader)
    for keyword in _REFERENCES:
        if keyword in reader:
            target = expander.places.referred(reader.place, keyword)
            shapes = expander.meet_conj(shapes, target, notes)
    for conj in reader.schemas("allOf"):
        shapes = expander.meet_conj(shapes, conj, notes)
    if "if" in reader:
        shapes = _if(expander, shapes, reader, notes)
    for conj in _dependent(expander, reader):
        shapes = expander.meet_conj(shapes, conj, notes)
    if "anyOf" in reader:
        shapes = _any_of(expander, shapes, reader.schemas("anyOf"), notes, reader)
    if "oneOf" in reader:
        shapes = _one_of(expander, shapes, reader, notes)
    if "not" in reader:
        shapes = expander.meet_conj(shapes, expander.places.negation(reader.schema("not")), notes)
    if "unevaluatedItems" in reader or "unevaluatedProperties" in reader:
        shapes = without_unevaluated(shapes, reader, expander)
    return shapes


def _if(expander: Expander, shapes: Shapes, reader: Reader, notes: set[Note]) -> Shapes:
    condition = reader.schema("if")
    then = reader.schema("then") if "then" in reader else TRUE
    otherwise = reader.schema("else") if "else" in reader else TRUE
    if then == otherwise == TRUE and not expander.places.uses_unevaluated:
        return shapes
    holding = expander.meet_conj(expander.meet_conj(shapes, condition, notes), then, notes)
    failing = expander.meet_conj(shapes, expander.places.negation(condition), notes)
    return join(holding, expander.meet_conj(failing, otherwise, notes))


def _dependent(expander: Expander, reader: Reader) -> list[Conj]:
    """Return what dependentRequired and dependentSchemas say, as other schemas."""
    found: list[Conj] = []
    required = reader.place.keywords.get("dependentRequired", {})
    if not isinstance(required, dict):
        raise reader.malformed("dependentRequired", "dependentRequired is no object")
    for key, names in required.items():
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            raise reader.malformed("dependentRequired", "its values are no lists of strings")
        if names:
            options = [{"properties": {key: False}}, {"required": [key, *names]}]
            made = {"anyOf": [{"type": _ALL_BUT_OBJECT}, *options]}
            found.append(expander.places.made(reader.place, made, "dependentRequired"))
    for key, schema in reader.schema_map("dependentSchemas").items():
        if schema == TRUE:
            continue
        made = {
            "anyOf": [
                {"type": _ALL_BUT_OBJECT},
                {"properties": {key: False}},
                {"type": "object", "required": [key], "allOf": [schema]},
            ]
        }
        found.append(expander.places.made(reader.place, made, "dependentSchemas"))
    return found


def _any_of(
    expander: Expander, shapes: Shapes, options: list[Conj], notes: set[Note], reader: Reader
) -> Shapes:
    found = [expander.meet_conj(shapes, conj, notes) for conj in options]
    if not expander.places.uses_unevaluated or len(options) < 2:
        return join(*found)
    if len(options) > MAX_SUBSETS:
        reader.note(
            "unevaluated-any-of", "anyOf", "which options hold is not told apart",
            f"use at most {MAX_SUBSETS} options beside unevaluated keywords",
        )  # fmt: skip
        return all_evaluated(join(*found))
    for size in range(2, len(options) + 1):
        for chosen in combinations(options, size):
            part = shapes
            for conj in chosen:
                part = expander.meet_conj(part, conj, notes)
            found.append(part)
    return join(*found)


def _one_of(expander: Expander, shapes: Shapes, reader: Reader, notes: set[Note]) -> Shapes:
    options = reader.schemas("oneOf")
    parts = [expander.meet_conj(shapes, conj, notes) for conj in options]
    found: list[Shapes] = []
    for at, part in enumerate(parts):
        alone = part
        for other, conj in enumerate(options):
            if other == at or not parts[other] or not alone:
                continue
            alone = expander.without(alone, conj, reader, notes)
        found.append(alone)
    return join(*found)


def failing(reader: Reader, expander: Expander, notes: set[Note]) -> Shapes:
    """Return the values for which the place's schema fails."""
    found, conjs = negation.negated(reader)
    negation_of = expander.places.negation
    for keyword in _REFERENCES:
        if keyword in reader:
            conjs.append(negation_of(expander.places.referred(reader.place, keyword)))
    conjs += map(negation_of, reader.schemas("allOf"))
    conjs += map(negation_of, _dependent(expander, reader))
    if "not" in reader:
        conjs.append(reader.schema("not"))
    found += [expander.meet_conj(EVERYTHING, conj, notes) for conj in conjs]
    if "anyOf" in reader:
        found.append(_none_of(expander, reader.schemas("anyOf"), notes))
    if "oneOf" in reader:
        options = reader.schemas("oneOf")
        found.append(_none_of(expander, options, notes))
        for one, other in combinations(options, 2):
            found.append(_all_of(expander, (one, other), notes))
    if "if" in reader:
        condition = reader.schema("if")
        for holding, keyword in ((True, "then"), (False, "else")):
            if keyword in reader:
                first = condition if holding else negation_of(condition)
                refused = negation_of(reader.schema(keyword))
                found.append(_all_of(expander, (first, refused), notes))
    # A schema that fails evaluates nothing, whatever holds for it to fail.
    shapes = join(*found)
    return evaluated(shapes, 0, Seen()) if expander.places.uses_unevaluated else shapes


def _all_of(expander: Expander, conjs: Iterable[Conj], notes: set[Note]) -> Shapes:
    shapes: Shapes = EVERYTHING
    for conj in conjs:
        shapes = expander.meet_conj(shapes, conj, notes)
    return shapes


def _none_of(expander: Expander, options: list[Conj], notes: set[Note]) -> Shapes:
    return _all_of(expander, map(expander.places.negation, options), notes)
