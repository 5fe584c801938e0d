"""An engine process without a model, for the service's tests.

The texts of requests say what is to happen, so that tests decide every race by themselves:
`hold NAME` runs until the file NAME exists in the control folder (the engine's "model"), `fault`
fails alone, `die` takes the process down, `stuck` blocks the loop until NAME exists. Where
arguments are wanted, an outcome's name in the text is what comes of them. A catalog is a text file
of tool names, one a line; its digest is the SHA-256 of its bytes.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from router.arguments.values import GIVEN_OUT, ArgumentOutcome, Arguments, MissingPolicy
from router.engine.backend import CatalogRefusedError, Ended
from router.engine.facts import Answer, CatalogFacts, EngineConfig, ToolFacts
from router.engine.process import run_engine
from router.jobs import (
    AllowRule,
    Candidate,
    NothingAllowedError,
    NothingVisibleError,
    RankedTools,
    RouteJob,
    RouteTimings,
    RouteUsage,
    UnknownCatalogError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

MODEL_DIGEST = "f" * 64
POLL_S = 0.001
TOKENS_A_TOOL = 100
SLOT_TOKENS = 50
ARGUMENT_PROMPT_TOKENS = 11
ARGUMENT_TOKENS = 5


class FakeBackend:
    """Answers the first allowed tool whose name is in the text, else that none fits."""

    model_digest = MODEL_DIGEST
    slot_tokens = SLOT_TOKENS

    def __init__(self, control: Path) -> None:
        self.control = control
        self.catalogs: dict[str, list[str]] = {}
        self.jobs: dict[int, RouteJob] = {}
        self.handles = itertools.count(1)
        self.most_alive = 0

    def open_catalog(self, path: Path) -> CatalogFacts:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise CatalogRefusedError(str(error)) from error
        if content.startswith(b"broken"):
            raise CatalogRefusedError(f"{path} is truncated")
        digest = hashlib.sha256(content).hexdigest()
        self.catalogs[digest] = content.decode().split()
        count = len(self.catalogs[digest])
        return CatalogFacts(digest, str(path), count, TOKENS_A_TOOL * count)

    def close_catalog(self, digest: str) -> None:
        self.catalogs.pop(digest, None)
        self.note("closed", digest)

    def tools(
        self, digest: str, start: int, limit: int, visible: AllowRule | None
    ) -> Sequence[ToolFacts]:
        names = [n for n in self.catalogs[digest] if visible is None or n in visible.names]
        return [ToolFacts(n, "space", f"Does {n}.", ("t",)) for n in names[start : start + limit]]

    def submit(self, job: RouteJob) -> int:
        if job.catalog_digest not in self.catalogs:
            raise UnknownCatalogError(f"catalog {job.catalog_digest} is not loaded")
        if job.allowed is not None and not set(job.allowed.names) & set(
            self.catalogs[job.catalog_digest]
        ):
            raise NothingAllowedError("the rule leaves no tool")
        if job.visible is not None and not set(job.visible.names) & set(
            self.catalogs[job.catalog_digest] if job.allowed is None else job.allowed.names
        ):
            raise NothingVisibleError("this client may see none of it")
        handle = next(self.handles)
        self.jobs[handle] = job
        self.most_alive = max(self.most_alive, len(self.jobs))
        self.note("started", job.request_id)
        self.note("most", str(self.most_alive))
        return handle

    def cancel(self, handle: int) -> None:
        job = self.jobs.pop(handle, None)
        if job is not None:
            self.note("cancelled", job.request_id)

    def step(self) -> list[Ended]:
        ended = []
        for handle, job in list(self.jobs.items()):
            verb, name, *_ = [*job.text.split(), "", ""]
            if verb == "die":
                os._exit(9)
            while verb == "stuck" and not (self.control / name).exists():
                time.sleep(POLL_S)
            if verb == "hold" and not (self.control / name).exists():
                continue
            del self.jobs[handle]
            if verb == "fault":
                ended.append(Ended(handle, None, RuntimeError("this row is broken")))
            else:
                ended.append(Ended(handle, self.answer(job), None))
        if not ended:
            time.sleep(POLL_S)
        return ended

    def answer(self, job: RouteJob) -> Answer:
        names = self.catalogs[job.catalog_digest]
        allowed = [
            n
            for n in names
            if (job.allowed is None or not job.allowed.names or n in job.allowed.names)
            and (job.visible is None or n in job.visible.names)
        ]
        wanted = [n for n in allowed if n in job.text.split()]
        tools = [Candidate(names.index(n), n, 0.5, -1.0) for n in wanted]
        ranked = [*tools, Candidate(None, None, 0.25, 0.0)]
        arguments = self.arguments(job) if ranked[0].name is not None else None
        argument_tokens = 0 if arguments is None else arguments.tokens
        return Answer(
            ranked=RankedTools(
                request_id=job.request_id,
                catalog_digest=job.catalog_digest,
                candidates=tuple(ranked[: job.k]),
                none_probability=0.25,
                usage=RouteUsage(
                    7,
                    3,
                    1,
                    len(allowed),
                    len(names),
                    len(allowed),
                    ARGUMENT_PROMPT_TOKENS if argument_tokens else 0,
                    argument_tokens,
                ),
                timings=RouteTimings(0.001, 0.002, 0.003, 0.005 if argument_tokens else 0.0),
                arguments=arguments,
            ),
            offered_tokens=TOKENS_A_TOOL * len(allowed),
            model_s=0.004,
        )

    def arguments(self, job: RouteJob) -> Arguments | None:
        """Give what the text names; `decoded` says what was asked for."""
        if job.arguments is None:
            return None
        named = [word for word in job.text.split() if word in list(ArgumentOutcome)]
        outcome = ArgumentOutcome(named[0]) if named else ArgumentOutcome.DECODED
        if outcome is ArgumentOutcome.MISSING and job.arguments.missing is MissingPolicy.FILL:
            outcome = ArgumentOutcome.DECODED
        if outcome is ArgumentOutcome.UNAVAILABLE:
            return Arguments(outcome, code="grammar-too-large", reason="its schema is too large")
        if outcome not in GIVEN_OUT:
            return Arguments(outcome, code="broken", reason="it failed", tokens=ARGUMENT_TOKENS)
        return Arguments(
            outcome,
            json=f'{{"limit": {job.arguments.max_tokens}, "colour": "übel"}}',
            missing=("/height",) if outcome is ArgumentOutcome.MISSING else (),
            tokens=ARGUMENT_TOKENS,
            logprob=-0.1,
        )

    def note(self, what: str, text: str) -> None:
        """Leave a trace that a test can count."""
        if text != "probe":
            with (self.control / f"{what}.log").open("a", encoding="utf-8") as file:
                file.write(text + "\n")


def make_fake(config: EngineConfig) -> FakeBackend:
    control = Path(config.model)
    if (control / "refuse-start").exists():
        raise RuntimeError("the self-check failed: a product is not exact")
    backend = FakeBackend(control)
    backend.note("arguments", str(config.arguments))
    return backend


if __name__ == "__main__":
    sys.exit(run_engine(make_fake))
