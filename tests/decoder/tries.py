"""Tries from token strings, and the exhaustive truth that the walk is checked against."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from decoder.logprob import log_softmax
from decoder.trie import Trie

Names = Sequence[tuple[int, ...]]
LogitsOf = Callable[[tuple[int, ...], Sequence[int]], np.ndarray]


def build_trie(names: Names) -> Trie:
    """Return the radix trie of prefix-free token strings; leaf i is the i-th in sorted order."""
    ordered = sorted(names)
    edges: list[list[tuple[int, tuple[int, ...], int]]] = []
    spans: list[tuple[int, int]] = []

    def common(lo: int, hi: int, depth: int) -> int:
        first, last = ordered[lo], ordered[hi - 1]
        end = depth
        while end < min(len(first), len(last)) and first[end] == last[end]:
            end += 1
        return end

    def add(lo: int, hi: int, depth: int) -> int:
        node = len(edges)
        edges.append([])
        spans.append((lo, hi))
        if hi - lo > 1:
            start = lo
            while start < hi:
                token = ordered[start][depth]
                end = start
                while end < hi and ordered[end][depth] == token:
                    end += 1
                after = len(ordered[start]) if end - start == 1 else common(start, end, depth + 1)
                child = add(start, end, after)
                edges[node].append((token, ordered[start][depth + 1 : after], child))
                start = end
        return node

    root = len(ordered[0]) if len(ordered) == 1 else common(0, len(ordered), 0)
    add(0, len(ordered), root)
    flat = [edge for node in edges for edge in node]
    as_int = lambda values: np.array(values, np.int32)  # noqa: E731
    return Trie(
        root_run=as_int(ordered[0][:root]),
        edge_offsets=as_int([0, *np.cumsum([len(node) for node in edges])]),
        edge_tokens=as_int([e[0] for e in flat]),
        edge_nodes=as_int([e[2] for e in flat]),
        run_offsets=as_int([0, *np.cumsum([len(e[1]) for e in flat], dtype=int)]),
        run_tokens=as_int([t for e in flat for t in e[1]]),
        leaf_lo=as_int([s[0] for s in spans]),
        leaf_hi=as_int([s[1] for s in spans]),
    )


def exhaustive(
    names: Names, allowed: np.ndarray, prompt: tuple[int, ...], logits_of: LogitsOf
) -> list[tuple[float, int]]:
    """Return (log-probability, leaf) of every allowed leaf, best first, by trying all of them."""
    ordered = sorted(names)
    kept = [(leaf, ordered[leaf]) for leaf in np.flatnonzero(allowed)]
    found: list[tuple[float, int]] = []

    def walk(group: list[tuple[int, tuple[int, ...]]], depth: int, logprob: float) -> None:
        if len(group) == 1:
            found.append((logprob, int(group[0][0])))
            return
        tokens = sorted({name[depth] for _, name in group})
        steps = [0.0]
        if len(tokens) > 1:
            path = (*prompt, *group[0][1][:depth])
            steps = log_softmax(logits_of(path, tokens)).tolist()
        for token, step in zip(tokens, steps, strict=True):
            below = [entry for entry in group if entry[1][depth] == token]
            walk(below, depth + 1, logprob + step if len(tokens) > 1 else logprob)

    walk(kept, 0, 0.0)
    return sorted(found, key=lambda entry: (-entry[0], entry[1]))
