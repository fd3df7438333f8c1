# SPDX-License-Identifier: Apache-2.0
"""The run folder gives back what was written, and survives damage."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numcheck.errors import ArgumentTypeError, RunFolderError
from numcheck.measure.summary import Summary
from numcheck.record import (
    Event,
    RunWriter,
    Site,
    SourceLine,
    TraceBuilder,
    open_run,
    trace_files,
)
from numcheck.record import rows as binary
from numcheck.record.appending import append
from numcheck.record.witness import load_tensors, save_tensors

if TYPE_CHECKING:
    from collections.abc import Callable

    from numcheck.record import Trace

numbers = st.floats(allow_nan=False)
counts = st.none() | st.integers(0, 2**62)
summaries = st.builds(
    Summary,
    n=st.integers(0, 2**62),
    nan=counts,
    pos_inf=counts,
    neg_inf=counts,
    zero=counts,
    subnormal=counts,
    low=st.none() | numbers,
    high=st.none() | numbers,
    amax=st.none() | numbers,
    amin=st.none() | numbers,
    total=st.none() | numbers,
    total_sq=st.none() | numbers,
)


def small_trace(step: int = 3) -> Trace:
    builder = TraceBuilder(step)
    line = SourceLine("model.py", 88, "MLP.forward", "return self.down(h) # é <&>")
    source = Site(0, "input:input", "data", kind="source", role="input")
    x = builder.add(source, Summary(n=2, low=0.0, high=1.0, exponents={0: 2}))
    log = Site(
        0, "aten.log.default", "forward", source=line, parents=(x,), shape=(2, 3),
        detail=(("eps", math.inf), ("dim", "1")), literals=("-inf",), family="log",
    )  # fmt: skip
    builder.add(log, Summary(n=2, low=-math.inf, high=math.nan, nan=0))
    builder.events.append(Event("loss", step, math.nan))
    return builder.build()


@given(st.dictionaries(st.integers(0, 1000), summaries, max_size=20))
def test_records_give_back_every_summary_bit_for_bit(
    held: dict[int, Summary],
) -> None:
    rows, left = binary.valid_rows(binary.pack(7, held).tobytes())
    assert left == 0
    assert list(binary.unpacked(rows)) == [(7, i, s) for i, s in held.items()]


def test_a_run_reads_back_what_was_written(tmp_path: Path) -> None:
    trace = small_trace()
    writer = RunWriter(tmp_path / "run", meta={"framework": "none"})
    writer.trace.trace(trace)
    writer.incident(3, trace, {"reproduced": True})
    run = open_run(tmp_path / "run")
    assert run.notes == ()
    assert run.trace.sites == trace.sites
    assert repr(run.trace.at(3).summaries) == repr(trace.at(3).summaries)
    assert math.isnan(float(run.trace.events[0].value))
    assert run.trace.meta["framework"] == "none"
    (incident,) = run.incidents
    assert incident.trace.sites == trace.sites
    assert incident.known["reproduced"] is True


def test_an_existing_folder_gets_a_new_attempt(tmp_path: Path) -> None:
    first = RunWriter(tmp_path)
    second = RunWriter(tmp_path)
    assert [first.path.name, second.path.name] == ["attempt-001", "attempt-002"]
    assert open_run(tmp_path).path == second.path


def test_a_training_that_goes_to_another_folder_keeps_its_record_where_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    writer = RunWriter("run")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    writer.trace.events([Event("loss", 0, 1.0)])
    assert [e.value for e in open_run(tmp_path / "run").trace.events] == [1.0]
    assert not list((tmp_path / "elsewhere").iterdir())


def test_ranks_of_one_launch_share_an_attempt(tmp_path: Path) -> None:
    writers = [RunWriter(tmp_path, rank=rank) for rank in (0, 1, 2)]
    for rank, writer in enumerate(writers):
        writer.trace.step(0, {})
        writer.trace.events([Event("loss", 0, float(rank))])
    assert {w.path.name for w in writers} == {"attempt-001"}
    run = open_run(tmp_path)
    assert [(e.rank, e.value) for e in run.trace.events] == [(0, 0), (1, 1), (2, 2)]


def test_a_run_cut_at_any_byte_keeps_every_whole_record(tmp_path: Path) -> None:
    trace = small_trace()
    writer = RunWriter(tmp_path)
    writer.trace.sites(trace.sites)
    for step in range(3):
        writer.trace.step(step, trace.at(3).summaries)
    path = next(writer.path.rglob("summaries-*.bin"))
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        run = open_run(tmp_path)
        read = sum(len(s) for s in run.trace.summaries.values())
        assert read == cut // binary.ROW.itemsize
        assert bool(run.notes) == (cut % binary.ROW.itemsize != 0)


def test_a_flipped_bit_in_a_record_costs_that_record_alone() -> None:
    held = {i: Summary(n=i + 1) for i in range(3)}
    packed = bytearray(binary.pack(0, held).tobytes())
    for position in range(len(packed)):
        damaged = packed.copy()
        damaged[position] ^= 0x10
        rows, left = binary.valid_rows(bytes(damaged))
        whole = {0, 1, 2} - {position // binary.ROW.itemsize}
        assert {site for _, site, _ in binary.unpacked(rows)} == whole
        assert left == binary.ROW.itemsize


@settings(max_examples=60)
@given(st.lists(st.integers(0, binary.ROW.itemsize - 1), min_size=1, max_size=5))
def test_records_after_a_torn_one_are_found_where_they_lie(cuts: list[int]) -> None:
    records = [binary.pack(i, {0: Summary(n=i)}).tobytes() for i in range(len(cuts))]
    after = binary.pack(99, {0: Summary(n=99), 1: Summary(n=0)}).tobytes()
    torn = [record[:cut] + after for record, cut in zip(records, cuts, strict=True)]
    data = records[0] + b"".join(torn)
    rows, left = binary.valid_rows(data)
    assert rows["step"].tolist() == [0, *([99, 99] * len(cuts))]
    assert left == sum(cuts)


@pytest.mark.parametrize("noise", [bytes(5000), b"\xa5" * 5000], ids=["zeros", "other"])
def test_records_after_noise_are_found(noise: bytes, tmp_path: Path) -> None:
    record = binary.pack(7, {0: Summary(n=1), 1: Summary(n=2)}).tobytes()
    rows, left = binary.valid_rows(noise + record)
    assert (len(rows), left) == (2, len(noise))
    (tmp_path / "segment").write_bytes(record + noise[:7] + record)
    assert binary.mapped_rows(tmp_path / "segment")["step"].tolist() == [7] * 4


def test_what_an_interrupt_left_of_a_write_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events.jsonl"
    append(path, b"first\n")

    class Slow(io.FileIO):
        """Writes two bytes, then is interrupted."""

        def write(self, data: Any, /) -> int:
            if len(data) < 8:
                raise KeyboardInterrupt
            return super().write(bytes(data)[:2])

    monkeypatch.setattr(Path, "open", lambda p, *_, **__: Slow(p, "ab"))
    with pytest.raises(KeyboardInterrupt):
        append(path, b"second!\n")
    monkeypatch.undo()
    assert path.read_bytes() == b"first\n"


def test_a_disk_that_is_full_for_a_while_costs_what_did_not_fit(
    tmp_path: Path,
) -> None:
    """A limit on the size of files stands for the disk."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    sites = [Site(i, f"op{i}", "forward") for i in range(40)]
    writer = RunWriter(tmp_path)
    lost = set()
    try:
        for step in range(40):
            # In the middle of a record, of a line, and of the lines of one write.
            limit = 700 if 5 <= step < 9 else soft
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            try:
                writer.trace.sites(sites[: 4 * step])
                writer.trace.step(step, {i: Summary(n=step) for i in range(step)})
                writer.trace.events([Event("loss", step, 1.0)])
            except OSError:
                lost.add(step)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert lost == {5, 6, 7, 8}
    run = open_run(tmp_path)
    assert run.notes == ()
    assert [site.op for site in run.trace.sites] == [site.op for site in sites]
    assert {event.step for event in run.trace.events} == {*range(40)} - lost
    assert {step for step, _ in run.trace.summaries} == {*range(1, 40)} - lost


def test_meta_json_is_never_there_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def torn(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", torn)
    with pytest.raises(KeyboardInterrupt):
        RunWriter(tmp_path)
    monkeypatch.undo()
    assert not list(tmp_path.rglob("meta.json"))
    assert RunWriter(tmp_path, rank=1).path.name == "attempt-001"
    assert json.loads((tmp_path / "attempt-001" / "meta.json").read_bytes())["schema"]


def test_a_rank_that_ended_before_its_first_word_hides_no_other(
    tmp_path: Path,
) -> None:
    for rank in range(3):
        writer = RunWriter(tmp_path, rank=rank)
        writer.trace.events([Event("loss", 0, float(rank))])
    (writer.path / "rank00001" / "sites.jsonl").unlink()
    run = open_run(tmp_path)
    assert [event.rank for event in run.trace.events] == [0, 2]
    assert len(run.notes) == 1
    for rank in (0, 2):
        (writer.path / f"rank{rank:05d}" / "sites.jsonl").unlink()
    with pytest.raises(RunFolderError, match="holds no trace"):
        open_run(tmp_path)


def test_one_bad_line_never_hides_the_others(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path)
    writer.trace.events([Event("loss", 0, 1.0)])
    path = next(writer.path.rglob("events.jsonl"))
    path.write_bytes(path.read_bytes() + b'{"name": 3\n\xff\xfe\n[1]\nnull\n')
    writer.trace.events([Event("loss", 1, 2.0)])
    run = open_run(tmp_path)
    assert [e.value for e in run.trace.events] == [1.0, 2.0]
    assert len(run.notes) == 4


def test_long_runs_keep_the_newest_steps_whole_and_thin_out_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_files, "SEGMENT_STEPS", 20)
    monkeypatch.setattr(trace_files, "KEPT_WHOLE", 2)
    writer = RunWriter(tmp_path)
    writer.trace.sites(small_trace().sites)
    for step in range(200):
        writer.trace.step(step, {0: Summary(n=step)})
    steps = open_run(tmp_path).trace.steps
    assert steps[-60:] == tuple(range(140, 200))
    assert steps[:-60] == tuple(range(0, 140, 10))


def test_a_histogram_comes_back_with_its_summary(tmp_path: Path) -> None:
    trace = small_trace()
    writer = RunWriter(tmp_path)
    writer.trace.trace(trace)
    summary = open_run(tmp_path).trace.at(3).summary(0)
    assert summary is not None
    assert summary.exponents == {0: 2}


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda p: None, "does not exist"),
        (lambda p: p.mkdir(), "not a run folder"),
        (lambda p: (p.mkdir(), (p / "meta.json").write_text("{")), "cannot be read"),
        (lambda p: (p.mkdir(), (p / "meta.json").write_text("[]")), "no schema"),
        (
            lambda p: (p.mkdir(), (p / "meta.json").write_text('{"schema": 99}')),
            "upgrade numcheck",
        ),
        (
            lambda p: (p.mkdir(), (p / "meta.json").write_text('{"schema": 1}')),
            "no rank folders",
        ),
    ],
    ids=["missing", "empty", "torn-meta", "foreign", "newer", "no-ranks"],
)
def test_what_is_not_a_run_folder_says_so(
    tmp_path: Path, prepare: Callable[[Path], object], words: str
) -> None:
    folder = tmp_path / "run"
    prepare(folder)
    with pytest.raises(RunFolderError, match=words):
        open_run(folder)


def test_a_file_in_the_way_of_a_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(RunFolderError, match="is a file"):
        RunWriter(tmp_path / "run")
    assert (tmp_path / "run").read_text() == "mine"


@pytest.mark.parametrize(
    ("folder", "error", "words"),
    [
        ("", RunFolderError, "names no folder"),
        ("a\0b", RunFolderError, "null"),
        ("x" * 300, RunFolderError, "cannot be"),
        (3, ArgumentTypeError, "path of a folder"),
        (True, ArgumentTypeError, "path of a folder"),
    ],
    ids=["empty", "null", "long", "number", "bool"],
)
def test_what_names_no_folder_is_refused(
    folder: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        RunWriter(folder)


def test_an_incident_cannot_lead_out_of_its_folder(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run")
    outside = RunWriter(tmp_path / "other")
    outside.trace.trace(small_trace())
    target = next((outside.path).glob("rank*"))
    line = {"folder": f"../../../../other/{outside.path.name}/{target.name}", "step": 3}
    listed = next(writer.path.glob("rank*")) / "incidents.jsonl"
    listed.write_text(json.dumps(line) + "\n")
    run = open_run(tmp_path / "run")
    assert run.incidents == ()
    assert len(run.notes) == 1


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8"]
)
def test_witness_tensors_come_back_with_their_dtype(tmp_path: Path, dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    values = np.array([[0, 1, -2], [3, 0.5, 1]]).astype(kind)
    path = save_tensors(tmp_path, "step 3/../x", {"x": values})
    assert path.parent == tmp_path
    back = load_tensors(path)["x"]
    assert back.dtype == kind
    assert back.tobytes() == values.tobytes()
    assert back.shape == (2, 3)


@pytest.mark.parametrize(
    "raw",
    [
        {"x": ["float99", [2]]},
        {"y": ["bfloat16", [1]]},
        {"x": 3},
        [],
        {"x": ["bfloat16", [7]]},
    ],
    ids=repr,
)
def test_a_witness_that_lies_about_its_dtype_is_refused(
    tmp_path: Path, raw: Any
) -> None:
    from safetensors.numpy import save_file

    told = {"numcheck.raw": json.dumps(raw)}
    save_file({"x": np.zeros(4, np.uint8)}, tmp_path / "x.safetensors", told)
    with pytest.raises(RunFolderError, match="cannot be read"):
        load_tensors(tmp_path / "x.safetensors")
