# SPDX-License-Identifier: Apache-2.0
"""Steps of which something cannot be done twice: donated, calling back, choosy."""

from __future__ import annotations

import copy
import functools
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

import numcheck_jax

ONES = jnp.ones(3)


def donating(p: Any, x: Any) -> Any:
    return p - jnp.log(x * p), (p * x).sum()


@pytest.mark.parametrize(
    ("level", "op"),
    [("watch", "parameter:p"), ("anchors", "parameter:p"), ("trace", "log")],
)
def test_fault_of_a_donating_step_is_told_as_far_as_it_was_measured(
    level: Any, op: str
) -> None:
    step = numcheck_jax.instrument(
        jax.jit(donating, donate_argnums=0), level=level, on_error="record"
    )
    large = jnp.ones(1 << 19)
    p, _ = step(jnp.copy(large), large)
    step(p, -large)
    step.numcheck.close()
    (finding,) = step.numcheck.findings
    assert finding.severity == "error"
    assert finding.site.op == op
    assert finding.help[0].key == "keep_arguments"


@pytest.mark.parametrize("audit_first", [True, False])
def test_fault_of_a_step_that_consumes_a_small_state_is_named(
    *, audit_first: bool
) -> None:
    jitted = jax.jit(donating, donate_argnums=0)
    step = numcheck_jax.instrument(jitted, on_error="record", audit_first=audit_first)
    p, _ = step(jnp.ones(3), ONES)
    given = p
    p, _ = step(p, ONES)
    assert given.is_deleted()  # the user's memory is given back all the same
    step(p, -ONES)
    step.numcheck.close()
    assert [(f.site.op, f.step) for f in step.numcheck.findings] == [("log", 2)]


def test_states_that_are_consumed_on_several_devices_are_watched() -> None:
    update = jax.jit(lambda s, x: (s - jnp.log(x), (s * x).sum()), donate_argnums=0)

    def both(a: Any, b: Any, x: Any, y: Any) -> Any:
        return update(a, x), update(b, y)

    one, other = jax.devices()[:2]
    at = [jax.device_put(ONES, d) for d in (one, other)]
    step = numcheck_jax.instrument(both, on_error="record")
    a, b = (jax.device_put(2 * ONES, d) for d in (one, other))
    for sign in (1, 1, -1):
        (a, _), (b, _) = step(a, b, sign * at[0], at[1])
    step.numcheck.close()
    assert not [e for e in step.numcheck.events if e.name == "fault"]
    assert [f.step for f in step.numcheck.findings] == [2]


CALLED: list[float] = []


def noted(value: Any) -> Any:
    CALLED.append(float(value))
    return np.float32(value)


def test_callback_whose_answer_is_not_used_is_left_out_of_a_replay() -> None:
    def function(x: Any) -> Any:
        shape = jax.ShapeDtypeStruct((), jnp.float32)
        io_callback(noted, shape, x.sum(), ordered=True)
        return jnp.log(x)

    CALLED.clear()
    step = numcheck_jax.instrument(jax.jit(function), on_error="record")
    step(-ONES)
    step.numcheck.close()
    assert [f.site.op for f in step.numcheck.findings] == ["log"]
    assert CALLED == [-3.0]


def failing(value: Any) -> Any:
    raise ValueError(value)


@pytest.mark.filterwarnings("ignore")
def test_error_of_the_users_own_callback_is_no_fault_of_the_measured_program() -> None:
    shape = jax.ShapeDtypeStruct((), jnp.float32)
    function = jax.jit(lambda x: jax.pure_callback(failing, shape, x))
    step = numcheck_jax.instrument(function, level="trace", audit_first=False)
    with pytest.raises(jax.errors.JaxRuntimeError, match="failing"):
        jax.block_until_ready(step(jnp.float32(1.0)))
    step.numcheck.close()
    assert [e for e in step.numcheck.events if e.name == "fault"] == []


@jax.tree_util.register_pytree_node_class
class Choosy:
    """A container that takes nothing but arrays."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def tree_flatten(self) -> tuple[Any, None]:
        return (self.x,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> Choosy:
        if not isinstance(children[0], jax.Array):
            raise TypeError(type(children[0]))
        return cls(*children)


def test_container_that_takes_arrays_alone_is_watched_like_any_other() -> None:
    function = jax.jit(lambda c: Choosy(jnp.log(c.x)))
    step = numcheck_jax.instrument(function, on_error="record", audit_first=False)
    step(Choosy(-ONES))
    step.numcheck.close()
    assert [f.site.op for f in step.numcheck.findings] == ["log"]


def plain(x: Any) -> Any:
    return x + 1


@numcheck_jax.instrument
def decorated(x: Any) -> Any:
    return x + 1


def test_copies_and_pickles_are_the_plain_function_or_the_decorated_name() -> None:
    watched = numcheck_jax.instrument(plain)
    for again in (copy.copy(watched), pickle.loads(pickle.dumps(watched))):
        assert again is plain
    for again in (copy.deepcopy(decorated), pickle.loads(pickle.dumps(decorated))):
        assert again is decorated


def test_function_compiled_beforehand_says_what_to_instrument_instead() -> None:
    step = numcheck_jax.instrument(
        jax.jit(jnp.log).lower(ONES).compile(), on_error="record", audit_first=False
    )
    step(-ONES)
    step.numcheck.close()
    (finding,) = step.numcheck.findings
    assert finding.id == "N903"
    assert "refusal.compiled" in [e.fields.get("why") for e in finding.evidence]


class Scaled:
    """Holds a jitted method of which the instance and a number are static."""

    @functools.partial(jax.jit, static_argnums=(0, 2))
    def log(self, x: Any, times: int) -> Any:
        return jnp.log(x) * sum(range(times))


@pytest.mark.parametrize("level", ["watch", "anchors", "trace"])
def test_jitted_method_with_static_arguments_is_measured_and_run_again(
    level: Any,
) -> None:
    step = numcheck_jax.instrument(Scaled().log, level=level, on_error="record")
    step(ONES, 3)
    step(-ONES, 3)
    step.numcheck.close()
    assert [f.site.op for f in step.numcheck.findings] == ["log"]
    assert [e for e in step.numcheck.events if e.name == "fault"] == []


@pytest.mark.parametrize("level", ["watch", "anchors", "trace"])
def test_donated_arguments_stay_donated_beside_static_and_plain_numbers(
    level: Any,
) -> None:
    function = jax.jit(lambda p, n, s: p * s + n, static_argnums=1, donate_argnums=0)
    step = numcheck_jax.instrument(function, level=level, audit_first=False)
    p = jnp.ones(3)
    step(p, 3, 0.5)
    step.numcheck.close()
    assert p.is_deleted()
