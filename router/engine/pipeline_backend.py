"""The backend that is served: retrieval and prompt before the decoder, calibration after it.

A job that wants arguments goes to the decoder twice under its one handle: to choose, then to write.

Owns the join of `router.pipeline` and `decoder.engine` under the engine loop. Never reads a
message and never falls back: what can't be loaded or proved is raised.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from catalog_compiler.artifact import open_artifact
from catalog_compiler.errors import CatalogError
from decoder.encoder import load_encoder
from decoder.engine import Engine
from decoder.engine import EngineConfig as DecoderConfig
from decoder.errors import BudgetError, CapacityError, RequestError
from decoder.model import load_model
from decoder.self_check import self_check
from router import assets
from router.arguments.decode import ArgumentPlan, budget_too_small
from router.catalogs import CatalogMismatchError, LoadedCatalog
from router.chat import PromptError
from router.engine.argument_decoding import ArgumentDecoding, OpenArguments, with_arguments
from router.engine.backend import CatalogRefusedError, Ended
from router.engine.facts import (
    DEFAULT_MAX_REQUEST_TOKENS,
    DESCRIPTION_CHARS,
    Answer,
    CatalogFacts,
    ToolFacts,
)
from router.jobs import InvalidJobError, TooLongError, UnknownCatalogError
from router.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from decoder.encoder import Encoder
    from decoder.engine import Finished, GenerateRequest, GenerateResult, WalkResult
    from decoder.model import LoadedModel
    from router.engine.facts import EngineConfig
    from router.jobs import AllowRule, RouteJob
    from router.pipeline import PreparedRoute


@dataclass(frozen=True, slots=True)
class _Open:
    """An open catalog: `tokens` is (tools,) int64, those of each definition."""

    catalog: LoadedCatalog
    facts: CatalogFacts
    tokens: npt.NDArray[np.int64]
    arguments: OpenArguments | None


@dataclass(frozen=True, slots=True)
class _Writing:
    """What was chosen, and the arguments that are being written for it."""

    answer: Answer
    plan: ArgumentPlan
    chosen_at: float


@dataclass(slots=True)
class _Job:
    """A job between `submit` and its end.

    Attributes:
        opened: its catalog; it stays, should the catalog be closed meanwhile.
        prepared: its way to the choice.
        offered_tokens: tokens of the allowed tools' definitions.
        prepared_at: when it was ready to choose.
        writing: what comes after the choice, or None before it.
        running: its handle in the decoder; None while it waits for KV memory.

    """

    opened: _Open
    prepared: PreparedRoute
    offered_tokens: int
    prepared_at: float
    writing: _Writing | None = None
    running: int | None = None


class PipelineBackend:
    """Routes over compiled catalogs with one model."""

    def __init__(
        self,
        model: LoadedModel,
        encoder: Encoder,
        slots: int,
        max_request_tokens: int = DEFAULT_MAX_REQUEST_TOKENS,
        *,
        arguments: bool = True,
    ) -> None:
        """Take a model that has passed its self-check; `arguments` says whether any are written."""
        self._model = model
        self._encoder = encoder
        self._slots = slots
        self._max_request_tokens = max_request_tokens
        self._engine = Engine(model.transformer, DecoderConfig(max_slots=slots))
        self._pipeline = Pipeline(encoder)
        self._arguments = ArgumentDecoding(model) if arguments else None
        self._open: dict[str, _Open] = {}
        self._jobs: dict[int, _Job] = {}
        self._by_running: dict[int, int] = {}
        self._waiting: deque[int] = deque()
        self._handles = itertools.count(1)

    @property
    def model_digest(self) -> str:
        """Digest of the model's files, hex."""
        return self._model.digest

    def open_catalog(self, path: Path) -> CatalogFacts:
        """Map a compiled catalog and index it; raises CatalogRefusedError."""
        try:
            compiled = open_artifact(path)
            if compiled.digest in self._open:
                return self._open[compiled.digest].facts
            catalog = LoadedCatalog.from_compiled(
                compiled, self._model.tokenizer, self._encoder, self._encoder.digest
            )
            arguments = None
            if self._arguments is not None:
                arguments = self._arguments.open(compiled, catalog)
        except (CatalogError, CatalogMismatchError, PromptError, RequestError) as error:
            raise CatalogRefusedError(str(error)) from error
        tokens = compiled.token_counts.astype(np.int64)
        facts = CatalogFacts(catalog.digest, str(path), len(catalog.tools), int(tokens.sum()))
        self._open[catalog.digest] = _Open(catalog, facts, tokens, arguments)
        self._pipeline.add_catalog(catalog)
        return facts

    def close_catalog(self, digest: str) -> None:
        """Forget a catalog; jobs on it still end."""
        if self._open.pop(digest, None) is not None:
            self._pipeline.remove_catalog(digest)

    @property
    def slot_tokens(self) -> int:
        """Tokens of KV memory that each slot stands for."""
        return self._engine.kv_tokens // self._slots

    def tools(
        self, digest: str, start: int, limit: int, visible: AllowRule | None
    ) -> Sequence[ToolFacts]:
        """Return a page of a catalog's visible tools; raises UnknownCatalogError."""
        found = self._open.get(digest)
        if found is None:
            raise UnknownCatalogError(f"catalog {digest} is not open")
        shown = found.catalog.visible_tools(visible)[start : start + limit].tolist()
        return [
            ToolFacts(tool.name, tool.namespace, tool.description[:DESCRIPTION_CHARS], tool.tags)
            for tool in (found.catalog.tools[index] for index in shown)
        ]

    def submit(self, job: RouteJob) -> int:
        """Retrieve, write the prompt and start the walk; raises JobError or DecoderError."""
        if job.arguments is not None and self._arguments is None:
            raise InvalidJobError("this engine was started without arguments")
        self._check_length(job)
        prepared = self._pipeline.prepare(job)
        opened = self._open[job.catalog_digest]
        offered = int(opened.tokens[prepared.evidence.tools].sum())
        handle = next(self._handles)
        self._jobs[handle] = _Job(opened, prepared, offered, time.perf_counter())
        if self._waiting:  # else one that needs much memory would be overtaken for ever
            self._waiting.append(handle)
            return handle
        try:
            self._start(handle)
        except CapacityError:
            self._waiting.append(handle)
        except BaseException:
            del self._jobs[handle]
            raise
        return handle

    def cancel(self, handle: int) -> None:
        """Give a job up and free its slot and KV memory."""
        job = self._jobs.pop(handle, None)
        if job is None:
            return
        if job.running is None:
            self._waiting.remove(handle)
            return
        del self._by_running[job.running]
        self._engine.cancel(job.running)

    def step(self) -> list[Ended]:
        """Run one pass; start what waited for memory as far as it fits now."""
        ends = [self._go_on(finished) for finished in self._engine.step()]
        ended = [end for end in ends if end is not None]
        while self._waiting:
            handle = self._waiting[0]
            try:
                self._start(handle)
            except CapacityError as error:
                if self._engine.alive:
                    break
                ended.append(self._give_up(handle, error))  # alone, and still too large
            except BudgetError:
                ended.append(self._end_unwritten(handle))
            except Exception as error:  # noqa: BLE001  (this job's fault alone)
                ended.append(self._give_up(handle, error))
            self._waiting.popleft()
        return ended

    def _check_length(self, job: RouteJob) -> None:
        """Refuse texts of too many tokens; a token is at least a byte, so most need no counting."""
        limit = self._max_request_tokens
        for name, text in (("text", job.text), ("previous_turn", job.previous)):
            if len(text.encode(errors="replace")) <= limit:
                continue
            count = len(self._model.tokenizer.tokenizer.encode(text, add_special_tokens=False).ids)
            if count > limit:
                raise TooLongError(
                    f"{name} has {count} tokens; at most {limit} are taken: send what is asked "
                    "for, and leave documents to the tool"
                )

    def _start(self, handle: int) -> None:
        """Hand a job's next part to the decoder; raises DecoderError."""
        job = self._jobs[handle]
        if job.writing is None:
            running = self._engine.submit(job.prepared.request)
        else:
            running = self._engine.submit(self._request(job.opened, job.writing.plan))
        job.running = running
        self._by_running[running] = handle

    def _request(self, opened: _Open, plan: ArgumentPlan) -> GenerateRequest:
        assert self._arguments is not None
        assert opened.arguments is not None
        return self._arguments.request(opened.arguments, plan)

    def _give_up(self, handle: int, error: Exception) -> Ended:
        del self._jobs[handle]
        return Ended(handle, None, error)

    def _go_on(self, finished: Finished) -> Ended | None:
        """Take what the decoder has ended; None where the job goes on with its arguments."""
        handle = self._by_running.pop(finished.handle)
        job = self._jobs[handle]
        job.running = None
        try:
            if finished.result is not None:
                return self._chosen(handle, job, finished.result)
            if finished.generated is not None:
                return self._written(handle, job, finished.generated)
        except Exception as error:  # noqa: BLE001  (this job's fault alone)
            return self._give_up(handle, error)
        if isinstance(finished.error, BudgetError):
            return self._end_unwritten(handle)
        return self._give_up(handle, finished.error or RuntimeError("it ended without a result"))

    def _chosen(self, handle: int, job: _Job, walk: WalkResult) -> Ended | None:
        """Answer with the choice, or go on to its arguments."""
        chosen_at = time.perf_counter()
        ranked = self._pipeline.finish(job.prepared, walk)
        answer = Answer(ranked, job.offered_tokens, chosen_at - job.prepared_at)
        chosen = ranked.candidates[0].tool_index
        route = job.prepared.job
        if route.arguments is None or chosen is None:
            return self._end(handle, answer)
        assert self._arguments is not None
        assert job.opened.arguments is not None
        plan = self._arguments.plan(
            job.opened.arguments, chosen, route.arguments, route.text, route.previous
        )
        if not isinstance(plan, ArgumentPlan):
            return self._end(handle, with_arguments(answer, plan, chosen_at))
        job.writing = _Writing(answer, plan, chosen_at)
        try:
            self._start(handle)
        except CapacityError:
            self._waiting.appendleft(handle)  # it came before all that wait
        except BudgetError:
            return self._end_unwritten(handle)
        return None

    def _written(self, handle: int, job: _Job, result: GenerateResult) -> Ended:
        writing = job.writing
        assert writing is not None
        assert self._arguments is not None
        arguments = self._arguments.read(writing.plan, result)
        answer = with_arguments(
            writing.answer, arguments, writing.chosen_at, result.prompt_tokens, result.passes
        )
        return self._end(handle, answer)

    def _end_unwritten(self, handle: int) -> Ended:
        """Answer with the choice where not even the shortest arguments fit."""
        writing = self._jobs[handle].writing
        assert writing is not None
        arguments = budget_too_small(writing.plan)
        return self._end(handle, with_arguments(writing.answer, arguments, writing.chosen_at))

    def _end(self, handle: int, answer: Answer) -> Ended:
        del self._jobs[handle]
        return Ended(handle, answer, None)


def make_pipeline_backend(config: EngineConfig) -> PipelineBackend:
    """Load model and encoder and prove the machine.

    Raises:
        AssetError, ModelError: something can't be loaded.
        SelfCheckError: this machine does not compute what the numerics define.

    """
    path = Path(config.model) if config.model else assets.smollm2_gguf()
    model = load_model(path, threads=config.threads)
    self_check(model)
    encoder = load_encoder(assets.minilm_dir(), threads=config.threads)
    return PipelineBackend(
        model, encoder, config.slots, config.max_request_tokens, arguments=config.arguments
    )
