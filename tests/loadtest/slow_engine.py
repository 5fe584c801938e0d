"""The services' fake engine, with requests that take a while, and with faults to be found.

Files in the control folder steer it: `takes` holds the number of steps that a request runs; where
`flip` is, every seventh answer has one bit changed; where `keep` is, an answer that was computed
beside others has it changed, and is kept for the next time that the same is asked.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from router.engine.process import run_engine
from tests.router.serving.fake_engine import FakeBackend

if TYPE_CHECKING:
    from router.engine.backend import Ended
    from router.engine.facts import Answer, EngineConfig
    from router.jobs import RouteJob

STEP_S = 0.002
FLIP_EVERY = 7


class SlowBackend(FakeBackend):
    """Holds each request for some steps before it ends."""

    def __init__(self, control: Path) -> None:
        super().__init__(control)
        takes = control / "takes"
        self.takes = int(takes.read_text(encoding="ascii")) if takes.exists() else 1
        self.ages: dict[int, int] = {}
        self.answers = 0
        self.kept: dict[str, float] = {}

    def submit(self, job: RouteJob) -> int:
        handle = super().submit(job)
        self.ages[handle] = 0
        return handle

    def step(self) -> list[Ended]:
        time.sleep(STEP_S)
        self.ages = {handle: self.ages[handle] + 1 for handle in self.jobs}
        young = {h: self.jobs.pop(h) for h, age in self.ages.items() if age < self.takes}
        try:
            return super().step() if self.jobs else []
        finally:
            self.jobs = {**self.jobs, **young}

    def answer(self, job: RouteJob) -> Answer:
        answer = super().answer(job)
        self.answers += 1
        ranked = answer.ranked
        changed = math.nextafter(ranked.none_probability, 1)
        if (self.control / "keep").exists():
            mine = changed if len(self.ages) > 1 else ranked.none_probability
            changed = self.kept.setdefault(job.text, mine)
        elif self.answers % FLIP_EVERY or not (self.control / "flip").exists():
            return answer
        return dataclasses.replace(
            answer, ranked=dataclasses.replace(ranked, none_probability=changed)
        )


def make_slow(config: EngineConfig) -> SlowBackend:
    return SlowBackend(Path(config.model))


if __name__ == "__main__":
    sys.exit(run_engine(make_slow))
