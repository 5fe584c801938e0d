"""What changed between two catalogs.

Owns the finding of added, removed, renamed and changed tools and the JSON pointers of each change
in a schema. The order of keys in an object is no change. Never reads a file.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from catalog_compiler import pointers
from catalog_compiler.likeness import Neighbours, tool_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_compiler.model import Json, Tool

RENAME_LIKENESS: Final = 0.6
"""Share of words in common from which a removed and an added tool count as one renamed."""

MAX_CHANGES: Final = 200
"""Most schema changes listed for one tool."""

_TEXT_FIELDS: Final = ("title", "description", "namespace", "source_name")
_LIST_FIELDS: Final = ("aliases", "tags")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field or one place of a schema that changed.

    Attributes:
        field: ``description``, ``title``, ``namespace``, ``source_name``, ``aliases``, ``tags`` or
            ``input_schema``.
        pointer: JSON pointer into the schema; "" is the whole field.
        kind: ``added``, ``removed`` or ``changed``.
        before: the value before, None where it was added.
        after: the value after, None where it was removed.

    """

    field: str
    pointer: str
    kind: str
    before: Json
    after: Json


@dataclass(frozen=True, slots=True)
class ToolChange:
    """One tool that is in both catalogs.

    Attributes:
        before: its routed name before.
        after: its routed name after; the same unless it was renamed.
        reason: why it counts as renamed (``alias``, ``same definition``, ``similar``), else "".
        likeness: share of words in common; 1.0 unless renamed.
        changes: what else changed; may be empty for a renamed tool.

    """

    before: str
    after: str
    reason: str
    likeness: float
    changes: tuple[FieldChange, ...]


@dataclass(frozen=True, slots=True)
class CatalogDiff:
    """The difference of two catalogs, every list sorted by name.

    Attributes:
        added: routed names only in the second.
        removed: routed names only in the first.
        renamed: tools found again under another name.
        changed: tools of the same name with another content.

    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    renamed: tuple[ToolChange, ...]
    changed: tuple[ToolChange, ...]

    @property
    def empty(self) -> bool:
        """Whether nothing changed."""
        return not (self.added or self.removed or self.renamed or self.changed)

    def to_record(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def diff_tools(before: Sequence[Tool], after: Sequence[Tool]) -> CatalogDiff:
    """Compare two catalogs; where a tool was read from (source, pointer) is no difference."""
    old = {tool.name: tool for tool in before}
    new = {tool.name: tool for tool in after}
    gone = [tool for name, tool in sorted(old.items()) if name not in new]
    come = [tool for name, tool in sorted(new.items()) if name not in old]
    renamed = _renamed(gone, come)
    changed = []
    for name in sorted(old.keys() & new.keys()):
        changes = tool_changes(old[name], new[name])
        if changes:
            changed.append(ToolChange(name, name, "", 1.0, changes))
    return CatalogDiff(
        added=tuple(t.name for t in come if t.name not in {r.after for r in renamed}),
        removed=tuple(t.name for t in gone if t.name not in {r.before for r in renamed}),
        renamed=tuple(renamed),
        changed=tuple(changed),
    )


def tool_changes(before: Tool, after: Tool) -> tuple[FieldChange, ...]:
    """Return every change of content, fields first, then the schema's in document order."""
    changes = []
    for name in _TEXT_FIELDS:
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            changes.append(FieldChange(name, "", "changed", old, new))
    for name in _LIST_FIELDS:
        old, new = sorted(getattr(before, name)), sorted(getattr(after, name))
        if old != new:
            changes.append(FieldChange(name, "", "changed", old, new))
    return (*changes, *schema_changes(before.input_schema, after.input_schema))


def schema_changes(before: Json, after: Json) -> list[FieldChange]:
    """Return the places where two JSON values differ, at most `MAX_CHANGES`.

    Lists of plain values (``required``, ``enum``) are compared whole; in the others each element
    has its own pointer.
    """
    changes: list[FieldChange] = []
    stack: list[tuple[str, Json, Json]] = [("", before, after)]
    while stack and len(changes) < MAX_CHANGES:
        pointer, old, new = stack.pop()
        if isinstance(old, dict) and isinstance(new, dict):
            pairs = [(k, old.get(k, _ABSENT), new.get(k, _ABSENT)) for k in {**old, **new}]
            stack += [(pointers.join(pointer, k), o, n) for k, o, n in reversed(pairs)]
        elif isinstance(old, list) and isinstance(new, list) and _nested(old) and _nested(new):
            longest = max(len(old), len(new))
            filled = [[*items, *[_ABSENT] * (longest - len(items))] for items in (old, new)]
            rows = list(enumerate(zip(*filled, strict=True)))
            stack += [(f"{pointer}/{i}", o, n) for i, (o, n) in reversed(rows)]
        elif old is _ABSENT:
            changes.append(FieldChange("input_schema", pointer, "added", None, new))
        elif new is _ABSENT:
            changes.append(FieldChange("input_schema", pointer, "removed", old, None))
        elif _differ(old, new):
            changes.append(FieldChange("input_schema", pointer, "changed", old, new))
    return changes


_ABSENT: Final = object()


def _differ(old: Json, new: Json) -> bool:
    """Tell JSON values apart: true is not 1, and 1.0 is 1."""
    if isinstance(old, list) and isinstance(new, list):
        return len(old) != len(new) or any(map(_differ, old, new))
    return isinstance(old, bool) != isinstance(new, bool) or bool(old != new)


def _nested(items: list[Json]) -> bool:
    return any(isinstance(item, dict | list) for item in items)


def _renamed(gone: Sequence[Tool], come: Sequence[Tool]) -> list[ToolChange]:
    """Pair removed with added tools: aliases first, then equal definitions, then likeness."""
    if not gone or not come:
        return []
    neighbours = Neighbours(come)
    by_alias = {alias: i for i, tool in enumerate(come) for alias in tool.aliases}
    candidates: list[tuple[int, float, str, int, int]] = []
    for index, tool in enumerate(gone):
        if tool.name in by_alias:
            candidates.append((0, -1.0, "alias", index, by_alias[tool.name]))
        for alike, other in neighbours.nearest(tool_words(tool)):
            if tool.description and _same_definition(tool, come[other]):
                candidates.append((1, -alike, "same definition", index, other))
            elif alike >= RENAME_LIKENESS:
                candidates.append((2, -alike, "similar", index, other))
    taken_gone: set[int] = set()
    taken_come: set[int] = set()
    renamed = []
    for _rank, negative, reason, index, other in sorted(candidates):
        if index in taken_gone or other in taken_come:
            continue
        taken_gone.add(index)
        taken_come.add(other)
        renamed.append(
            ToolChange(
                before=gone[index].name,
                after=come[other].name,
                reason=reason,
                likeness=round(-negative, 4),
                changes=tool_changes(gone[index], come[other]),
            )
        )
    return sorted(renamed, key=lambda change: change.before)


def _same_definition(left: Tool, right: Tool) -> bool:
    return left.description == right.description and not schema_changes(
        left.input_schema, right.input_schema
    )
