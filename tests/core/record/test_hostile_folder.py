# SPDX-License-Identifier: Apache-2.0
"""A run folder from a stranger: a clear error or a report, and nothing is run."""

from __future__ import annotations

import dataclasses
import json
import pickle
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numcheck.cli import main
from numcheck.diagnose import diagnose
from numcheck.diagnose.incident_json import incident_to_json
from numcheck.record import RunWriter
from numcheck.record import rows as binary
from tests.core.command_line.test_exit_codes import step

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = (
    "meta.json",
    "sites.jsonl",
    "events.jsonl",
    "exponents.jsonl",
    "summaries-000000.bin",
    "incidents.jsonl",
    "incidents/000000/sites.jsonl",
    "incidents/000000/summaries-000000.bin",
)


def run_folder(home: Path) -> Path:
    """Returns a run that failed, with every kind of file."""
    incident = step([1.0, 0.0])
    assert diagnose(incident)
    writer = RunWriter(home, meta={"framework": "test"})
    writer.trace.trace(incident.trace)
    writer.incident(0, incident.trace, incident_to_json(incident))
    rank = next(writer.path.glob("rank*"))
    (rank / "exponents.jsonl").write_text(
        '{"step": 0, "site": 0, "counts": [[0, 2]]}\n'
    )
    (rank / "events.jsonl").write_text('{"name": "loss", "step": 0, "value": 2.5}\n')
    return writer.path


def place(run: Path, name: str) -> Path:
    """Returns where a file of the run lies."""
    if name == "meta.json":
        return run / name
    return next(run.glob("rank*")) / name


def asked(run: Path, home: Path) -> int:
    """Returns how `numcheck report` ends, writing every kind of report."""
    outputs = [str(home / f"out.{ending}") for ending in ("html", "json", "sarif")]
    options = [part for path in outputs for part in ("-o", path)]
    with pytest.raises(SystemExit) as ended:
        main(["report", str(run), *options, "--lang", "en"])
    assert isinstance(ended.value.code, int)
    return ended.value.code


class Marker:
    """Unpickled, it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.path,)


BIG = 10**400
CONTENTS: dict[str, bytes] = {
    "nothing": b"",
    "bad UTF-8": b'{"name": "\xff\xfe\xc3\x28", "step": 0, "value": 1}\n' * 3,
    "bytes": bytes(range(256)) * 40,
    "huge numbers": json.dumps(
        {"schema": 1, "step": BIG, "site": BIG, "index": BIG, "value": BIG,
         "shape": [BIG], "counts": [[BIG, BIG]], "op": "x", "phase": "forward",
         "name": "loss", "folder": "000000"}
    ).encode(),
    "deep": b"[" * 100_000,
    "wrong kinds": b'[]\n3\nnull\n"x"\n{"op": 3, "name": [], "step": {}}\n',
    "a word": b"NaN\nInfinity\n-Infinity\n",
}  # fmt: skip


def test_the_folder_is_read_as_it_is(tmp_path: Path) -> None:
    assert asked(run_folder(tmp_path / "run"), tmp_path) == 1


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", CONTENTS)
def test_any_file_may_hold_anything(
    tmp_path: Path,
    name: str,
    content: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = run_folder(tmp_path / "run")
    place(run, name).write_bytes(CONTENTS[content])
    code = asked(run, tmp_path)
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    assert (code == 2) == bool(told.err)
    if name == "meta.json" and content != "huge numbers":
        assert code == 2
        assert "meta.json" in told.err


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(FILES[1:]), st.binary(max_size=400), st.integers(0, 2**16))
def test_damage_anywhere_is_survived(
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    name: str,
    noise: bytes,
    where: int,
) -> None:
    home = tmp_path_factory.mktemp("home")
    path = place(run_folder(home / "run"), name)
    whole = path.read_bytes()
    at = where % (len(whole) + 1)
    path.write_bytes(whole[:at] + noise + whole[at + len(noise) :])
    assert asked(home / "run", home) in (0, 1)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("name", FILES)
def test_a_folder_in_the_place_of_a_file_is_told(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_folder(tmp_path / "run")
    place(run, name).unlink()
    place(run, name).mkdir()
    code = asked(run, tmp_path)
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    assert (code == 2) == bool(told.err)


@pytest.mark.parametrize("name", [*FILES, "witness/x.safetensors", "x.pkl", "x.pt"])
def test_a_pickle_is_never_loaded(tmp_path: Path, name: str) -> None:
    run = run_folder(tmp_path / "run")
    marker = tmp_path / "was run"
    target = place(run, name)
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(pickle.dumps(Marker(marker)))
    asked(run, tmp_path)
    assert not marker.exists()


@pytest.mark.parametrize(
    "folder", ["../../../..", "/etc", "..", ".", "", "a\x00b", "x" * 5000]
)
def test_an_incident_s_folder_leads_nowhere_else(
    tmp_path: Path, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_folder(tmp_path / "run")
    listed = place(run, "incidents.jsonl")
    known = json.loads(listed.read_text("utf-8"))
    listed.write_text(json.dumps({**known, "folder": folder}) + "\n", "utf-8")
    assert asked(run, tmp_path) in (0, 1)
    assert "could not be read" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("left", ["nothing", "a folder"])
def test_incidents_that_no_line_tells_of_are_noted(
    tmp_path: Path, left: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_folder(tmp_path / "run")
    listed = place(run, "incidents.jsonl")
    listed.unlink()
    if left == "a folder":
        listed.mkdir()
    assert asked(run, tmp_path) == 0
    assert "1 incident has no line in incidents.jsonl" in capsys.readouterr().out


def test_a_departure_of_a_site_that_is_lost_is_left_out(tmp_path: Path) -> None:
    incident = step([1.0, 2.0])
    departures = dict.fromkeys(range(len(incident.trace.sites)), 1e-3)
    writer = RunWriter(tmp_path / "run", meta={"framework": "test"})
    known = incident_to_json(dataclasses.replace(incident, departures=departures))
    writer.incident(0, incident.trace, known)
    sites = place(writer.path, "incidents/000000/sites.jsonl")
    sites.write_bytes(sites.read_bytes().split(b"\n")[0] + b"\n")
    assert asked(writer.path, tmp_path) == 0


@pytest.mark.parametrize("count", [2**63 - 1, -1, -(2**63)])
def test_counts_beyond_reason_are_shown_not_believed(
    tmp_path: Path, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_folder(tmp_path / "run")
    for path in run.rglob("summaries-*.bin"):
        rows, _ = binary.valid_rows(path.read_bytes())
        rows = rows.copy()
        for field in ("n", "nan", "pos_inf", "zero"):
            rows[field] = count
        rows["amax"] = struct.unpack("<d", b"\xff" * 8)[0]
        rows["checksum"] = binary._checksums(rows)
        path.write_bytes(rows.tobytes())
    assert asked(run, tmp_path) in (0, 1)
    assert "Traceback" not in capsys.readouterr().err
