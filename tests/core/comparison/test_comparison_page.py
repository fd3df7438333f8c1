# SPDX-License-Identifier: Apache-2.0
"""Two compared runs as table and page: as seen, escaped, bounded, self-contained."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from numcheck.cli import main
from numcheck.comparison import compare_traces
from numcheck.record import RunWriter
from numcheck.report.comparison import comparison_table
from numcheck.report.comparison_page import comparison_page
from tests.core.comparison.runs import FLAX, SCOPES, layers, run
from tests.core.report.golden import assert_golden
from tests.core.report.test_page import HOSTILE, Reader

if TYPE_CHECKING:
    from pathlib import Path

    from numcheck.comparison import Comparison


def parted(layer: int = 2) -> Comparison:
    """Returns two runs of four layers that part at one of them."""
    values = layers(np.random.default_rng(0), 4)
    other = [x * np.float32(1.1) if i >= layer else x for i, x in enumerate(values)]
    a = run(SCOPES, values, {"blocks.0.up.weight": values[0]})
    b = run(FLAX, other, {"blocks_0/up/kernel": values[0].T}, "y")
    return compare_traces(a, b)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_table_and_page_are_as_they_were_seen(lang: str) -> None:
    table = comparison_table(parted(), "runs/a", "runs/b", lang=lang, width=80)
    assert_golden(f"compare.{lang}.txt", table)
    written = comparison_page(parted(), "runs/a", "runs/b", lang)
    written = re.sub(r"(?s)<style>.*?</style>", "<style></style>", written)
    written = re.sub(r"(?s)<script>.*?</script>", "<script></script>", written)
    assert_golden(f"compare.{lang}.html", re.sub(r"sha256-[^']+", "sha256-", written))


def test_page_needs_nothing_from_outside() -> None:
    written = comparison_page(parted(), "a", "b", "en")
    for tag, attributes in Reader(written).tags:
        assert tag not in ("link", "iframe", "object", "embed", "base", "img")
        assert not {"src", "srcset", "data", "action"} & attributes.keys()
    assert not re.search(r"url\(|@import|\bfetch\(|XMLHttpRequest|import\(", written)


def test_names_of_both_programs_are_text_and_nothing_else() -> None:
    values = layers(np.random.default_rng(0), 2)
    a = run([HOSTILE, "x"], values, {HOSTILE: values[0]})
    b = run([HOSTILE, "y"], [2 * values[0], values[1]], {HOSTILE: values[0]}, HOSTILE)
    plain = Reader(comparison_page(parted(), "a", "b", "en"))
    seen = Reader(comparison_page(compare_traces(a, b), HOSTILE, HOSTILE, "en"))
    assert {tag for tag, _ in seen.tags} <= {tag for tag, _ in plain.tags} | {
        "ul",
        "li",
    }
    assert len(seen.scripts) == 2
    assert not any(name.startswith("on") for _, a in seen.tags for name in a)
    assert HOSTILE in seen.text


def test_a_page_of_too_many_points_keeps_the_first_difference_and_says_so() -> None:
    rng = np.random.default_rng(0)
    scopes = [f"layer{i}" for i in range(5000)]
    values = [rng.normal(size=2).astype(np.float32) for _ in scopes]
    other = [x * np.float32(1.5) if i >= 4000 else x for i, x in enumerate(values)]
    comparison = compare_traces(run(scopes, values, {}), run(scopes, other, {}, "y"))
    written = comparison_page(comparison, "a", "b", "en")
    seen = Reader(written)
    assert len(written) < 3_000_000
    assert "There are too many points to show; 3500 are left out." in seen.text
    assert "the runs part at module layer4000" in seen.text
    assert "different" in {verdict for _, verdict, _ in seen.data["points"]}


def test_the_command_writes_the_page_beside_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = layers(np.random.default_rng(0), 4)
    RunWriter(tmp_path / "a").trace.trace(run(SCOPES, values, {}))
    page, folder = tmp_path / "page.html", str(tmp_path / "a")
    with pytest.raises(SystemExit) as ended:
        main(["compare", folder, folder, "-o", str(page), "--lang", "en"])
    assert ended.value.code == 0
    assert "the runs are equal" in capsys.readouterr().out
    assert "the runs are equal" in Reader(page.read_text("utf-8")).text


def test_another_ending_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", "a", "b", "-o", str(tmp_path / "out.json")])
    assert ended.value.code == 2
    assert "must end in .html; got" in capsys.readouterr().err
