"""How well a request's own words tell what of a tool's arguments it speaks of.

    python -m benchmarks.argument_evidence [--json FILE]

Holds `router.arguments.mentions` against the answers that BFCL's authors count as right; no model
runs. The rules were made on the even questions; the odd ones are told apart. Ends with one line of
JSON.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import Any

from benchmarks.bfcl_gold import Question, read_questions
from benchmarks.command import add_json_option, publish
from router.arguments.mentions import Evidence
from router.arguments.parameters import Parameters
from router.assets import bfcl_dir

STRANGER = 7
"""The request that many questions on is another's: nothing of this answer should be in it."""


def count(question: Question, stranger: Question) -> Counter[str]:
    """Count what is found of one answer in its own request and in a stranger's."""
    counts: Counter[str] = Counter()
    parameters = Parameters(question.schema)
    own = Evidence(question.text)
    for parameter in parameters.top:
        values = question.values(parameter.key)
        if parameter.required:
            found = [found_alone(question.text, parameter.key, v, parameters) for v in values]
            other = [found_alone(stranger.text, parameter.key, v, parameters) for v in values[:1]]
            if values:
                counts["required"] += 1
                counts["required found"] += any(found)
                counts["strange"] += 1
                counts["strange not found"] += not any(other)
            continue
        kind = "either" if question.may_omit(parameter.key) and values else "needed"
        if not values:
            kind = "not wanted"
        counts[kind] += 1
        counts[f"{kind} open"] += own.mentions(parameter, parameters)
    return counts


def found_alone(text: str, key: str, value: Any, parameters: Parameters) -> bool:
    """Tell whether a value is in a text, as if it were the only one."""
    return not Evidence(text).examine({key: value}, parameters).missing


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_json_option(parser)
    options = parser.parse_args()
    questions = read_questions(bfcl_dir())
    result: dict[str, Any] = {"benchmark": "argument_evidence", "questions": len(questions)}
    for half, start in (("made_on", 0), ("held_out", 1)):
        counts: Counter[str] = Counter()
        for number in range(start, len(questions), 2):
            counts += count(questions[number], questions[(number + STRANGER) % len(questions)])
        result[half] = dict(sorted(counts.items()))
        print(f"{half.replace('_', ' ')}:")
        for whole, part, what in (
            ("needed", "needed open", "optional members that the answer must have: open"),
            ("either", "either open", "optional members that it may have: open"),
            ("not wanted", "not wanted open", "optional members that it must not have: open"),
            ("required", "required found", "required values: found in their request"),
            ("strange", "strange not found", "required values: not found in a stranger's request"),
        ):
            print(
                f"  {what}: {counts[part]} of {counts[whole]} ({counts[part] / counts[whole]:.1%})"
            )
    publish(result, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
