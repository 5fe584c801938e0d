"""One row put to one system: is each valid instance accepted, each invalid one refused, how fast.

Owns the rules and the clock. A valid instance is accepted where one of its spellings is; an invalid
one is wrongly accepted where any is.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from benchmarks.maskbench.systems import RefusedSchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.maskbench.systems import Compiled, System

Verdict = dict[str, Any]


def judge(
    system: System, schema: Any, tests: Sequence[dict[str, Any]], encode: Callable[[str], list[int]]
) -> Verdict:
    """Return what became of a row, as JSON.

    Keys: `outcome` (exact, checked: a validation follows decoding, refused, failed), `code` and
    `message` of a refusal or failure, `compile_ns`; of compiled rows `lookup_ns` of each token, and
    the places in `tests` of `valid_refused` and `invalid_accepted`, after the check where one
    follows, and of `machine_valid_refused` and `machine_invalid_accepted` without it.
    """
    start = time.perf_counter_ns()
    try:
        compiled = system.compile(schema)
        taken = time.perf_counter_ns() - start
        verdict: Verdict = {
            "outcome": "checked" if compiled.checked_after else "exact", "code": "", "message": "",
            "compile_ns": taken, "lookup_ns": [],
            "valid_refused": [], "invalid_accepted": [],
            "machine_valid_refused": [], "machine_invalid_accepted": [],
        }  # fmt: skip
        for place, test in enumerate(tests):
            accepted = _accepted(compiled, test["data"], encode, verdict["lookup_ns"])
            passed = accepted and (not compiled.checked_after or compiled.check(test["data"]))
            kind, wrong = ("valid_refused", False) if test["valid"] else ("invalid_accepted", True)
            if accepted is wrong:
                verdict[f"machine_{kind}"].append(place)
            if passed is wrong:
                verdict[kind].append(place)
    except RefusedSchemaError as refusal:
        taken = time.perf_counter_ns() - start
        return {"outcome": "refused", "code": refusal.code, "message": str(refusal)[:300],
                "compile_ns": taken}  # fmt: skip
    except Exception as error:  # noqa: BLE001 (whatever it is, it is this row's failure)
        return {"outcome": "failed", "code": type(error).__name__, "message": str(error)[:300]}
    return verdict


def _accepted(
    compiled: Compiled, value: Any, encode: Callable[[str], list[int]], lookups: list[int]
) -> bool:
    """Try every spelling up to one that is accepted; keep the times of that, else of the first."""
    first: list[int] = []
    for rank, text in enumerate(compiled.texts(value)):
        accepted, times = _walked(compiled, encode(text))
        if accepted or rank == 0:
            first = times
        if accepted:
            lookups += times
            return True
    lookups += first
    return False


def _walked(compiled: Compiled, tokens: Sequence[int]) -> tuple[bool, list[int]]:
    clock = time.perf_counter_ns
    walk = compiled.walk()
    times: list[int] = []
    for token in tokens:
        start = clock()
        walk.mask()
        taken = clock() - start
        if not walk.allows(token):
            return False, times
        start = clock()
        walk.advance(token)
        times.append(taken + clock() - start)
    return walk.complete(), times
