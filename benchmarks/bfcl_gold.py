"""BFCL's questions with the arguments that its authors count as right.

Owns the reading of the benchmark's package. Only questions with one turn and one call count. Never
asks a router.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from catalog_compiler.limits import Limits
from catalog_compiler.schemas import check_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

CATEGORIES: Final = ("simple_python", "multiple", "live_simple", "live_multiple")
OMITTED: Final = ""
"""Among the accepted values of a parameter it says that the parameter may be left out."""


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        name: the benchmark's own id.
        text: what is asked.
        tool: name of the right function.
        description: the function's.
        schema: of its parameters, in JSON Schema's own names.
        accepted: by parameter, the values that count as right; `OMITTED` where none need be given.

    """

    name: str
    text: str
    tool: str
    description: str
    schema: Any
    accepted: Mapping[str, Sequence[Any]]

    def values(self, key: str) -> list[Any]:
        """Return the accepted values of a parameter, alternatives within them spelt out."""
        given = [value for value in self.accepted.get(key, ()) if value != OMITTED]
        return [whole for value in given for whole in _spelt_out(value)]

    def may_omit(self, key: str) -> bool:
        """Tell whether the parameter may be left out."""
        return key not in self.accepted or OMITTED in self.accepted[key]


def read_questions(folder: Path) -> list[Question]:
    """Read the questions; `folder` is `router.assets.bfcl_dir()`."""
    questions = []
    for category in CATEGORIES:
        name = f"BFCL_v4_{category}.json"
        answers = {
            row["id"]: row["ground_truth"] for row in _rows(folder / "possible_answer" / name)
        }
        for row in _rows(folder / name):
            (turn,) = row["question"]
            (call,) = answers[row["id"]]
            ((tool, accepted),) = call.items()
            function = next(f for f in row["function"] if f["name"] == tool)
            questions.append(
                Question(
                    name=row["id"],
                    text=turn[-1]["content"],
                    tool=tool,
                    description=function["description"],
                    schema=check_schema(function["parameters"], name, "", tool, Limits()).schema,
                    accepted=accepted,
                )
            )
    return questions


def _rows(path: Path) -> Iterator[Any]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


def _spelt_out(value: Any) -> list[Any]:
    """Return each whole value that a nested list of alternatives stands for."""
    if isinstance(value, dict):
        keys = [key for key, options in value.items() if options != [OMITTED]]
        options = [[o for o in _options(value[key]) if o != OMITTED] for key in keys]
        return [dict(zip(keys, chosen, strict=True)) for chosen in itertools.product(*options)]
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [list(items) for items in itertools.product(*map(_spelt_out, value))]
    return [value]


def _options(accepted: Any) -> list[Any]:
    listed = accepted if isinstance(accepted, list) else [accepted]
    return [whole for option in listed for whole in _spelt_out(option)]
