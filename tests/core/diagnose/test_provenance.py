# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from numcheck.diagnose import diagnose
from numcheck.diagnose.provenance import trace_back
from numcheck.measure.summary import Summary
from numcheck.record import Site, TraceBuilder
from tests.core.diagnose.story import Story, names

if TYPE_CHECKING:
    from numcheck.diagnose.provenance import Provenance


def traced(story: Story, **options: bool) -> Provenance:
    return trace_back(story.incident().view, **options)


def log_then_mask() -> tuple[Story, object, object]:
    story = Story()
    x = story.source("input", np.float32([0.0, 1.0]))
    return story, x, story.op("log", np.log, x)


def test_the_log_that_later_makes_a_nan_is_the_origin() -> None:
    story, x, logged = log_then_mask()
    product = story.op("mul", np.multiply, logged, x)
    story.keep("loss", story.op("sum", np.sum, product))
    (origin,) = traced(story).origins
    assert (origin.site.op, origin.kind) == ("log", "birth")


def test_a_value_that_dies_inside_is_masked_and_harms_nothing() -> None:
    story, _, logged = log_then_mask()
    story.keep("loss", story.op("exp", np.exp, logged))
    found = traced(story)
    assert not found.origins
    assert names(found.masked) == ["log"]


def test_a_softmax_row_of_written_infinities_is_itself_the_origin() -> None:
    story = Story()
    x = story.source("input", np.float32([1.0, 2.0]))
    mask = story.source("constant", np.array([True, True]))
    filled = story.op(
        "select", lambda m, v, c: np.where(m, np.float32(c), v), mask, x, -np.inf,
        effect="move",
    )  # fmt: skip
    top = story.op("select", np.max, filled, op="max", effect="move")
    story.keep("loss", story.op("sub", np.subtract, filled, top))
    (origin,) = traced(story).origins
    assert (origin.site.op, origin.kind) == ("sub", "made_from_literal")


def test_an_additive_mask_in_the_batch_is_written_on_purpose() -> None:
    story = Story()
    mask = story.source("input", np.float32([0.0, -np.inf]), "mask")
    x = story.source("input", np.float32([1.0, 2.0]))
    scores = story.op("add", np.add, x, mask)
    story.keep("output", scores)
    assert not traced(story).harmed


def test_a_bad_input_is_the_origin_even_when_it_is_first_moved() -> None:
    story = Story()
    x = story.source("input", np.float32([np.nan, 2.0]))
    moved = story.op("", lambda v: v.reshape(2, 1), x, effect="move")
    story.keep("loss", story.op("sum", np.sum, moved))
    (origin,) = traced(story).origins
    assert (origin.site.op, origin.kind) == ("input:x", "source")


def test_returning_a_bad_input_unchanged_is_no_harm() -> None:
    story = Story()
    x = story.source("input", np.float32([np.nan, 2.0]))
    story.keep("output", x)
    assert not traced(story).harmed


def test_infinite_outputs_beside_a_finite_loss_and_gradient_are_no_harm() -> None:
    story = Story()
    x = story.source("input", np.float32([200.0]))
    logits = story.op("exp", np.exp, x)
    story.keep("output", logits)
    story.keep("loss", x)
    story.keep("gradient", x, "w")
    assert not traced(story).harmed


def test_infinite_gradients_are_no_harm_while_a_loss_scale_is_searched() -> None:
    story = Story()
    x = story.source("input", np.float32([200.0]))
    story.keep("loss", x)
    story.keep("gradient", story.op("exp", np.exp, x, phase="backward"), "w")
    assert traced(story).harmed
    assert not traced(story, searches_scale=True).harmed


def test_the_loss_is_the_first_harm_whatever_order_values_are_kept_in() -> None:
    story = Story()
    x = story.source("input", np.float32([200.0]))
    bad = story.op("exp", np.exp, x)
    for role in ("state", "output", "parameter", "gradient", "loss"):
        story.keep(role, bad)
    assert names(traced(story).harmed) == [
        "loss", "gradient", "parameter", "output", "state"
    ]  # fmt: skip


def test_what_follows_from_an_origin_is_no_second_origin() -> None:
    story = Story()
    x = story.source("input", np.float32([200.0]))
    first = story.op("exp", np.exp, x, line=1)
    quiet = story.op("reciprocal", np.reciprocal, first, line=2)  # Inf dies: 0
    second = story.op("reciprocal", np.reciprocal, quiet, line=3)  # and is born again
    story.keep("loss", first)
    story.keep("output", second)
    assert names([o.site for o in traced(story).origins]) == ["exp"]


def test_independent_faults_are_told_apart() -> None:
    story = Story()
    x = story.source("input", np.float32([200.0]))
    y = story.source("input", np.float32([-1.0]), "y")
    story.keep("loss", story.op("exp", np.exp, x, line=1))
    story.keep("gradient", story.op("sqrt", np.sqrt, y, line=2), "w")
    assert names([o.site for o in traced(story).origins]) == ["exp", "sqrt"]


def test_an_unmeasured_value_does_not_cut_the_path() -> None:
    builder = TraceBuilder(0)
    bad = Summary(n=1, nan=1, pos_inf=0, neg_inf=0)
    source = builder.add(Site(0, "input:x", "data", kind="source", role="input"), bad)
    middle = builder.add(Site(0, "mul", "forward", parents=(source,)))
    builder.add(Site(0, "loss", "forward", "kept", "loss", parents=(middle,)), bad)
    (origin,) = trace_back(builder.build().at(0)).origins
    assert origin.site.op == "input:x"


def test_a_long_chain_needs_no_recursion() -> None:
    builder = TraceBuilder(0)
    bad = Summary(n=1, nan=1, pos_inf=0, neg_inf=0)
    at = builder.add(Site(0, "log", "forward", family="log"), bad)
    for _ in range(20_000):
        at = builder.add(Site(0, "mul", "forward", parents=(at,)), bad)
    builder.add(Site(0, "loss", "forward", "kept", "loss", parents=(at,)), bad)
    assert names([o.site for o in trace_back(builder.build().at(0)).origins]) == ["log"]


HELD = {
    "finite": Summary(n=2, nan=0, pos_inf=0, neg_inf=0, zero=0),
    "nan": Summary(n=2, nan=1, pos_inf=0, neg_inf=0, zero=0),
    "inf": Summary(n=2, nan=0, pos_inf=1, neg_inf=0, zero=0),
    "hidden": Summary(n=2, low=float("nan"), high=float("nan")),
}


@st.composite
def graphs(draw: st.DrawFn) -> TraceBuilder:
    builder = TraceBuilder(0)
    sources = draw(st.integers(1, 3))
    for i in range(draw(st.integers(sources, 14))):
        held = HELD[draw(st.sampled_from(sorted(HELD)))]
        if i < sources:
            builder.add(Site(0, "input:x", "data", "source", "input"), held)
            continue
        parents = draw(st.lists(st.integers(0, i - 1), max_size=3))
        literals = draw(st.sampled_from([(), ("-inf",), ("nan",)]))
        effect = draw(st.sampled_from(["compute", "move", "fill", "cast"]))
        builder.add(
            Site(
                0,
                f"op{i}",
                "forward",
                effect=effect,
                parents=tuple(parents),
                literals=literals,
            ),
            held,
        )
    for role in draw(st.lists(st.sampled_from(["loss", "gradient", "output"]))):
        at = draw(st.integers(0, len(builder.sites) - 1))
        site = Site(0, role, "forward", "kept", role, parents=(at,))
        builder.add(site, builder.summaries.get(at))
    return builder


@given(graphs())
def test_every_harmed_value_has_an_origin_with_no_bad_operand_of_its_kind(
    builder: TraceBuilder,
) -> None:
    found = trace_back(builder.build().at(0))
    assert bool(found.origins) == bool(found.harmed)
    explained = {s.index for o in found.origins for s in o.harm}
    health = found.health
    for origin in found.origins:
        parents = [p for p in origin.site.parents if health.is_bad(p)]
        if origin.kind == "made_from_literal":
            assert not any(health.nan[p] for p in parents)
            assert not any(health.inf_is_real[p] for p in parents)
        else:
            assert not parents
    if found.harmed:
        assert found.harmed[0].index in explained


@given(graphs())
def test_masked_births_and_origins_are_different_sites(builder: TraceBuilder) -> None:
    found = trace_back(builder.build().at(0))
    masked = {s.index for s in found.masked}
    assert masked.isdisjoint(o.site.index for o in found.origins)


def hidden_overflow(dtype: str, *, selects: bool = False) -> Story:
    """Tell a softmax by hand whose sum overflows, and a logarithm of its zeros."""
    story = Story()
    e = story.source("parameter", np.full(2, np.finfo(dtype).max, dtype), "e")
    total = story.op("sum", np.sum, e)
    share = story.op("div", np.divide, e, total, line=2)
    if selects:
        share = story.op("select", lambda v: np.where(v > 1, v, 0 * v), share, line=3)
    story.keep("loss", story.op("log", np.log, share, line=4))
    return story


def test_a_zero_that_is_the_end_of_an_infinity_in_few_bits_leads_back_to_it() -> None:
    (found,) = diagnose(hidden_overflow("float16").incident())
    assert (found.id, found.site.op) == ("N103", "sum")
    assert names(found.harm) == ["loss"]
    assert [s.op for s, _ in found.chain][-3:] == ["div", "log", "loss"]


def test_the_end_of_an_infinity_in_full_precision_or_behind_a_choice_is_none() -> None:
    (found,) = diagnose(hidden_overflow("float32").incident())
    assert (found.id, found.site.op) == ("N301", "log")
    (found,) = diagnose(hidden_overflow("float16", selects=True).incident())
    assert (found.id, found.site.op) == ("N301", "log")


def test_zeros_of_an_empty_mask_are_not_blamed_on_a_gate_closed_elsewhere() -> None:
    story = Story()
    h = story.source("parameter", np.float16([[-20, 1], [1, 1]]), "h")
    mask = story.source("input", np.float16([[1, 1], [0, 0]]), "mask")
    odds = story.op("exp", lambda v: np.exp(-v), h)
    gate = story.op("div", lambda v: 1 / (1 + v), odds, line=2)
    weight = story.op("mul", np.multiply, gate, mask, line=3)
    total = story.op("sum", lambda v: v.sum(1), weight, line=4)
    story.keep("loss", story.op("div", np.divide, total, total, line=5))
    (found,) = diagnose(story.incident())
    assert (found.id, found.site.source and found.site.source.line) == ("N304", 5)
