# SPDX-License-Identifier: Apache-2.0
"""A step that hands back NaN or Inf is found, replayed and explained."""

from __future__ import annotations

import contextlib
import functools
import warnings
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import numcheck_jax
from numcheck.errors import ArgumentError, ArgumentTypeError, NonFiniteError
from numcheck.monitor import NumcheckWarning

if TYPE_CHECKING:
    from numcheck.diagnose.finding import Finding

GOOD = jnp.array([1.0, 2.0, 4.0])
BAD = jnp.array([1.0, 0.0, 4.0])
instrument = functools.partial(numcheck_jax.instrument, audit_first=False)


@jax.jit
def loss(w: Any, x: Any) -> Any:
    return jnp.sum(w * jnp.log(x))


def the_finding(step: Any) -> Finding:
    with pytest.raises(NonFiniteError) as caught:
        step.numcheck.close()
    return caught.value.finding


def test_origin_is_named_with_primitive_line_phase_and_step() -> None:
    step = instrument(loss)
    step(GOOD, GOOD)
    step(GOOD, BAD)
    found = the_finding(step)
    assert (found.site.op, found.kind, found.phase) == ("log", "-inf", "forward")
    assert (found.step, found.reproduced) == (1, True)
    assert found.site.source is not None
    assert found.site.source.text == "return jnp.sum(w * jnp.log(x))"
    assert [s.op for s in found.harm] == ["loss"]


def test_flag_is_read_one_step_late_by_default() -> None:
    step = instrument(loss)
    step(GOOD, BAD)
    with pytest.raises(NonFiniteError) as caught:
        step(GOOD, GOOD)
    assert caught.value.finding.step == 0
    step.numcheck.close()


def test_each_failing_call_raises_again_for_whoever_catches_the_error() -> None:
    step = instrument(loss, lag=0)
    failing = []
    for batch in (BAD, BAD, GOOD, BAD, BAD):
        try:
            step(GOOD, batch)
        except NonFiniteError as error:
            failing.append(error.finding.step)
    assert failing == [0, 1, 3, 4]


def test_what_an_error_left_in_results_nobody_got_is_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A device that is still at work when the next step is called.
    monkeypatch.setattr("numcheck_jax.sentinel.Flag.is_ready", False)
    step = instrument(jax.jit(lambda w, x: (w + jnp.log(x).sum(), (w * x).sum())))
    with contextlib.suppress(NonFiniteError), step.numcheck:
        w = GOOD
        for batch in (GOOD, BAD, GOOD):
            w, _ = step(w, batch)
    assert [(f.id, f.step) for f in step.numcheck.findings] == [("N301", 1)]


def test_without_lag_the_failing_call_raises() -> None:
    step = instrument(loss, lag=0)
    with pytest.raises(NonFiniteError):
        step(GOOD, BAD)


def test_monitor_as_context_manager_raises_what_is_pending() -> None:
    step = instrument(loss)
    with pytest.raises(NonFiniteError), step.numcheck:
        step(GOOD, BAD)


@pytest.mark.parametrize(
    ("args", "op", "id_"),
    [
        ((GOOD, GOOD.at[1].set(jnp.nan)), "input:x", "N001"),
        ((GOOD.at[1].set(jnp.nan), GOOD), "parameter:w", "N003"),
    ],
    ids=["batch", "parameter"],
)
def test_bad_argument_is_named_by_its_parameter(
    args: tuple[Any, ...], op: str, id_: str
) -> None:
    step = instrument(loss)
    step(*args)
    found = the_finding(step)
    assert (found.site.op, found.id) == (op, id_)


def test_bad_leaf_deep_in_an_argument_is_named_by_its_path() -> None:
    def run(params: Any, *batches: Any, scale: Any) -> Any:
        return sum(jnp.sum(params["blocks"][0]["w"] * b["x"][0]) for b in batches)

    step = instrument(jax.jit(run))
    batch = {"x": [GOOD]}
    bad = {"x": [GOOD.at[0].set(jnp.nan)]}
    step({"blocks": [{"w": GOOD}]}, batch, bad, scale=1.0)
    assert the_finding(step).site.op == "input:batches[1]['x'][0]"


def test_gradient_and_updated_parameters_carry_their_parameter_s_name() -> None:
    def with_gradient(w: Any, x: Any) -> Any:
        return jax.value_and_grad(lambda w: jnp.sum(jnp.sqrt(w * x)))(w)

    step = instrument(jax.jit(with_gradient))
    step({"deep": [GOOD]}["deep"][0], BAD)
    found = the_finding(step)
    assert found.phase == "backward"
    assert [s.op for s in found.harm] == ["gradient:w"]

    def update(w: Any, x: Any) -> Any:
        loss, gradient = with_gradient(w, x)
        return w - 0.1 * gradient, loss

    step = instrument(jax.jit(update))
    step(GOOD, BAD)
    assert [s.op for s in the_finding(step).harm] == ["parameter:w"]


def test_loss_is_what_the_user_says_it_is() -> None:
    def step(w: Any, x: Any) -> Any:
        return {"accuracy": w.sum(), "objective": jnp.sum(jnp.log(x)), "z": x.sum()}

    watched = instrument(step, loss=lambda out: out["objective"])
    watched(GOOD, BAD)
    assert [s.op for s in the_finding(watched).harm] == ["loss"]


def test_literal_infinity_in_a_state_is_no_harm() -> None:
    def schedule(state: Any, x: Any) -> Any:
        best = jnp.where(x.sum() > 100.0, x.sum(), jnp.inf)
        return {"best": best, "n": state["n"] + x.sum()}, x.mean()

    step = instrument(jax.jit(schedule))
    state = {"best": jnp.float32(0.0), "n": jnp.float32(0.0)}
    for _ in range(3):
        state, _ = step(state, GOOD)
    step.numcheck.close()
    assert step.numcheck.findings == ()


def test_infinity_already_in_the_state_is_not_told_again() -> None:
    step = instrument(jax.jit(lambda state, x: ({"m": state["m"] * 2.0}, x.mean())))
    step({"m": jnp.float32(jnp.inf)}, GOOD)
    step.numcheck.close()
    assert step.numcheck.findings == ()


def test_banned_logits_with_a_finite_loss_are_no_harm() -> None:
    def run(w: Any, x: Any) -> Any:
        logits = jnp.where(x > 1.0, w * x, -jnp.inf)
        return jnp.sum(jax.nn.softmax(logits) * x), logits

    step = instrument(jax.jit(run))
    step(GOOD, GOOD)
    step.numcheck.close()
    assert step.numcheck.findings == ()


def test_under_record_one_origin_is_kept_once_and_counted() -> None:
    step = instrument(loss, on_error="record")
    for _ in range(4):
        step(GOOD, BAD)
    step.numcheck.close()
    assert [(f.site.op, f.count) for f in step.numcheck.findings] == [("log", 4)]


def test_a_healthy_step_makes_the_same_origin_news_again() -> None:
    step = instrument(loss, on_error="record")
    for x in (BAD, GOOD, BAD):
        step(GOOD, x)
    step.numcheck.close()
    assert [f.step for f in step.numcheck.findings] == [0, 2]


def test_findings_can_be_read_right_after_the_call_when_nothing_is_raised() -> None:
    step = instrument(loss, on_error="record")
    step(GOOD, BAD)
    assert [f.site.op for f in step.numcheck.findings] == ["log"]


def test_under_warn_a_failure_is_a_warning() -> None:
    step = instrument(loss, on_error="warn", lag=0)
    with pytest.warns(NumcheckWarning, match="logarithm"):
        out = step(GOOD, BAD)
    assert np.isneginf(out)


def test_warnings_turned_into_errors_reach_the_user() -> None:
    step = instrument(loss, on_error="warn", lag=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NumcheckWarning)
        with pytest.raises(NumcheckWarning):
            step(GOOD, BAD)


def test_step_can_be_set_after_a_resume() -> None:
    step = instrument(loss)
    step.numcheck.step = 1000
    step(GOOD, GOOD)
    step(GOOD, BAD)
    assert the_finding(step).step == 1001


def test_exception_of_the_function_passes_untouched() -> None:
    class MyError(Exception):
        pass

    def broken(x: Any) -> Any:
        raise MyError("mine")

    step = numcheck_jax.instrument(broken)
    with pytest.raises(MyError, match="mine") as caught:
        step(GOOD)
    assert caught.value.__cause__ is None
    assert [e for e in step.numcheck.events if e.name == "fault"] == []


def test_error_inside_numcheck_is_recorded_once_and_training_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*args: Any) -> Any:
        raise RuntimeError("planted")

    monkeypatch.setattr("numcheck_jax.pending.launch", fail)
    step = instrument(loss)
    for _ in range(3):
        assert float(step(GOOD, GOOD)) == float(loss(GOOD, GOOD))
    step.numcheck.close()
    assert [e.value for e in step.numcheck.events if e.name == "fault"] == [
        "fault.check"
    ]
    assert "planted" in capsys.readouterr().err


def test_batch_changed_in_place_after_the_step_is_not_replayed() -> None:
    batch = np.array(BAD)
    step = instrument(loss)
    step(GOOD, batch)
    batch[:] = 1.0
    found = the_finding(step)
    assert found.reproduced is None
    assert 'refusal.changed {"name": "x"}' in [
        e.fields.get("why") for e in found.evidence
    ]


def test_donated_arguments_are_said_not_to_be_replayable() -> None:
    def update(w: Any, x: Any) -> Any:
        return w - jnp.log(x), w.sum()

    step = instrument(jax.jit(update, donate_argnums=0))
    step(GOOD + 0, BAD)
    found = the_finding(step)
    assert [s.op for s in found.harm] == ["parameter:w"]
    assert 'refusal.donated {"name": "w"}' in [
        e.fields.get("why") for e in found.evidence
    ]


def test_donated_step_has_one_card_that_says_what_to_change() -> None:
    def update(w: Any, x: Any) -> Any:
        return w - jnp.log(x), w.sum(), 1 / x

    step = instrument(jax.jit(update, donate_argnums=(0, 1)), on_error="record")
    step(GOOD + 0, BAD + 0)
    step.numcheck.close()
    (found,) = step.numcheck.findings
    assert (found.id, found.severity, len(found.harm)) == ("N903", "error", 2)
    said = " ".join(step.numcheck.report().split())
    assert "drop donate_argnums, or give numcheck.instrument rollback=True" in said


def test_donated_arguments_of_an_audited_step_are_replayed_from_copies() -> None:
    def update(w: Any, x: Any) -> Any:
        return w - jnp.log(x), w.sum()

    step = numcheck_jax.instrument(jax.jit(update, donate_argnums=0))
    w = GOOD + 0
    with pytest.raises(NonFiniteError) as caught:
        step(w, BAD)
    assert w.is_deleted()
    assert caught.value.finding.site.op == "log"


def test_function_whose_python_looks_at_values_is_run_again_all_the_same() -> None:
    seen = []

    def branching(w: Any, x: Any) -> Any:
        loss, gradient = jax.value_and_grad(lambda w: jnp.sum(w * jnp.log(x)))(w)
        seen.append(float(loss))
        return (w - gradient if loss > 0 else w + gradient), loss

    step = instrument(branching)
    step(GOOD, BAD)
    found = the_finding(step)
    assert (found.site.op, found.reproduced) == ("log", True)
    assert found.site.source is not None
    assert "jnp.log(x)" in found.site.source.text
    assert all(type(x) is float for x in seen)


def test_object_a_step_writes_to_keeps_no_tracer() -> None:
    class Trainer:
        def step(self, x: Any) -> Any:
            self.loss = jnp.sum(jnp.log(x))
            return self.loss

    trainer = Trainer()
    step = numcheck_jax.instrument(trainer.step)
    step(GOOD)
    step.numcheck.close()
    assert not isinstance(trainer.loss, jax.core.Tracer)
    assert np.isfinite(trainer.loss)


def test_function_with_options_for_the_compiler_is_replayed() -> None:
    options = {"xla_allow_excess_precision": False}
    step = instrument(jax.jit(loss, compiler_options=options), on_error="record")
    step(GOOD, BAD)
    step.numcheck.close()
    (finding,) = step.numcheck.findings
    assert (finding.site.op, finding.reproduced) == ("log", True)


def test_mutable_array_among_the_arguments_is_left_alone() -> None:
    def count(ref: Any, x: Any) -> Any:
        ref[...] += x.sum()
        return jnp.log(x).sum()

    ref = jax.new_ref(jnp.float32(0.0))
    step = instrument(jax.jit(count))
    step(ref, BAD)
    assert the_finding(step).reproduced is True
    assert float(ref[...]) == float(BAD.sum())


def test_function_that_cannot_be_traced_still_tells_what_broke() -> None:
    def foreign(x: Any) -> Any:
        return jnp.asarray(np.from_dlpack(jnp.log(x))).sum()

    step = instrument(foreign)
    step(BAD)
    found = the_finding(step)
    assert found.kind == "-inf"
    assert [s.op for s in found.harm] == ["output"]


def test_what_the_compiler_simplifies_away_is_latent_and_no_error() -> None:
    step = numcheck_jax.instrument(jax.jit(lambda x: jnp.sqrt(x * x)))
    assert float(step(jnp.float16(300.0))) == 300.0
    step.numcheck.close()
    assert [(f.severity, f.reproduced) for f in step.numcheck.findings] == [
        ("note", False)
    ]


def test_loss_and_norms_of_healthy_steps_are_kept_for_the_diagnosis() -> None:
    def update(w: Any, x: Any) -> Any:
        value, gradient = jax.value_and_grad(lambda w: jnp.sum(w * x))(w)
        return w - gradient, value

    step = numcheck_jax.instrument(jax.jit(update), on_error="record")
    w, _ = step(GOOD, GOOD)
    step(w, GOOD)
    step.numcheck.close()
    kept = [(e.name, e.value) for e in step.numcheck.events if e.step == 1]
    assert kept == [("parameter_norm", pytest.approx(21**0.5)), ("loss", 0.0)]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"lag": 2}, ArgumentError),
        ({"level": "loud"}, ArgumentError),
        ({"no_such": 1}, ArgumentError),
        ({"loss": 3}, ArgumentTypeError),
    ],
    ids=str,
)
def test_unusable_option_is_refused(
    options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        numcheck_jax.instrument(loss, **options)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="got int"):
        numcheck_jax.instrument(3)  # type: ignore[arg-type]
