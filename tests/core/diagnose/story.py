# SPDX-License-Identifier: Apache-2.0
"""Small programs computed by NumPy and told as traces: NumPy is the oracle."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from numcheck.diagnose import diagnose
from numcheck.diagnose.incident import Experiment, Incident
from numcheck.measure import summarize
from numcheck.record import Site, SourceLine, TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numcheck.diagnose import Finding
    from numcheck.diagnose.incident import ExperimentName
    from numcheck.record.site import Family, Phase, Role


@dataclasses.dataclass(frozen=True)
class Value:
    """An array of the story, its float32 shadow, and its site."""

    index: int
    array: np.ndarray[Any, Any]
    shadow: np.ndarray[Any, Any]


class Story:
    """Runs operators on arrays and records each as a site, beside float32."""

    def __init__(self, step: int = 0) -> None:
        self.builder = TraceBuilder(step)
        self.departures: dict[int, float] = {}

    def source(self, role: Role, array: Any, name: str = "x") -> Value:
        """Give the step a value."""
        found = np.asarray(array)
        phase: Phase = "data" if role in ("input", "target") else "forward"
        site = Site(
            0, f"{role}:{name}", phase, kind="source", role=role, effect="move",
            dtype=found.dtype.name, shape=found.shape,
        )  # fmt: skip
        return self._add(site, found, _wide(found))

    def op(
        self,
        family: Family,
        function: Callable[..., Any],
        *operands: Value | float,
        phase: Phase = "forward",
        line: int = 1,
        text: str = "",
        **fields: Any,
    ) -> Value:
        """Run one operator. Plain numbers become facts, as adapters note them."""
        with np.errstate(all="ignore"):
            array = function(*(_narrow(o) for o in operands))
            shadow = function(
                *(o.shadow if isinstance(o, Value) else o for o in operands)
            )
        array = np.asarray(array)
        detail = tuple(
            (f"operand{i}", float(o))
            for i, o in enumerate(operands)
            if not isinstance(o, Value) and np.isfinite(o)
        )
        literals = tuple(
            "nan" if np.isnan(o) else "+inf" if o > 0 else "-inf"
            for o in operands
            if not isinstance(o, Value) and not np.isfinite(o)
        )
        fields.setdefault("op", family or "op")
        fields["detail"] = (*detail, *fields.get("detail", ()))
        site = Site(
            0, phase=phase, dtype=array.dtype.name, shape=array.shape, family=family,
            parents=tuple(o.index for o in operands if isinstance(o, Value)),
            literals=literals, source=SourceLine("train.py", line, text=text), **fields,
        )  # fmt: skip
        return self._add(site, array, _wide(np.asarray(shadow)))

    def cast(
        self, value: Value, dtype: str, *, most: float = np.inf, **fields: Any
    ) -> Value:
        """Convert to a format, cutting off at `most`; the shadow stays in float32."""
        with np.errstate(all="ignore"):
            array = np.clip(value.array, -most, most).astype(dtype)
        site = Site(
            0, "convert", fields.pop("phase", "forward"), effect="cast", dtype=dtype,
            shape=array.shape, parents=(value.index,), family="cast", **fields,
        )  # fmt: skip
        return self._add(site, array, value.shadow)

    def keep(self, role: Role, value: Value, name: str = "") -> Value:
        """Hand a value back to the user."""
        site = Site(
            0, f"{role}:{name}" if name else role, "forward", kind="kept", role=role,
            effect="move", dtype=value.array.dtype.name, shape=value.array.shape,
            parents=(value.index,),
        )  # fmt: skip
        return self._add(site, value.array, value.shadow)

    def incident(
        self, *experiments: Experiment, audited: bool = False, **fields: Any
    ) -> Incident:
        """Return the story so far as an incident."""
        return Incident(
            self.builder.build(),
            self.builder.step,
            experiments={e.name: e for e in experiments},
            departures=dict(self.departures) if audited else None,
            **fields,
        )

    def _add(self, site: Site, array: Any, shadow: Any) -> Value:
        index = self.builder.add(site, summarize(array))
        self.departures[index] = departure(array, shadow)
        return Value(index, array, shadow)


def ran(name: ExperimentName, result: str, **fields: Any) -> Experiment:
    """Return an experiment as if it had been run."""
    assert result in ("healthy", "failed", "not_run")
    return Experiment(name, result, fields=fields)  # type: ignore[arg-type]


def departure(array: Any, shadow: Any) -> float:
    """Return the relative L2 error, Inf where finiteness differs."""
    with np.errstate(all="ignore"):
        a, b = np.asarray(array, np.float64), np.asarray(shadow, np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    a, b = (np.where(np.isfinite(v), v, 0.0) for v in (a, b))
    error, size = float(np.linalg.norm(a - b)), float(np.linalg.norm(b))
    return 0.0 if error == 0 else error / size if size else float("inf")


def only(incident: Incident) -> Finding:
    """Return the first finding of a step that must have one."""
    findings = diagnose(incident)
    assert findings
    return findings[0]


def told(incident: Incident) -> tuple[str, str | None, str | None]:
    """Return what is said of a step: the finding, its class, its rule."""
    found = only(incident)
    cause = found.cause
    return found.id, cause and cause.cls, cause and cause.rule


def names(sites: Sequence[Site]) -> list[str]:
    """Return the operators of sites."""
    return [s.op for s in sites]


def _wide(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    is_narrow = array.dtype.itemsize < 4 and array.dtype.kind not in "iub"
    return array.astype(np.float32) if is_narrow else array


def _narrow(operand: Value | float) -> Any:
    return operand.array if isinstance(operand, Value) else operand
