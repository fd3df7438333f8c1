# SPDX-License-Identifier: Apache-2.0
"""An NPU's overflow record: which unit overflowed, at which task, and in what way.

CANN leaves such a record where overflow detection is on (``dump_debug``): 2048 bytes
of little-endian numbers, or the JSON that its own converter makes of them. Newer
devices write a record of another layout that starts with a magic number.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import TYPE_CHECKING, Any, Final

from numcheck.errors import DumpError
from numcheck.record.damage import DAMAGE

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "SIZE",
    "Overflow",
    "decode_status",
    "overflows_in_bytes",
    "overflows_in_json",
]

SIZE: Final = 2048
"""Bytes of the older record."""

_UNITS: Final = ("DHA Atomic Add", "L2 Atomic Add", "AI Core")
_INFO_AT: Final = {"DHA Atomic Add": 0, "L2 Atomic Add": 128, "AI Core": 256}
_STATUS_AT: Final = {"DHA Atomic Add": 512, "L2 Atomic Add": 768, "AI Core": 1024 + 16}
_MAGIC: Final = 0x5A5A5A5A
_ACCELERATORS: Final = ("AIC", "AIV", "AICPU", "SDMA")
# Place of the status among the record's numbers, for each kind of accelerator.
_STATUS_PLACE: Final = {"AIC": 10, "AIV": 10, "SDMA": 9, "AICPU": 7}

_BITS: Final = {
    0x8: "integer_negation",
    0x10: "integer_arithmetic",
    0x20: "float_overflow",
    0x80: "negative_to_unsigned",
    0x100: "conversion_to_float16",
    0x400: "cube_accumulation",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Overflow:
    """One overflow that a device's own detection saw.

    Attributes:
        unit: ``AI Core``, ``L2 Atomic Add``, ``DHA Atomic Add``, ``AIV``…
        status: its status register.
        task: number of the task, as in the name of the operator's dump file.
        stream: number of the stream.
        model: number of the model or graph.
        block: number of the block, where known.
    """

    unit: str
    status: int
    task: int
    stream: int
    model: int = 0
    block: int | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """What overflowed, by the bits of the status."""
        if self.unit.endswith("Atomic Add"):
            return ("atomic_add",)
        return decode_status(self.status)


def decode_status(status: int) -> tuple[str, ...]:
    """Return what the bits of an AI Core's status say, lowest bit first.

    Example:
        >>> decode_status(0x120)
        ('float_overflow', 'conversion_to_float16')
        >>> decode_status(0x1000)
        ('bit_12',)
    """
    found = []
    for place in range(status.bit_length()):
        bit = 1 << place
        if status & bit:
            found.append(_BITS.get(bit, f"bit_{place}"))
    return tuple(found)


def overflows_in_bytes(data: bytes) -> tuple[Overflow, ...]:
    """Return the overflows in a binary record, with or without CANN's file header.

    Raises:
        DumpError: the data are no such record, or cut off.
    """
    for start in (0, _after_header(data)):
        body = data[start:]
        if len(body) >= 8 and _u32(body, 0) == _MAGIC:
            return _newer(body)
        if len(body) == SIZE:
            return _older(body)
    msg = (
        f"an overflow record has {SIZE} bytes or starts with {_MAGIC:#x}; "
        f"got {len(data)} bytes"
    )
    raise DumpError(msg)


def _after_header(data: bytes) -> int:
    """Return where the record starts: a header's length stands in front of it."""
    if len(data) < 8:
        return 0
    length = 8 + int(struct.unpack_from("<Q", data)[0])
    return length if length < len(data) else 0


def _older(data: bytes) -> tuple[Overflow, ...]:
    found = []
    for unit in _UNITS:
        status = _u64(data, _STATUS_AT[unit])
        if status:
            model, stream, task, _ = struct.unpack_from("<4Q", data, _INFO_AT[unit])
            block = _u64(data, 1024 + 8) if unit == "AI Core" else None
            found.append(Overflow(unit, status, task, stream, model, block))
    return tuple(found)


def _newer(data: bytes) -> tuple[Overflow, ...]:
    try:
        _, kind, _, size = struct.unpack_from("<4I", data, 8)
        unit = _ACCELERATORS[kind]
        numbers = struct.unpack_from(f"<{size // 8}Q", data, 24)
        place = _STATUS_PLACE[unit]
        status = next((s for s in numbers[place:] if s), 0)
        model, stream, task = numbers[:3]
    except DAMAGE as error:
        msg = f"an overflow record is cut off or damaged: {error}"
        raise DumpError(msg) from error
    block = numbers[9] if unit in ("AIC", "AIV") else None
    return (Overflow(unit, status, task, stream, model, block),) if status else ()


def overflows_in_json(record: Mapping[str, Any]) -> tuple[Overflow, ...]:
    """Return the overflows in a record that was converted to JSON.

    Raises:
        DumpError: it is no such record.
    """
    held = [(unit, record[unit]) for unit in _UNITS if unit in record]
    listed = record.get("acc_list")
    if isinstance(listed, dict):
        held.append((str(listed.get("acc_type")), listed.get("data")))
    if not held:
        msg = f"an overflow record names one of {', '.join(_UNITS)}; got {list(record)}"
        raise DumpError(msg)
    found = []
    try:
        for unit, info in held:
            status = _first_status(info["status"])
            block = info.get("block_idx", info.get("block_id"))
            place = (int(info["task_id"]), int(info["stream_id"]))
            if status:
                found.append(
                    Overflow(unit, status, *place, int(info["model_id"]), block)
                )
    except DAMAGE as error:
        msg = f"an overflow record is damaged: {error!r}"
        raise DumpError(msg) from error
    return tuple(found)


def _first_status(status: Any) -> int:  # noqa: ANN401 - whatever the file holds
    values = status if isinstance(status, list) else [status]
    numbers = (int(v, 0) if isinstance(v, str) else int(v) for v in values)
    return next((n for n in numbers if n), 0)


def _u64(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<Q", data, at)[0])


def _u32(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])
