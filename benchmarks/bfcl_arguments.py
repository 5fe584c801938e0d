"""How often the arguments are those that BFCL's authors count as right, the tool being given.

    python -m benchmarks.bfcl_arguments [--model smollm2 | qwen2.5-coder-1.5b] [--limit N]
                                        [--missing fill | report] [--json FILE]

Each question's right tool is taken as chosen; its arguments are written as the service writes them.
Exact match is the benchmark's own rule: every given parameter has an accepted value, every one that
is left out may be left out; texts are compared without case, blanks and some punctuation. Every
text that is given out is validated as well. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import re
import statistics
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from benchmarks.bfcl_gold import OMITTED, Question, read_questions
from benchmarks.command import add_json_option, publish
from benchmarks.qwen_coder import qwen_coder_gguf
from catalog_compiler.arguments.schema import validator
from catalog_compiler.artifact import CompiledCatalog
from catalog_compiler.compile import compile_catalog
from catalog_compiler.grammar import chat_placement
from catalog_compiler.model import Tool, ToolSet
from decoder.engine import Engine, EngineConfig
from decoder.errors import BudgetError
from decoder.model import load_model
from router.arguments.catalog import ArgumentCatalog
from router.arguments.decode import ArgumentPlan, budget_too_small
from router.arguments.prompt import ArgumentPromptWriter
from router.arguments.values import Arguments, ArgumentWish, MissingPolicy
from router.assets import bfcl_dir, smollm2_gguf
from router.chat import ChatText
from router.engine.argument_decoding import ArgumentDecoding, OpenArguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from decoder.model import LoadedModel

MODELS = {"smollm2": smollm2_gguf, "qwen2.5-coder-1.5b": qwen_coder_gguf}
IGNORED = re.compile(r"[ ,./\-_*^]")
SLOTS = 8


def is_right(question: Question, value: dict[str, Any]) -> bool:
    """Tell whether arguments are those of the benchmark."""
    if any(key not in question.accepted for key in value):
        return False
    return all(
        any(same(value[key], accepted) for accepted in question.values(key))
        if key in value
        else question.may_omit(key)
        for key in question.accepted
    )


def same(value: Any, accepted: Any) -> bool:
    """Compare two values as the benchmark does."""
    if isinstance(value, str) and isinstance(accepted, str):
        return _plain(value) == _plain(accepted)
    if isinstance(value, bool) or isinstance(accepted, bool):
        return value is accepted
    if isinstance(value, int | float) and isinstance(accepted, int | float):
        return math.isclose(value, accepted)
    if isinstance(value, list) and isinstance(accepted, list):
        return len(value) == len(accepted) and all(map(same, value, accepted))
    if isinstance(value, dict) and isinstance(accepted, dict):
        return value.keys() == accepted.keys() and all(
            same(v, accepted[k]) for k, v in value.items()
        )
    return bool(value == accepted or (value is None and accepted == OMITTED))


def _plain(text: str) -> str:
    return IGNORED.sub("", text).casefold().replace("'", '"')


class Desk:
    """Writes arguments for chosen tools, several at once, as the service does."""

    def __init__(self, model: LoadedModel, questions: Sequence[Question]) -> None:
        tokenizer = model.tokenizer
        self._decoding = ArgumentDecoding(model)
        self._engine = Engine(model.transformer, EngineConfig(max_slots=SLOTS))
        # Questions define tools of one name differently, so each has a tool of its own.
        tools = tuple(
            Tool(
                f"q{number:05}",
                question.tool,
                description=question.description,
                input_schema=question.schema,
            )
            for number, question in enumerate(questions)
        )
        compiled = CompiledCatalog.from_bytes(
            compile_catalog(
                ToolSet(tools, ()),
                tokenizer.tokenizer,
                chat_placement(tokenizer.tokenizer, tokenizer.end_of_turn),
                tokenizer_digest=tokenizer.digest,
            )
        )
        self._places = compiled.indices
        chat = ChatText(tokenizer.tokenizer, tokenizer.chat_template, bos=tokenizer.bos)
        named = [dataclasses.replace(tool, name=tool.source_name) for tool in compiled.tools]
        self._opened = OpenArguments(
            catalog=ArgumentCatalog(compiled, named, validator),
            grammars=self._decoding.grammars(compiled),
            writer=ArgumentPromptWriter(chat),
        )

    def answer(
        self, questions: Sequence[Question], wish: ArgumentWish
    ) -> list[tuple[Arguments, float]]:
        """Return arguments and the seconds that each took in the engine."""
        answers: dict[int, tuple[Arguments, float]] = {}
        open_: dict[int, tuple[int, ArgumentPlan, float]] = {}
        waiting = list(enumerate(questions))[::-1]
        while waiting or open_:
            while waiting and len(open_) < SLOTS:
                number, question = waiting.pop()
                began = time.perf_counter()
                index = self._places[f"q{number:05}"]
                asked = self._decoding.plan(self._opened, index, wish, question.text, "")
                if not isinstance(asked, ArgumentPlan):
                    answers[number] = (asked, 0.0)
                    continue
                try:
                    handle = self._engine.submit(self._decoding.request(self._opened, asked))
                except BudgetError:
                    answers[number] = (budget_too_small(asked), 0.0)
                    continue
                open_[handle] = (number, asked, began)
            for finished in self._engine.step():
                number, asked, began = open_.pop(finished.handle)
                took_s = time.perf_counter() - began
                if finished.generated is not None:
                    answers[number] = (self._decoding.read(asked, finished.generated), took_s)
                elif isinstance(finished.error, BudgetError):
                    answers[number] = (budget_too_small(asked), took_s)
                else:
                    raise RuntimeError(f"{questions[number].name} failed: {finished.error}")
        return [answers[number] for number in range(len(questions))]


def main() -> int:
    """Measure and print; exit 1 where anything invalid was given out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=sorted(MODELS), default="smollm2")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=int, help="every n-th question, so that about N are asked")
    parser.add_argument("--missing", choices=[p.value for p in MissingPolicy], default="fill")
    add_json_option(parser)
    options = parser.parse_args()
    questions = read_questions(bfcl_dir())
    if options.limit:
        questions = questions[:: max(1, len(questions) // options.limit)]
    model = load_model(MODELS[options.model](), threads=options.threads)
    desk = Desk(model, questions)
    began = time.perf_counter()
    answers = desk.answer(questions, ArgumentWish(MissingPolicy(options.missing)))
    took_s = time.perf_counter() - began
    outcomes, right, invalid = Counter[str](), Counter[str](), 0
    asked, tokens = Counter[str](), []
    for question, (arguments, _) in zip(questions, answers, strict=True):
        category = question.name.rsplit("_", 1)[0]
        asked[category] += 1
        outcomes[arguments.outcome.value] += 1
        if arguments.outcome.value != "decoded":
            continue
        tokens.append(arguments.tokens)
        value = json.loads(arguments.json)
        invalid += bool(validator(question.schema)(value))
        right[category] += is_right(question, value)
    for category, count in asked.items():
        print(f"{category}: {right[category]} of {count} exact ({right[category] / count:.1%})")
    print(f"outcomes: {dict(outcomes)}; given out and invalid: {invalid}")
    publish({
        "benchmark": "bfcl_arguments", "model": options.model, "digest": model.digest,
        "questions": len(questions), "missing": options.missing, "outcomes": dict(outcomes),
        "exact": {c: [right[c], n] for c, n in asked.items()},
        "exact_share": round(right.total() / len(questions), 4), "invalid_given_out": invalid,
        "tokens_median": statistics.median(tokens) if tokens else 0,
        "seconds": round(took_s, 1), "threads": options.threads,
    }, options.json)  # fmt: skip
    return 1 if invalid else 0


if __name__ == "__main__":
    sys.exit(main())
