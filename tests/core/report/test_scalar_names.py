# SPDX-License-Identifier: Apache-2.0
"""The list of scalars that were read is for people, and short."""

from __future__ import annotations

import dataclasses

import pytest

from numcheck.diagnose.finding import Evidence, Finding
from numcheck.measure.summary import Summary
from numcheck.record import Event, Site, Trace
from numcheck.report.coverage import Coverage
from numcheck.report.prose import Prose, evidence_text

READ = [
    Event("loss", 0, 1.0),
    Event("gradient_norm", 0, 2.0),
    Event("my_metric", 0, 3.0),
    Event("headroom backward out/aten.mm.default 2", 0, 4.0),
    Event("headroom backward out/aten.mm.default 2", 1, 4.0),
    Event("headroom forward aten.mul.Tensor 2", 1, 4.0),
    Event("note", 0, "said elsewhere"),
]


def test_headrooms_are_counted_and_not_listed() -> None:
    said = list(Coverage(None, READ).seen("en"))
    assert said == [
        "scalars read at every step: loss, gradient norm, my_metric",
        "scalars of the recorded steps: headroom of 2 tensors",
    ]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_no_name_of_an_operator_is_among_them(lang: str) -> None:
    assert "aten" not in "".join(Coverage(None, READ).seen(lang))


@pytest.mark.parametrize(
    ("name", "english", "chinese"),
    [
        ("gradient_norm", "gradient norm", "梯度范数"),
        ("backward 2/aten.mm.default 1", "2/aten.mm.default (backward)", "（反向）"),
        ("forward aten.mm.default 3", "aten.mm.default 3 (forward)", "（前向）"),
        ("block.norm", "block.norm", "block.norm"),
    ],
)
def test_evidence_names_a_scalar_as_people_do(
    name: str, english: str, chinese: str
) -> None:
    piece = Evidence(
        "headroom_falls", {"name": name, "bits": 2.0, "per_hundred": -9.0, "step": 7}
    )
    assert f"headroom of {english} is 2.0 bits" in evidence_text(piece, "en")
    assert chinese in evidence_text(piece, "zh")


def test_a_chain_tells_zeros_from_infinities() -> None:
    origin = Site(1, "sum", "forward", dtype="float16")
    after = Site(2, "rsqrt", "forward", dtype="float16")
    zeros = Summary(n=4, nan=0, pos_inf=0, neg_inf=0, amax=0.0)
    finding = Finding("N103", "error", origin, 0, "+inf", chain=((after, zeros),))
    (link,) = Prose(finding, "en").chain()
    assert link.text == "rsqrt all zero"


@pytest.mark.parametrize(
    ("steps", "said"), [((3, 3), "at step 3"), ((3, 4), "from step 3 to step 4")]
)
def test_one_recorded_step_is_told_as_one(steps: tuple[int, ...], said: str) -> None:
    sites = (Site(0, "mul", "backward"), Site(1, "mul", "forward"))
    held = {(step, 0): {0: Summary(n=1)} for step in steps}
    (told,) = Coverage(Trace(sites, held)).seen("en")
    assert said in told
    assert "forward, backward" in told


def test_a_phase_of_a_later_version_is_told_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NUMCHECK_STRICT_MESSAGES")
    later = dataclasses.replace(Site(0, "mul", "data"), phase="search")
    sites = (later, Site(1, "mul", "backward"), Site(2, "mul", "forward"))
    (told,) = Coverage(Trace(sites, {(3, 0): {0: Summary(n=1)}})).seen("en")
    assert "forward, backward, " in told
    assert "search" in told
