# SPDX-License-Identifier: Apache-2.0
"""Every command can be read where the stream is not in UTF-8."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from numcheck.cli import main

if TYPE_CHECKING:
    from pathlib import Path

LEGACY = ["latin-1", "cp1252", "gbk", "cp437", "ascii", "utf-8"]


def printed(
    monkeypatch: pytest.MonkeyPatch, encoding: str, *arguments: str
) -> tuple[bytes, int]:
    """Returns what a command writes to a strict stream, and how it ends."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="strict")
    monkeypatch.setattr(sys, "stdout", stream)
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    stream.flush()
    return raw.getvalue(), ended.value.code or 0


@pytest.mark.parametrize("encoding", LEGACY)
def test_a_number_keeps_its_sign(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    text, code = printed(monkeypatch, encoding, "range", "fp16", "-70000")
    assert code == 0
    said = text.decode("utf-8" if encoding == "ascii" else encoding)
    assert said.replace("\u2212", "-").startswith("-70000 overflows: becomes -Inf")


@pytest.mark.parametrize(("encoding", "lang"), [("latin-1", "zh"), ("gbk", "en")])
@pytest.mark.parametrize("arguments", [("formats",), ("explain", "N101")], ids=str)
def test_pages_are_printed(
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    encoding: str,
    lang: str,
) -> None:
    text, code = printed(monkeypatch, encoding, *arguments, "--lang", lang)
    assert code == 0
    assert len(text) > 200


def test_json_reads_back_what_the_stream_could_not_hold(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    np.savez(tmp_path / "x.npz", **{"权重😀−": np.ones(2, np.float32)})
    file = str(tmp_path / "x.npz")
    text, code = printed(monkeypatch, "latin-1", "fit", file, "--json")
    assert code == 0
    assert json.loads(text.decode("latin-1"))[0]["name"] == "权重😀-"


def test_an_undecodable_file_name_is_written_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8", errors="strict")
    monkeypatch.setattr(sys, "stderr", stream)
    with pytest.raises(SystemExit, match="2"):
        main(["fit", b"no-such-\xff.npy".decode("utf-8", "surrogateescape")])
    stream.flush()
    assert b"no-such-\xff.npy" in raw.getvalue()
