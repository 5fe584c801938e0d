"""Whether an answer under load has the same bits as the same request answered alone.

Owns the comparison and its words. Never asks for an answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from router.rpc import router_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from google.protobuf.message import Message

    from loadtest.records import Record

EXAMPLES = 5

Asked = tuple[int, str]
"""What makes two requests the same: index of the case, digest of the catalog."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing came to.

    Attributes:
        compared: answers that had something to be compared with.
        different: those with other bits.
        missing: answers that nothing was found to compare with.
        examples: some of the differences, in words.

    """

    compared: int
    different: int
    missing: int
    examples: tuple[str, ...]


def wanted(records: Iterable[Record]) -> list[Asked]:
    """Return what has to be asked alone, in order, each once."""
    answered = (r for r in records if r.ending is not None and r.ending.answer is not None)
    return sorted({_asked(record) for record in answered})


def compare(records: Iterable[Record], alone: Mapping[Asked, bytes]) -> Comparison:
    """Compare each answer with the one that its request got alone."""
    compared = different = missing = 0
    examples: list[str] = []
    for record in records:
        if record.ending is None or record.ending.answer is None:
            continue
        reference = alone.get(_asked(record))
        if reference is None:
            missing += 1
            continue
        compared += 1
        if record.ending.answer.bits != reference:
            different += 1
            if len(examples) < EXAMPLES:
                said = "; ".join(explain(reference, record.ending.answer.bits))
                examples.append(f"case {record.case}, request {record.request_id}: {said}")
    return Comparison(compared, different, missing, tuple(examples))


def explain(alone: bytes, loaded: bytes) -> list[str]:
    """Name the fields that differ between two answers; doubles are written with all their bits."""
    left = dict(_leaves(pb.RouteResponse.FromString(alone), ""))
    right = dict(_leaves(pb.RouteResponse.FromString(loaded), ""))
    return [
        f"{name}: alone {left.get(name, 'absent')}, under load {right.get(name, 'absent')}"
        for name in sorted(left.keys() | right.keys())
        if left.get(name) != right.get(name)
    ]


def _asked(record: Record) -> Asked:
    assert record.ending is not None
    assert record.ending.answer is not None
    return record.case, record.ending.answer.catalog_digest


def _leaves(message: Message, prefix: str) -> Iterator[tuple[str, str]]:
    for field, value in message.ListFields():
        name = f"{prefix}{field.name}"
        items = [(name, value)]
        if field.is_repeated:
            items = [(f"{name}[{index}]", item) for index, item in enumerate(value)]
        for place, item in items:
            if field.message_type is not None:
                yield place, "present"
                yield from _leaves(item, f"{place}.")
            elif isinstance(item, float):
                yield place, item.hex() if math.isfinite(item) else repr(item)
            else:
                yield place, repr(item)
