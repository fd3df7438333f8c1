# SPDX-License-Identifier: Apache-2.0
"""A bar that was not worth showing leaves nothing behind on standard error."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from numcheck.cli import main
from numcheck.report.experimenting import experimenting

if TYPE_CHECKING:
    from pathlib import Path


class Terminal(io.StringIO):
    """A terminal that can only be written on line by line."""

    def isatty(self) -> bool:
        return True


STREAMS = pytest.mark.parametrize("kind", [Terminal, io.StringIO], ids=["tty", "file"])


def heard(kind: type[io.StringIO], patch: pytest.MonkeyPatch) -> io.StringIO:
    """Returns what takes the place of standard error."""
    stream = kind()
    patch.setenv("TERM", "dumb")
    patch.setattr(sys, "stderr", stream)
    return stream


@STREAMS
def test_data_that_are_read_at_once_show_none(
    kind: type[io.StringIO], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "x.npy", np.arange(4.0))
    stream = heard(kind, monkeypatch)
    with pytest.raises(SystemExit, match="0"):
        main(["data", str(tmp_path / "x.npy")])
    assert not stream.getvalue()


@STREAMS
def test_experiments_that_take_no_time_show_none(
    kind: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = heard(kind, monkeypatch)
    with experimenting("en") as told:
        assert (told is not None) == stream.isatty()
    assert not stream.getvalue()
