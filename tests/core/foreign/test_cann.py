# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from numcheck.errors import DumpError
from numcheck.record.foreign import read_dump
from numcheck.record.foreign.cann_status import (
    Overflow,
    decode_status,
    overflows_in_bytes,
    overflows_in_json,
)

if TYPE_CHECKING:
    from pathlib import Path

NAME = "Opdebug.Node_OpDebug.{}.{}.{}"


def record(status: int = 0x20, atomic: int = 0) -> bytes:
    """Return an overflow record as CANN's documentation lays it out."""
    parts = [
        struct.pack("<6Q", 7, 5, 9, 0, 0, 0).ljust(128, b"\0"),
        struct.pack("<6Q", 0, 0, 0, 0, 0, 0).ljust(128, b"\0"),
        struct.pack("<6Q", 514, 563, 57, 0, 0x1008005B0000, 0).ljust(256, b"\0"),
        struct.pack("<Q", atomic).ljust(256, b"\0"),
        struct.pack("<Q", 0).ljust(256, b"\0"),
        struct.pack("<3Q", 0x1008005AE000, 1, status).ljust(1024, b"\0"),
    ]
    return b"".join(parts)


CORE: dict[str, Any] = {
    "model_id": 514,
    "stream_id": 563,
    "task_id": 57,
    "task_type": 0,
    "pc_start": "0x1008005b0000",
    "para_base": "0x0",
    "kernel_code": "0x1008005ae000",
    "block_idx": 1,
    "status": 32,
}
QUIET = {**CORE, "model_id": 0, "stream_id": 0, "task_id": 0, "status": 0}


def test_binary_and_json_records_say_the_same() -> None:
    text = {"DHA Atomic Add": QUIET, "L2 Atomic Add": QUIET, "AI Core": CORE}
    found = overflows_in_bytes(record())
    assert found == overflows_in_json(text)
    assert found == (Overflow("AI Core", 32, task=57, stream=563, model=514, block=1),)


def test_a_header_in_front_of_the_record_is_passed_over() -> None:
    header = b"\x08\x01\x10\xff header"
    framed = struct.pack("<Q", len(header)) + header + record()
    assert overflows_in_bytes(framed) == overflows_in_bytes(record())


@pytest.mark.parametrize(
    ("status", "reasons"),
    [
        pytest.param(0x8, ("integer_negation",), id="0x8"),
        pytest.param(0x10, ("integer_arithmetic",), id="0x10"),
        pytest.param(0x20, ("float_overflow",), id="0x20"),
        pytest.param(0x80, ("negative_to_unsigned",), id="0x80"),
        pytest.param(0x100, ("conversion_to_float16",), id="0x100"),
        pytest.param(0x400, ("cube_accumulation",), id="0x400"),
        pytest.param(
            0x520,
            ("float_overflow", "conversion_to_float16", "cube_accumulation"),
            id="several",
        ),
        pytest.param(0x40, ("bit_6",), id="unknown"),
        pytest.param(0, (), id="none"),
    ],
)
def test_status_bits_are_decoded(status: int, reasons: tuple[str, ...]) -> None:
    assert decode_status(status) == reasons


def test_several_units_give_several_overflows() -> None:
    found = overflows_in_bytes(record(0x400, atomic=1))
    assert [o.unit for o in found] == ["DHA Atomic Add", "AI Core"]
    assert found[0].reasons == ("atomic_add",)


def test_the_newer_record_is_read_too() -> None:
    numbers = struct.pack("<14Q", 1, 2, 3, 0, 0, 0, 0, 0, 4, 5, 0, 0x20, 0, 0)
    data = struct.pack("<6I", 0x5A5A5A5A, 1, 1, 1, 0, len(numbers)) + numbers
    expected = Overflow("AIV", 0x20, task=3, stream=2, model=1, block=5)
    assert overflows_in_bytes(data) == (expected,)


@pytest.mark.parametrize("size", [0, 7, 100, 2047, 2049])
def test_other_sizes_are_refused(size: int) -> None:
    with pytest.raises(DumpError, match="2048"):
        overflows_in_bytes(bytes(size))


def test_operators_are_named_by_task_and_stream(tmp_path: Path) -> None:
    (tmp_path / NAME.format(3, 1, 1700)).write_bytes(record())
    (tmp_path / "MatMul.layer_3_mlp_MatMul.57.563.1650").write_bytes(b"")
    (tmp_path / "Add.other.58.563.1651").write_bytes(b"")
    trace = read_dump(tmp_path)
    (site,) = (s for s in trace.sites if s.kind == "operator")
    assert (site.op, site.family, site.scope) == (
        "MatMul",
        "matmul",
        "layer_3_mlp_MatMul",
    )
    assert dict(site.detail)["overflow_reasons"] == "float_overflow"


def test_dumped_values_are_measured(tmp_path: Path) -> None:
    (tmp_path / NAME.format(3, 1, 1700)).write_bytes(record(0x100))
    name = str(tmp_path / "Cast.c.57.563.1650")
    np.save(f"{name}.input.0.npy", np.array([7e4, 1.0], np.float32))
    np.save(f"{name}.output.0.npy", np.array([65504, 1.0], np.float16))
    trace = read_dump(tmp_path)
    held = trace.at(0).summaries
    (made,) = (s for s in trace.sites if s.kind == "operator")
    assert held[made.index].amax == 65504
    assert held[made.parents[0]].amax == 7e4


def test_records_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    for task, time in ((2, 90), (1, 100)):
        core = {**CORE, "task_id": task}
        path = tmp_path / f"{NAME.format(0, 0, time)}.output.0.json"
        path.write_text(json.dumps({"AI Core": core}))
    ops = [s.op for s in read_dump(tmp_path).sites if s.kind == "operator"]
    assert ops == ["task2", "task1"]


def test_an_unreadable_record_beside_others_is_a_note(tmp_path: Path) -> None:
    (tmp_path / NAME.format(0, 0, 1)).write_bytes(b"torn")
    (tmp_path / NAME.format(0, 0, 2)).write_bytes(record())
    trace = read_dump(tmp_path)
    assert len([s for s in trace.sites if s.kind == "operator"]) == 1
    assert any("2048" in note for note in trace.meta["notes"])
