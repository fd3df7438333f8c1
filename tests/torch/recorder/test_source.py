# SPDX-License-Identifier: Apache-2.0
"""A line is told with the file it stands in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck_torch.source import user_line

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = "def call():\n    return user_line(1)\n\nfound = call()\n"


def test_two_files_of_one_text_are_told_apart(tmp_path: Path) -> None:
    found = []
    for name in ("first.py", "second.py"):
        path = tmp_path / name
        path.write_text(PROGRAM, "utf-8")
        names = {"user_line": user_line}
        exec(compile(PROGRAM, str(path), "exec"), names)  # noqa: S102 - our own text
        found.append(names["found"])
    assert [line and (line.file, line.line) for line in found] == [
        (str(tmp_path / "first.py"), 2),
        (str(tmp_path / "second.py"), 2),
    ]
