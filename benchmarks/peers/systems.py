"""How each system is driven: in the best way it offers, on the same prompts and the same names.

Owns one class a system. Each answers one job, a job over the whole catalog's names, or many at
once, greedily, and tells apart the time for making a grammar and the time for the answer.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from benchmarks.models import RANDOM, model_called
from router import assets

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.peers.jobs import Job, Work

THREADS = 2
MAX_ANSWER_TOKENS = 64
TRIAL_TOKENS = 96
"""Length of the prompt by which a float type is chosen."""
PLAIN_PRODUCTS = "PEERS_LLAMA_PLAIN"
RANDOM_GGUF = "PEERS_RANDOM_GGUF"
Reply = dict[str, Any]


class System(Protocol):
    """What the worker asks of a system."""

    how: str

    def one(self, job: Job) -> Reply:
        """Answer one job over its shortlist."""
        ...

    def whole(self, job: Job) -> Reply:
        """Answer one job over every name of the catalog."""
        ...

    def many(self, jobs: list[Job]) -> Reply:
        """Answer jobs that come at once."""
        ...


class Ours:
    """The engine in this process, without gRPC: the peers have none either."""

    def __init__(self, model: str, work: Work) -> None:
        from decoder.engine import Engine, EngineConfig  # noqa: PLC0415
        from decoder.trie import Trie  # noqa: PLC0415

        runner = model_called(model, THREADS)
        self._engine = Engine(runner, EngineConfig(max_slots=8))
        self._trie = Trie(**{k: np.array(v, np.int32) for k, v in work.trie.items()})
        self._names = work.all_names
        self.how = f"int8 weights, 16-bit activations, {THREADS} threads, cache of prompt heads"

    def one(self, job: Job) -> Reply:
        """See `System`."""
        return self.many([job])

    def whole(self, job: Job) -> Reply:
        """See `System`."""
        return self._run([job], masked=False)

    def many(self, jobs: list[Job]) -> Reply:
        """See `System`."""
        return self._run(jobs, masked=True)

    def _run(self, jobs: list[Job], *, masked: bool) -> Reply:
        from decoder.engine import WalkRequest  # noqa: PLC0415

        start = time.perf_counter()
        handles: dict[int, int] = {}
        names: dict[int, str] = {}
        for place, job in enumerate(jobs):
            allowed = None
            if masked:
                allowed = np.zeros(self._trie.leaves, np.bool_)
                allowed[job.leaves] = True
            prompt = np.array(job.prompt, np.int32)
            handles[self._engine.submit(WalkRequest(prompt, self._trie, allowed))] = place
        while len(names) < len(jobs):
            for ended in self._engine.step():
                assert ended.result is not None
                names[handles[ended.handle]] = self._names[int(ended.result.leaves[0])]
        took = time.perf_counter() - start
        return {"s": took, "grammar_s": 0.0, "names": [names[i] for i in range(len(jobs))]}


class LlamaCpp:
    """llama-cpp-python: one context, requests in line, GBNF of the names."""

    def __init__(self, model: str, work: Work) -> None:
        import llama_cpp  # noqa: PLC0415

        self._library: Any = llama_cpp
        plain = os.environ.get(PLAIN_PRODUCTS)
        if plain:
            defaults = llama_cpp.llama_model_default_params

            def without_extra_buffers() -> Any:
                params = defaults()
                params.use_extra_bufts = False
                return params

            llama_cpp.llama_cpp.llama_model_default_params = without_extra_buffers
            llama_cpp.llama_model_default_params = without_extra_buffers
        path = str(assets.smollm2_gguf()) if model != RANDOM else model_file()
        self._model = llama_cpp.Llama(
            path, n_ctx=1024, n_batch=512, n_threads=THREADS, n_threads_batch=THREADS,
            logits_all=False, verbose=False,
        )  # fmt: skip
        self._end = work.end_token
        self._all = self._grammar(work.all_names)
        tiles = (
            "without its tile registers, on which it breaks off" if plain else "all its products"
        )
        self.how = (
            f"{'Q4_1' if model != RANDOM else 'Q8_0'}, {tiles}, {THREADS} threads, one context "
            "that keeps common prompt heads, many clients in line"
        )

    def one(self, job: Job) -> Reply:
        """See `System`."""
        return self.many([job])

    def whole(self, job: Job) -> Reply:
        """See `System`."""
        start = time.perf_counter()
        name = self._answer(job, self._all)
        return {"s": time.perf_counter() - start, "grammar_s": 0.0, "names": [name]}

    def many(self, jobs: list[Job]) -> Reply:
        """See `System`."""
        start = time.perf_counter()
        grammars = [self._grammar(job.names) for job in jobs]
        made = time.perf_counter()
        names = [self._answer(job, g) for job, g in zip(jobs, grammars, strict=True)]
        return {"s": time.perf_counter() - made, "grammar_s": made - start, "names": names}

    def _grammar(self, names: list[str]) -> Any:
        choices = " | ".join(json.dumps(name) for name in names)
        return self._library.LlamaGrammar.from_string(f"root ::= {choices}", verbose=False)

    def _answer(self, job: Job, grammar: Any) -> str:
        tokens: list[int] = []
        for token in self._model.generate(job.prompt, temp=0.0, grammar=grammar):
            if token == self._end or len(tokens) > MAX_ANSWER_TOKENS:
                break
            tokens.append(token)
        text: str = self._model.detokenize(tokens).decode(errors="replace")
        return text


class Transformers:
    """transformers' `generate` with a logits processor that holds each row to its grammar."""

    library = ""

    def __init__(self, model: str, work: Work) -> None:
        import torch  # noqa: PLC0415
        import transformers  # noqa: PLC0415

        library: Any = transformers.logging
        library.set_verbosity_error()
        torch.set_num_threads(THREADS)
        self._torch: Any = torch
        self._hf: Any = transformers
        path = assets.smollm2_gguf()
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(
            path.parent, gguf_file=path.name
        )
        if model == RANDOM:
            self._model = random_transformers_model()
        else:
            self._model = transformers.AutoModelForCausalLM.from_pretrained(
                path.parent, gguf_file=path.name, dtype=torch.bfloat16
            )
        self._model.eval()
        dtype = self._choose_dtype()
        self._end = work.end_token
        self._vocab = int(self._model.config.vocab_size)
        self._prepare()
        self._all = work.all_names
        self._whole: Any = None
        self.how = f"{self.library}, transformers in {dtype}, {THREADS} threads, batched generate"

    def _choose_dtype(self) -> str:
        """Keep the float type in which this CPU reads a prompt faster; return its name."""
        torch = self._torch
        ids = torch.arange(TRIAL_TOKENS)[None]

        def seconds() -> float:
            took = []
            with torch.inference_mode():
                for _ in range(2):
                    start = time.perf_counter()
                    self._model(ids)
                    took.append(time.perf_counter() - start)
            return min(took)

        narrow = seconds()
        # The model's own `to` refuses what was read from a GGUF, though its weights are floats now.
        torch.nn.Module.to(self._model, torch.float32)
        if seconds() <= narrow:
            return "float32"
        torch.nn.Module.to(self._model, torch.bfloat16)  # exact: the values came from there
        return "bfloat16"

    def _prepare(self) -> None:
        raise NotImplementedError

    def _processor(self, names: list[str]) -> Callable[[Any, Any], Any]:
        """Return a fresh logits processor for one row; what can be kept of a grammar is kept."""
        raise NotImplementedError

    def one(self, job: Job) -> Reply:
        """See `System`."""
        return self.many([job])

    def whole(self, job: Job) -> Reply:
        """See `System`: the grammar of the whole catalog is made once, as a user would."""
        if self._whole is None:
            self._whole = self._compiled(self._all)
        start = time.perf_counter()
        names = self._generate([job], [self._fresh(self._whole)])
        return {"s": time.perf_counter() - start, "grammar_s": 0.0, "names": names}

    def many(self, jobs: list[Job]) -> Reply:
        """See `System`."""
        start = time.perf_counter()
        processors = [self._fresh(self._compiled(job.names)) for job in jobs]
        made = time.perf_counter()
        names = self._generate(jobs, processors)
        return {"s": time.perf_counter() - made, "grammar_s": made - start, "names": names}

    def _compiled(self, names: list[str]) -> Any:
        raise NotImplementedError

    def _fresh(self, compiled: Any) -> Callable[[Any, Any], Any]:
        raise NotImplementedError

    def _generate(self, jobs: list[Job], processors: list[Callable[[Any, Any], Any]]) -> list[str]:
        torch = self._torch
        longest = max(len(job.prompt) for job in jobs)
        ids = torch.full((len(jobs), longest), self._end)
        mask = torch.zeros_like(ids)
        for row, job in enumerate(jobs):
            ids[row, longest - len(job.prompt) :] = torch.tensor(job.prompt)
            mask[row, longest - len(job.prompt) :] = 1
        end, vocab = self._end, self._vocab

        class Each(self._hf.LogitsProcessor):  # type: ignore[misc, name-defined]
            """Rows have grammars of their own; a row that has ended is let be."""

            def __call__(self, input_ids: Any, scores: Any) -> Any:
                for row, processor in enumerate(processors):
                    answered = input_ids[row, longest:]
                    if (answered == end).any():
                        continue
                    scores[row : row + 1] = processor(
                        input_ids[row : row + 1], scores[row : row + 1, :vocab]
                    )
                return scores

        with torch.inference_mode():
            out = self._model.generate(
                ids, attention_mask=mask, do_sample=False, max_new_tokens=MAX_ANSWER_TOKENS,
                eos_token_id=end, pad_token_id=end,
                logits_processor=self._hf.LogitsProcessorList([Each()]),
            )  # fmt: skip
        return [str(self._tokenizer.decode(r[longest:], skip_special_tokens=True)) for r in out]


class Outlines(Transformers):
    """outlines' index over the vocabulary, from a regular expression of the names."""

    library = "outlines"

    def _prepare(self) -> None:
        import outlines  # noqa: PLC0415

        self._wrapped = outlines.from_transformers(self._model, self._tokenizer)

    def _compiled(self, names: list[str]) -> Any:
        import re  # noqa: PLC0415

        from outlines.backends import get_regex_logits_processor  # noqa: PLC0415

        pattern = "(" + "|".join(re.escape(name) for name in names) + ")"
        return get_regex_logits_processor("outlines_core", self._wrapped, pattern)

    def _fresh(self, compiled: Any) -> Callable[[Any, Any], Any]:
        compiled.reset()
        processor: Callable[[Any, Any], Any] = compiled
        return processor


class XGrammar(Transformers):
    """xgrammar's compiled grammar and token bitmask."""

    library = "xgrammar"

    def _prepare(self) -> None:
        import xgrammar  # noqa: PLC0415

        info = xgrammar.TokenizerInfo.from_huggingface(
            self._tokenizer, vocab_size=self._vocab, stop_token_ids=[self._end]
        )
        self._compiler = xgrammar.GrammarCompiler(info, cache_enabled=False)
        self._xgrammar = xgrammar

    def _compiled(self, names: list[str]) -> Any:
        choices = " | ".join(json.dumps(name) for name in names)
        return self._compiler.compile_grammar(f"root ::= {choices}")

    def _fresh(self, compiled: Any) -> Callable[[Any, Any], Any]:
        from xgrammar.contrib.hf import LogitsProcessor  # noqa: PLC0415

        processor: Callable[[Any, Any], Any] = LogitsProcessor(compiled)
        return processor


def model_file() -> str:
    """Return the GGUF of the random model, which the parent wrote."""
    return os.environ[RANDOM_GGUF]


def random_transformers_model() -> Any:
    """Return transformers' Qwen3 with the weights that ours has."""
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415

    from decoder.loading.random_model import QWEN3_0_6B as SHAPE  # noqa: PLC0415
    from decoder.loading.random_model import random_checkpoint  # noqa: PLC0415
    from decoder.weights import tensor_shapes  # noqa: PLC0415

    settings = transformers.Qwen3Config(
        vocab_size=SHAPE.vocab_size, hidden_size=SHAPE.hidden_size,
        num_hidden_layers=SHAPE.layers, num_attention_heads=SHAPE.heads,
        num_key_value_heads=SHAPE.kv_heads, head_dim=SHAPE.head_dim,
        intermediate_size=SHAPE.intermediate_size, rms_norm_eps=SHAPE.rms_eps,
        rope_parameters={"rope_type": "default", "rope_theta": SHAPE.rope_theta},
        max_position_embeddings=SHAPE.context_length, tie_word_embeddings=True,
        dtype=torch.bfloat16,
    )  # fmt: skip
    net: Any = transformers.Qwen3ForCausalLM(settings)
    net = net.to(torch.bfloat16)
    checkpoint = random_checkpoint(SHAPE)
    state = net.state_dict()
    for name in tensor_shapes(SHAPE):
        drawn = checkpoint.tensor(name)
        assert drawn is not None
        state[name].copy_(torch.from_numpy(drawn))
    net.tie_weights()
    return net


SYSTEMS: dict[str, Callable[[str, Work], System]] = {
    "ours": Ours,
    "llama-cpp-python": LlamaCpp,
    "outlines": Outlines,
    "xgrammar": XGrammar,
}
