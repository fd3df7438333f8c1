# SPDX-License-Identifier: Apache-2.0
"""A failing step whose inputs are still held, ready to be run again."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from numcheck.diagnose.laboratory import CannotRunError, Outcome
from numcheck.record.notice import notice
from numcheck_jax.boundary import BOUNDARY
from numcheck_jax.capture import is_deleted, may_donate
from numcheck_jax.interpreter.concrete import departure
from numcheck_jax.lift import lift
from numcheck_jax.replay import arguments, kept_name, replay, replay_compiled
from numcheck_jax.sentinel import is_watchable
from numcheck_jax.statistics import summarize
from numcheck_jax.substitute import can_stand_in
from numcheck_jax.tracing import trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck.record.trace import Trace
    from numcheck_jax.capture import Call
    from numcheck_jax.replay import Replay
    from numcheck_jax.results import Key
    from numcheck_jax.roles import Roles
    from numcheck_jax.tracing import Program

__all__ = ["JaxLaboratory"]


@dataclasses.dataclass
class JaxLaboratory:
    """One call of the user's function that can be run again.

    Attributes:
        call: the call, its arguments still held.
        program: its program.
        roles: what its values are to the user.
        seen: what the user really got, by place.
        harmed: the values that broke; empty when none did.
        initial: state leaves of the first watched step, by position; None where they
            were not kept.
        results: the values that the user really got, by place.
        beside: whether a replay runs beside float32 as well: where an audit did,
            that is compiled already.
        is_share: whether this is one process's share of a step of several.
        last: the last replay.
    """

    call: Call
    program: Program
    roles: Roles
    seen: Mapping[Key, Summary]
    harmed: frozenset[Key] = frozenset()
    initial: Mapping[int, Any] | None = None
    results: Mapping[Key, Any] = dataclasses.field(default_factory=dict)
    beside: bool = False
    is_share: bool = False
    last: Replay | None = None

    @property
    def reproduced(self) -> bool:
        """Whether the last replay broke where the program did."""
        if self.last is None:
            return False
        own = self.last.kept
        return any(k in own and own[k].is_finite is False for k in self.harmed)

    def replay(self) -> Trace:
        """Run the step unchanged with every operator recorded."""
        with self._running():
            shadow: Literal["float32"] | None = "float32" if self.beside else None
            self.last = replay(
                self.call,
                self.program,
                self.roles,
                shadow=shadow,
                seen=self.seen,
                compares=False,
            )
        return self.last.trace

    def replay_compiled(self) -> Trace:
        """Run the step compiled as a whole, with every value measured."""
        with self._running():
            self.last = replay_compiled(self.call, self.program, self.roles, self.seen)
        return self.last.trace

    def beside_float32(self) -> tuple[Trace, Mapping[int, float]]:
        """Run the step and its float32 lift side by side."""
        with self._running():
            self.last = replay(
                self.call, self.program, self.roles, shadow="float32", seen=self.seen
            )
        return self.last.trace, self.last.departures

    def departures(self) -> dict[int, float]:
        """Return how far what the user really got departs from the float32 lift.

        Returns:
            By the index that the value's site has in the last trace.
        """
        with self._running():
            args = arguments(self.program, self.call.leaves)
            lifted = lift(self.program.closed, "float32")(*args)
            places = self.last.places if self.last is not None else {}
            return {
                places[key]: departure(self.results[key], shadow)
                for key, shadow in zip(self.program.outputs, lifted, strict=True)
                if key in places and key in self.results
            }

    def in_format(
        self, name: Literal["same", "bfloat16", "float32", "float64"]
    ) -> Outcome:
        """Run the step with its lower-precision dtypes lifted.

        Raises:
            CannotRunError: a lift of each dtype to itself does not give the same step.
        """
        wide = jax.enable_x64(True) if name == "float64" else contextlib.nullcontext()  # noqa: FBT003 - JAX's own signature
        with self._running(), wide:
            args = arguments(self.program, self.call.leaves)
            outs = lift(self.program.closed, name)(*args)
            if name == "same" and self.last is not None:
                self._require_same(outs, args)
                view = self.last.trace.at(self.call.step, self.call.rank)
                found = ((site.op, view.summary(site)) for site in view.kept())
                return Outcome({op: held for op, held in found if held is not None})
            return self._outcome(self.program, outs)

    def _require_same(self, outs: Sequence[Any], args: Sequence[Any]) -> None:
        """Check that a lift of each dtype to itself gives what the program gave.

        The replay is no measure: the compiler rounds otherwise than op by op.

        Raises:
            CannotRunError: it does not.
        """
        got = [self.results.get(key) for key in self.program.outputs]
        if _are_equal(got, outs):
            return
        closed = self.program.closed
        if not closed.effects:
            copies = [jnp.array(x) for x in args]  # the program may consume them
            got = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *copies)
            if _are_equal(got, outs):
                return
        raise CannotRunError("refusal.lift_unfaithful")

    def rows(self) -> int | None:
        """Return the number of samples: the leading axis most inputs share."""
        return _rows(self._batch())

    def on_rows(self, rows: Sequence[int]) -> Outcome:
        """Run the step on the given samples only, repeated to fill the batch.

        With the shape of the batch nothing has to be compiled again.

        Raises:
            CannotRunError: there is no batch axis, or the function does not accept
                fewer samples.
        """
        batch = self._batch()
        count = _rows(batch)
        if count is None:
            raise CannotRunError("refusal.no_batch_axis")
        chosen = np.resize(np.asarray(rows), count)
        leaves = list(self.call.leaves)
        for i, leaf in batch.items():
            if leaf.shape[0] == count:
                leaves[i] = jnp.asarray(leaf)[chosen]
        return self._again(leaves)

    def batch(self) -> dict[str, NDArray[Any]]:
        """Return the inputs and targets on the host, by their names."""
        self.call.require_intact()
        return {
            self.call.names[i]: np.asarray(leaf)
            for i, leaf in self._batch().items()
            if getattr(leaf, "is_fully_addressable", True)
            and not jnp.issubdtype(leaf.dtype, jax.dtypes.extended)
        }

    def at_initial_parameters(self) -> Outcome:
        """Run the step with the state of the first watched step.

        Raises:
            CannotRunError: that state was not kept, or there is none.
        """
        if self.initial is None:
            raise CannotRunError("refusal.first_state_large")
        if not self.initial:
            raise CannotRunError("refusal.not_fed_back")
        leaves = list(self.call.leaves)
        for i, leaf in self.initial.items():
            if is_deleted(leaf):
                raise CannotRunError("refusal.first_state_donated")
            leaves[i] = leaf
        return self._again(leaves)

    def with_loss_scale(self, factor: float, scale: float) -> Outcome:
        """Run the step with another number where it multiplies the loss by `factor`."""
        from numcheck_jax.varied import with_factor

        with self._running():
            args = arguments(self.program, self.call.leaves)
            outs = with_factor(self.program.closed, args, factor, scale)
            return self._outcome(self.program, outs)

    def with_clipping(self, limit: float | None) -> Outcome:
        """Run the step and its update on gradients clipped to a global norm.

        Raises:
            CannotRunError: `limit` is None, since a program does not say what of it is
                clipping; or it does not show where the update takes its gradients.
        """
        from numcheck_jax.clipped import with_clipping

        if limit is None or self.last is None:
            raise CannotRunError("refusal.clipping_unknown")
        with self._running():
            args = arguments(self.program, self.call.leaves)
            view = self.last.trace.at(self.call.step, self.call.rank)
            outs = with_clipping(self.program.closed, args, view, limit)
            return self._outcome(self.program, outs)

    def operator_wider(
        self, trace: Trace, site: Site, name: Literal["float32", "float64"]
    ) -> Outcome:
        """Run one operator alone in a wider format, with the operands it had."""
        from numcheck_jax.varied import operator_wider

        with self._running():
            args = arguments(self.program, self.call.leaves)
            found = operator_wider(
                self.program.closed, args, trace, site, name, beside=self.beside
            )
            return Outcome({"result": found})

    def operator_on_cpu(self, trace: Trace, site: Site) -> Outcome:
        """Run one operator alone on the CPU, with the operands it had in the replay.

        The replay ran it alone on the device, where the compiled program may have
        fused it with others.
        """
        from numcheck_jax.varied import operator_on_cpu

        if jax.default_backend() == "cpu":
            raise CannotRunError("refusal.on_cpu")
        with self._running():
            args = arguments(self.program, self.call.leaves)
            found = operator_on_cpu(
                self.program.closed, args, trace, site, beside=self.beside
            )
            return Outcome({"result": found})

    def one_by_one(self) -> Outcome:
        """Refuse: the replay runs the step operator by operator already.

        Raises:
            CannotRunError: always.
        """
        raise CannotRunError("refusal.ran_one_by_one")

    def _again(self, leaves: Sequence[Any]) -> Outcome:
        with self._running():
            program = self.program
            if self._fits(leaves) and self._is_its_function:
                # What the user compiled already, and what really ran.
                args, kwargs = jax.tree.unflatten(self.call.treedef, leaves)
                outs = jax.tree.leaves(self.call.function(*args, **kwargs))
                return self._outcome(program, outs)
            if program.one_branch or not self._fits(leaves):
                program = trace(self.call, leaves)
            outs = lift(program.closed, "same")(*arguments(program, leaves))
            return self._outcome(program, outs)

    @property
    def _is_its_function(self) -> bool:
        """Whether the user's own function can be called again, unseen by anyone."""
        pure = can_stand_in(self.call, self.program) and not self.is_share
        return pure and not (self.program.closed.effects or may_donate(self.call))

    def _fits(self, leaves: Sequence[Any]) -> bool:
        """Whether the step's own program takes other leaves in place of its own."""
        return all(
            np.shape(new) == np.shape(old)
            and getattr(new, "dtype", None) == getattr(old, "dtype", None)
            for new, old in zip(leaves, self.call.leaves, strict=True)
        )

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        self.call.require_intact()
        try:
            with BOUNDARY.muted():
                yield
        except CannotRunError:
            raise
        except Exception as error:  # the user's program runs inside
            told = f"{type(error).__name__}: {error}"
            raise CannotRunError(notice("refusal.raised", error=told)) from error

    def _batch(self) -> dict[int, Any]:
        """Return the leaves that vary from sample to sample, by position."""
        return {
            i: self.call.leaves[i]
            for i, role in self.roles.sources.items()
            if role in ("input", "target") and np.ndim(self.call.leaves[i])
        }

    def _outcome(self, program: Program, outs: Sequence[Any]) -> Outcome:
        """Return what a run gave for the values that count.

        A value that was not finite and did no harm says nothing about health.
        """
        kept: dict[str, Summary] = {}
        for key, value in zip(program.outputs, outs, strict=True):
            before = self.seen.get(key)
            exempt = before is not None and before.is_finite is False
            if not is_watchable(value) or (exempt and key not in self.harmed):
                continue
            name = kept_name(self.call, self.program, self.roles, key)
            kept[name] = summarize(jnp.asarray(value))
        return Outcome(kept)


def _are_equal(got: Sequence[Any], outs: Sequence[Any]) -> bool:
    """Whether two runs gave the same, bit for bit but for the kind of NaN."""
    return all(_is_equal(a, b) for a, b in zip(got, outs, strict=True))


def _is_equal(a: Any, b: Any) -> bool:
    if jnp.issubdtype(jax.typeof(b).dtype, jax.dtypes.extended):
        return True
    if a is None or is_deleted(a):
        return False
    numbers = jnp.issubdtype(jax.typeof(b).dtype, jnp.inexact)
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=numbers)


def _rows(batch: Mapping[int, Any]) -> int | None:
    sizes = Counter(leaf.shape[0] for leaf in batch.values())
    if not sizes:
        return None
    count, _ = sizes.most_common(1)[0]
    return int(count) if count > 1 else None
