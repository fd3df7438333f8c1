# SPDX-License-Identifier: Apache-2.0
"""Errors of numcheck's own come in the language of the command line."""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING

import numpy as np
import pytest

from numcheck.cli import main
from numcheck.record import RunWriter
from numcheck.report.messages import catalogue
from tests.core.command_line.test_exit_codes import step

if TYPE_CHECKING:
    from pathlib import Path

# By the key of the message: the command that meets it.
MISTAKES = {
    "no_run": "report {home}/none",
    "no_run_folder": "report {home}",
    "no_dump": "import {home}/none",
    "unknown_dump": "import {home}",
    "endings": "report {home}/run -o x.pdf",
    "ending": "compare {home}/run {home}/run -o x.json",
    "place": "demo --output {home}/none/x.html",
    "unwritable": "report {home}/run -o {home}/none/x.html",
    "unknown_format": "formats nothing-like-it",
    "format_meant": "formats float17",
    "block_format": "range mxfp4 1",
    "no_number": "range fp16 many",
    "too_large": "range fp16 1e400",
    "too_small": "range fp16 2^-2000",
    "no_rule": "explain hello",
    "rule_meant": "explain N10",
    "no_profile": "profiles zzzz",
    "profile_meant": "profiles tpu-bf-16",
    "no_toml": "profiles {home}/x.npy",
    "no_framework": "demo --output {home}/x.html",
    "unknown_framework": "demo --output {home}/x.html --framework none",
    "no_watcher": "run {home}/script.py",
    "map": "compare {home}/run {home}/run --map x",
    "no_name": "compare {home}/run {home}/run --map x=y",
    "no_step": "compare {home}/run {home}/run --step-a 9",
    "arrays": "compare {home}/x.npy {home}/x.npy",
    "no_file": "fit {home}/none",
    "no_file_or_folder": "data {home}/none",
    "file_ending": "data {home}/script.py",
    "file_endings": "fit {home}/script.py",
    "no_data": "data {home}/run",
    "unreadable": "fit {home}/none.npy",
    "damaged": "fit {home}/torn.npy",
    "no_text": "data {home}/latin.csv",
    "ragged": "data {home}/ragged.csv",
    "no_parquet": "data {home}/torn.parquet",
    "no_array": "fit {home}/x.npy --tensor y",
    "no_numbers": "fit {home}/text.npy",
    "no_label": "data {home}/x.npy --labels y",
    "item_width": "fit {home}/x.npy --dtype fp16",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a run, arrays and a script."""
    folder = tmp_path_factory.mktemp("home")
    RunWriter(folder / "run", meta={"framework": "test"}).trace.trace(
        step([1.0, 2.0]).trace
    )
    np.save(folder / "x.npy", np.arange(4.0))
    np.save(folder / "text.npy", np.array(["a"]))
    (folder / "torn.npy").write_bytes(b"nothing")
    (folder / "torn.parquet").write_bytes(b"nothing")
    (folder / "latin.csv").write_bytes(b"a,b\n1,\xff\n")
    (folder / "ragged.csv").write_text("a,b\n1,2\n3\n")
    (folder / "script.py").write_text("x = 1\n")
    return folder


def answered(words: str, home: Path, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main([word.format(home=home) for word in words.split()])
    assert ended.value.code == 2
    told = capsys.readouterr()
    return told.err or told.out


def wording(template: str) -> re.Pattern[str]:
    """Returns what matches a message, whatever its fields hold."""
    parts = string.Formatter().parse(template)
    return re.compile(
        ".+".join(re.escape(literal) for literal, *_ in parts) + ".*", re.DOTALL
    )


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("key", MISTAKES)
def test_an_error_is_told_in_the_language(
    key: str,
    lang: str,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for module in ("demo", "running"):
        monkeypatch.setattr(f"numcheck.{module}.adapters", tuple)
    said = answered(f"--lang {lang} {MISTAKES[key]}", home, capsys)
    assert wording(catalogue(lang)[f"error.{key}"]).search(said)


def test_what_of_a_folder_of_data_could_not_be_read_is_told_in_the_language(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["data", str(home), "--lang", "zh"])
    assert "已损坏或不是这种文件" in capsys.readouterr().out


def test_every_wording_of_an_error_is_met_by_a_command() -> None:
    told = {k.removeprefix("error.") for k in catalogue("en") if k.startswith("error.")}
    assert told == {*MISTAKES}
