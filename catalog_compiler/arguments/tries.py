"""Byte tries of fixed texts (literals, keys), many of them in one set of flat arrays.

Owns their layout (`docs/arguments.md`) and that equal sets of texts are stored once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt


class TriePool:
    """Collects tries; a trie's nodes stand together, depth first, its root first."""

    def __init__(self) -> None:
        """Begin empty."""
        self._roots: dict[tuple[bytes, ...], int] = {}
        self._edges = [0]
        self._bytes: list[int] = []
        self._targets: list[int] = []
        self._values: list[int] = []
        self._leaves: list[tuple[int, int]] = []
        self._order: list[int] = []

    def add(self, texts: Sequence[bytes]) -> int:
        """Add the trie of some texts; return its root. A text's value is its position.

        Raises:
            ValueError: a text comes twice, or is empty, or there is none.

        """
        key = tuple(texts)
        root = self._roots.get(key)
        if root is None:
            if not key or not all(key) or len(set(key)) != len(key):
                raise ValueError(f"a trie takes distinct texts that are not empty, not {key[:8]!r}")
            root = self._roots[key] = len(self._values)
            self._build(sorted((text, value) for value, text in enumerate(key)))
        return root

    def to_arrays(self) -> dict[str, npt.NDArray[np.int32]]:
        """Return the arrays by name."""
        return {
            "trie_edges": np.array(self._edges, np.int32),
            "trie_bytes": np.array(self._bytes, np.int32),
            "trie_targets": np.array(self._targets, np.int32),
            "trie_values": np.array(self._values, np.int32),
            "trie_leaves": np.array(self._leaves, np.int32).reshape(len(self._leaves), 2),
            "trie_order": np.array(self._order, np.int32),
        }

    def _build(self, texts: list[tuple[bytes, int]]) -> None:
        """Lay out one trie from its sorted texts, depth first without recursion."""
        base = len(self._values)
        edges: list[list[tuple[int, int]]] = [[]]
        values, path = [-1], [0]  # path: the node after each byte of the text before
        first_value: list[int] = [0]
        before = b""
        for rank, (text, value) in enumerate(texts):
            shared = 0
            limit = min(len(before), len(text))
            while shared < limit and before[shared] == text[shared]:
                shared += 1
            del path[shared + 1 :]
            for byte in text[shared:]:
                node = len(values)
                edges[path[-1]].append((byte, node))
                edges.append([])
                values.append(-1)
                first_value.append(rank)
                path.append(node)
            values[path[-1]] = value
            before = text
        start = len(self._order)
        self._order += [value for _, value in texts]
        ends = _ends(edges, values, first_value)
        for node, own in enumerate(edges):
            self._bytes += [byte for byte, _ in own]
            self._targets += [base + target for _, target in own]
            self._edges.append(len(self._bytes))
            self._leaves.append((start + first_value[node], start + ends[node]))
        self._values += values


def _ends(
    edges: Sequence[Sequence[tuple[int, int]]], values: Sequence[int], first: Sequence[int]
) -> list[int]:
    """Return, for each node, the rank after the last text below it (children come after)."""
    ends = [0] * len(values)
    for node in range(len(values) - 1, -1, -1):
        own = edges[node]
        ends[node] = ends[own[-1][1]] if own else first[node] + 1
    return ends


def trie_texts(arrays: Mapping[str, npt.NDArray[np.generic]], root: int) -> list[bytes]:
    """Read a trie back: its texts by value.

    Raises:
        ValueError: it is malformed.
        IndexError: it is cut off.

    """
    edges, letters = arrays["trie_edges"], arrays["trie_bytes"]
    targets, values = arrays["trie_targets"], arrays["trie_values"]
    found: dict[int, bytes] = {}
    stack: list[tuple[int, bytes]] = [(root, b"")]
    while stack:
        node, text = stack.pop()
        value = int(values[node])
        if value in found:
            raise ValueError(f"value {value} comes twice below trie node {root}")
        if value >= 0:
            found[value] = text
        for edge in range(int(edges[node]), int(edges[node + 1])):
            if int(targets[edge]) <= node:
                raise ValueError(f"trie node {node} leads back")
            stack.append((int(targets[edge]), text + bytes([int(letters[edge])])))
    if sorted(found) != list(range(len(found))):
        raise ValueError(f"the values below trie node {root} are not 0 to {len(found) - 1}")
    return [found[value] for value in range(len(found))]
