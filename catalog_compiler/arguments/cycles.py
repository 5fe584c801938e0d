"""Strongly connected components of a graph, those first that others lead to.

Source: R. Tarjan, Depth-first search and linear graph algorithms, 1972; without recursion, since
schemas nest as deep as they like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def components(successors: Sequence[Sequence[int]], root: int) -> list[list[int]]:
    """Return the components that the root leads to.

    Each comes after all that it leads to; its members in the order in which a depth-first walk
    meets them, so that equal graphs give equal orders.
    """
    met: dict[int, int] = {}
    low: dict[int, int] = {}
    open_nodes: list[int] = []
    place: dict[int, int] = {}  # where an open node stands in open_nodes
    found: list[list[int]] = []
    walk: list[tuple[int, Iterator[int]]] = []

    def enter(node: int) -> None:
        met[node] = low[node] = len(met)
        place[node] = len(open_nodes)
        open_nodes.append(node)
        walk.append((node, iter(successors[node])))

    enter(root)
    while walk:
        node, rest = walk[-1]
        for child in rest:
            if child not in met:
                enter(child)
                break
            if child in place:
                low[node] = min(low[node], met[child])
        else:
            walk.pop()
            if walk:
                above = walk[-1][0]
                low[above] = min(low[above], low[node])
            if low[node] == met[node]:
                members = open_nodes[place[node] :]
                found.append(members)
                del open_nodes[place[node] :]
                for member in members:
                    del place[member]
    return found
