"""One schema, from end to end.

Owns the order of the steps and the refusals. Never lets an exception through for what a schema
says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_compiler.arguments.schema.build import Builder
from catalog_compiler.arguments.schema.expand import Expander
from catalog_compiler.arguments.schema.nesting import MAX_NESTING, is_too_deep
from catalog_compiler.arguments.schema.places import Places, both
from catalog_compiler.arguments.schema.prune import grammar_of
from catalog_compiler.arguments.schema.result import (
    Budget,
    CompiledSchema,
    Note,
    RefusedError,
    SchemaLimits,
    too_large,
)  # fmt: skip

if TYPE_CHECKING:
    from catalog_compiler.arguments.values import Json

_IMPOSSIBLE = Note(
    "arguments-impossible", "", "no value satisfies the schema",
    "look for what contradicts: required against properties, bounds, types",
)  # fmt: skip

_TOO_DEEP = Note(
    "arguments-too-deep", "",
    f"every value has more than {MAX_NESTING} objects and arrays within one another",
    "require less of what is deep inside, or split the tool",
)  # fmt: skip


def compile_schema(
    schema: Json,
    limits: SchemaLimits | None = None,
    *,
    root_object: bool = False,
    assert_formats: bool = True,
    close_objects: bool = False,
) -> CompiledSchema:
    """Compile a schema.

    Args:
        schema: as parsed from JSON.
        limits: bounds on time and size.
        root_object: only objects are arguments.
        assert_formats: `format` constrains; else it only describes.
        close_objects: an object that declares `properties` and says nothing of further members has
            none. That is less than the schema allows, and for whoever must not invent members.

    Returns:
        The grammar with what it leaves out, or why there is none.

    """
    budget = Budget(limits or SchemaLimits())
    try:
        places = Places(schema, budget.limits, close_objects=close_objects)
        expander = Expander(places, budget, assert_formats=assert_formats)
        root = places.root_conj()
        if root_object:
            root = both(root, places.made_at_root({"type": "object"}))
        builder = Builder(expander, budget)
        builder.build(root)
        grammar = grammar_of(builder.groups, root)
        if grammar is None:
            return CompiledSchema(None, _IMPOSSIBLE)
        if len(grammar.nodes) > budget.limits.nodes:
            raise too_large(f"its grammar has more than {budget.limits.nodes} nodes")
        if is_too_deep(grammar):
            return CompiledSchema(None, _TOO_DEEP)
    except RefusedError as error:
        return CompiledSchema(None, error.note)
    except RecursionError:
        return CompiledSchema(None, too_large("a value within it is too deep").note)
    left_out, told = tuple(sorted(builder.notes)), tuple(sorted(expander.told))
    return CompiledSchema(grammar, None, left_out, told)
