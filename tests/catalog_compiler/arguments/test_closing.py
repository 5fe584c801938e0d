"""Where objects are closed, nothing is written that the schema does not speak of."""

from __future__ import annotations

from typing import Any

import pytest

from catalog_compiler.arguments.member import accepts
from catalog_compiler.arguments.schema import compile_schema

DECLARED = {"properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "value", "taken"),
    [
        (DECLARED, {"a": 1}, True),
        (DECLARED, {"b": 1}, False),
        ({"properties": {}}, {}, True),
        ({"properties": {}}, {"b": 1}, False),
        ({"type": "object"}, {"b": 1}, True),
        ({**DECLARED, "additionalProperties": True}, {"b": 1}, True),
        ({**DECLARED, "patternProperties": {"^x": {}}}, {"x1": 1}, True),
        ({**DECLARED, "minProperties": 2}, {"a": 1, "b": 1}, True),
        ({**DECLARED, "required": ["c"]}, {"a": 1, "c": "x"}, True),
        ({"allOf": [DECLARED, {"properties": {"b": {}}}]}, {"a": 1, "b": 2}, True),
        ({"allOf": [DECLARED, {"properties": {"b": {}}}]}, {"a": 1, "c": 2}, False),
        ({"anyOf": [DECLARED, {"properties": {"b": {}}}]}, {"b": 2}, True),
        ({"properties": {"o": DECLARED}}, {"o": {"b": 1}}, False),
        ({"properties": {"o": {"type": "object"}}}, {"o": {"b": 1}}, True),
    ],
)
def test_closed_objects(schema: dict[str, Any], value: Any, *, taken: bool) -> None:
    """At every depth; only `close_objects` does it."""
    closed = compile_schema(schema, root_object=True, close_objects=True).grammar
    opened = compile_schema(schema, root_object=True).grammar
    assert closed is not None
    assert opened is not None
    assert accepts(closed, value) is taken
    assert accepts(opened, value)
