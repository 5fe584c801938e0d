"""The arguments' side of the served backend: a catalog's grammars, and requests to write by them.

Owns the join of `router.arguments` and `decoder.arguments`. Never runs the model and never keeps a
job.
"""

from __future__ import annotations

import dataclasses
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from catalog_compiler.arguments.schema import validator
from catalog_compiler.arguments.tables import ArgumentPool
from decoder.arguments import ArgumentMachine, ArgumentTables, TokenVocabulary, vocabulary_of
from decoder.copying import Copying
from decoder.generation import SPARE_TOKENS, GenerateRequest
from decoder.speller import TokenSpeller
from router.arguments import decode
from router.arguments.catalog import ArgumentCatalog
from router.arguments.prompt import ArgumentPromptWriter

if TYPE_CHECKING:
    from catalog_compiler.arguments.nodes import ArgumentGrammar
    from catalog_compiler.artifact import CompiledCatalog
    from decoder.generation import GenerateResult, TokenGrammar
    from decoder.model import LoadedModel
    from router.arguments.decode import ArgumentPlan
    from router.arguments.values import Arguments, ArgumentWish
    from router.catalogs import LoadedCatalog
    from router.engine.facts import Answer


COPY_NATS: Final = 3.0
"""What a token has more that goes on with a copy of the request."""

NARROWED_KEPT: Final = 256
"""Most narrowed grammars that are kept ready, the latest used of them."""


@dataclass(frozen=True, slots=True)
class OpenArguments:
    """The arguments of an open catalog.

    Attributes:
        catalog: tool by tool.
        grammars: their grammars over the model's tokens.
        writer: writes prompts.

    """

    catalog: ArgumentCatalog
    grammars: ArgumentMachine
    writer: ArgumentPromptWriter


class ArgumentDecoding:
    """Plans arguments and reads what was written, for one model."""

    def __init__(self, model: LoadedModel) -> None:
        """Read the model's vocabulary."""
        self._context_tokens = model.config.context_length
        self._vocabulary = TokenVocabulary(vocabulary_of(model.tokenizer.tokenizer))
        self._speller = TokenSpeller(model.tokenizer.tokenizer, self._vocabulary.spellings)
        self._narrowed: OrderedDict[ArgumentGrammar, tuple[ArgumentMachine, int]] = OrderedDict()

    def open(self, compiled: CompiledCatalog, catalog: LoadedCatalog) -> OpenArguments:
        """Make a catalog's arguments ready.

        Raises:
            RequestError: its tables contradict one another.

        """
        return OpenArguments(
            catalog=ArgumentCatalog(compiled, catalog.tools, validator),
            grammars=self.grammars(compiled),
            writer=ArgumentPromptWriter(catalog.writer.chat),
        )

    def grammars(self, compiled: CompiledCatalog) -> ArgumentMachine:
        """Return the grammars of a compiled catalog's tools; raises RequestError as `open`."""
        return ArgumentMachine(ArgumentTables.from_arrays(compiled.arguments), self._vocabulary)

    def plan(
        self, opened: OpenArguments, tool_index: int, wish: ArgumentWish, text: str, previous: str
    ) -> ArgumentPlan | Arguments:
        """Decide what is to be written, or say why nothing can be."""
        tool = opened.catalog.tool(tool_index)
        return decode.plan(tool, opened.writer, wish, text, previous, self._context_tokens)

    def request(self, opened: OpenArguments, plan: ArgumentPlan) -> GenerateRequest:
        """Return what the engine is to write; a new one for each try."""
        return GenerateRequest(
            prompt=plan.prompt,
            grammar=self._begin(opened, plan),
            speller=self._speller,
            max_tokens=plan.max_tokens,
            max_string_tokens=plan.max_string_tokens,
            copying=Copying(plan.source.encode("utf-8", "replace"), self._speller),
            copy_nats=COPY_NATS,
        )

    def _begin(self, opened: OpenArguments, plan: ArgumentPlan) -> TokenGrammar:
        """Begin under the catalog's own tables, or under those of what is left of a grammar."""
        left = plan.narrowed
        if not left.closed:
            return opened.grammars.begin(plan.tool.root)
        found = self._narrowed.get(left.grammar)
        if found is None:
            found = self._narrowed[left.grammar] = self._machine_of(left.grammar)
            if len(self._narrowed) > NARROWED_KEPT:
                self._narrowed.popitem(last=False)
        self._narrowed.move_to_end(left.grammar)
        machine, root = found
        if not machine.fits(root):  # only what was closed was flat enough
            return opened.grammars.begin(plan.tool.root)
        return machine.begin(root)

    def _machine_of(self, grammar: ArgumentGrammar) -> tuple[ArgumentMachine, int]:
        pool = ArgumentPool()
        root = pool.add(grammar)
        arrays = {"roots": np.array([root], np.int32), **pool.to_arrays()}
        return ArgumentMachine(ArgumentTables.from_arrays(arrays), self._vocabulary), root

    def read(self, plan: ArgumentPlan, result: GenerateResult) -> Arguments:
        """Turn what was written into arguments."""
        tokens = len(result.tokens)
        written = decode.Written(
            text=result.text,
            tokens=tokens,
            logprob=result.logprob,
            cut=result.cut,
            spent=tokens + SPARE_TOKENS >= plan.max_tokens,
        )
        return decode.finish(plan, written)


def with_arguments(
    answer: Answer, arguments: Arguments, chosen_at: float, prompt_tokens: int = 0, passes: int = 0
) -> Answer:
    """Join arguments, and what they cost, to the answer that was chosen."""
    ranked = answer.ranked
    return dataclasses.replace(
        answer,
        ranked=dataclasses.replace(
            ranked,
            arguments=arguments,
            usage=dataclasses.replace(
                ranked.usage,
                passes=ranked.usage.passes + passes,
                argument_prompt_tokens=prompt_tokens,
                argument_tokens=arguments.tokens,
            ),
            timings=dataclasses.replace(
                ranked.timings, arguments_s=time.perf_counter() - chosen_at
            ),
        ),
    )
