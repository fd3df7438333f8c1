# SPDX-License-Identifier: Apache-2.0
"""One small run that overflows, with everything a report can show."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from numcheck.diagnose.finding import Advice, Cause, Evidence, Fact, Finding
from numcheck.diagnose.incident import Experiment
from numcheck.measure.summary import Summary
from numcheck.record.site import Site, SourceLine
from numcheck.record.trace import Event, Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

STEPS = tuple(range(1852, 1861))
LINE = SourceLine("model/mlp.py", 88, "MLP.forward", "return self.down(h)")
UP = SourceLine("model/mlp.py", 86, "MLP.forward", "h = self.up(x)")
LOSS = SourceLine("train.py", 41, "train_step", "loss = F.cross_entropy(logits, y)")


def sites() -> tuple[Site, ...]:
    """Returns a program of ten values: batch, weight, MLP, loss, gradient, update."""
    mlp = "decoder.layers.35.mlp"
    return (
        Site(0, "input:x", "data", "source", "input", "move", dtype="float32",
             shape=(8, 512)),
        Site(1, "parameter:decoder.layers.35.mlp.down.weight", "data", "source",
             "parameter", "move", dtype="float16", shape=(512, 2048)),
        Site(2, "aten.mm.default", "forward", dtype="float16", shape=(8, 2048),
             scope=f"{mlp}.up", scope_type="Linear", source=UP, parents=(0,),
             family="matmul"),
        Site(3, "aten.silu.default", "forward", dtype="float16", shape=(8, 2048),
             scope=mlp, source=UP, parents=(2,), family="sigmoid"),
        Site(4, "aten.mm.default", "forward", dtype="float16", shape=(8, 512),
             scope=f"{mlp}.down", scope_type="Linear", source=LINE, parents=(3, 1),
             family="matmul"),
        Site(5, "aten._log_softmax.default", "forward", dtype="float32",
             shape=(8, 512), source=LOSS, parents=(4,), family="log_softmax"),
        Site(6, "loss", "forward", "kept", "loss", "move", dtype="float32",
             parents=(5,)),
        Site(7, "aten.mm.default", "backward", dtype="float16", shape=(512, 2048),
             scope=f"{mlp}.down", source=LINE, parents=(5, 3), family="matmul"),
        Site(8, "gradient:decoder.layers.35.mlp.down.weight", "backward", "kept",
             "gradient", "move", dtype="float16", shape=(512, 2048), parents=(7,)),
        Site(9, "aten._foreach_add_.List", "optimizer", dtype="float32",
             shape=(512, 2048), parents=(1, 8), family="add"),
    )  # fmt: skip


def finite(n: int, amax: float) -> Summary:
    """Returns the summary of n finite values, spread evenly over twenty binades."""
    top = math.frexp(amax)[1] - 1
    binades = min(n, 20)
    each = n // binades
    return Summary(
        n=n, nan=0, pos_inf=0, neg_inf=0, zero=n - binades * each, subnormal=0,
        low=-amax, high=amax, amax=amax, amin=math.ldexp(1.0, top + 1 - binades),
        total=0.5, total_sq=amax * amax,
        exponents={top - i: each for i in range(binades)},
    )  # fmt: skip


def broken(n: int, amax: float, *, inf: int = 0, nan: int = 0) -> Summary:
    """Returns a summary with infinities or NaN beside finite values."""
    extreme = math.nan if nan else math.inf
    return Summary(
        n=n, nan=nan, pos_inf=inf, neg_inf=0, zero=0, subnormal=3,
        low=math.nan if nan else -amax, high=extreme, amax=amax, amin=2.0**-15,
        total=0.0, total_sq=amax * amax, exponents={14: n - inf - nan - 3, -15: 3},
    )  # fmt: skip


def measured(step: int) -> dict[int, Summary]:
    """Returns what each site held at a step; amax doubles until the last one breaks."""
    grown = 2.0 ** (step - STEPS[-1])
    values = {
        0: finite(4096, 3.5),
        1: finite(1 << 20, 0.75),
        2: finite(16384, 7640.0 * grown),
        3: finite(16384, 30720.0 * grown),
        4: finite(4096, 65000.0 * grown),
        5: finite(4096, 12.0),
        6: finite(1, 2.5),
        7: finite(1 << 20, 0.03),
        8: finite(1 << 20, 0.03),
        9: finite(1 << 20, 0.75),
    }
    if step == STEPS[-1]:
        values |= {
            4: broken(4096, 65472.0, inf=12),
            5: broken(4096, 40.0, nan=512),
            6: Summary(n=1, nan=1, pos_inf=0, neg_inf=0, zero=0, low=math.nan,
                       high=math.nan),
            7: broken(1 << 20, 0.5, nan=2048),
            8: broken(1 << 20, 0.5, nan=2048),
        }  # fmt: skip
        del values[9]
    return values


def trace() -> Trace:
    """Returns the run's trace, nine steps of one rank."""
    return Trace(
        sites(),
        {(step, 0): measured(step) for step in STEPS},
        events=events(),
        meta={"framework": "torch", "torch": "2.13.0"},
    )


def events() -> tuple[Event, ...]:
    """Returns the scalars of the run; the loss ends in NaN."""
    last = STEPS[-1]
    curves = [
        Event(name, step, value)
        for step in STEPS
        for name, value in (
            ("loss", 2.0 + 0.1 * (step - STEPS[0]) if step < last else math.nan),
            ("gradient_norm", 1.5 ** (step - STEPS[0])),
            ("learning_rate", 1e-3),
            ("loss_scale", 65536.0),
        )
    ]
    return (*curves, Event("note", last, "step not audited"))


def experiments() -> Sequence[Experiment]:
    """Returns what running the failing step again showed."""
    return (
        Experiment("float32", "healthy", fields={"amax": 81100.0}),
        Experiment("rows", "failed", fields={"rows": "", "count": 0, "of": 8}),
        Experiment("operator_on_cpu", "not_run", reason="refusal.on_cpu"),
    )


def overflow() -> Finding:
    """Returns the error: a float16 matmul left its format's range."""
    known, last = sites(), measured(STEPS[-1])
    return Finding(
        "N102",
        "error",
        known[4],
        step=STEPS[-1],
        rank=3,
        kind="+inf",
        fields={"dtype": "float16", "op": "aten.mm.default"},
        facts=(
            Fact(
                "input", "decoder.layers.35.mlp/aten.silu.default", "float16", last[3]
            ),
            Fact("input", sites()[1].op, "float16", last[1]),
            Fact("output", "y", "float16", last[4]),
        ),
        chain=tuple((known[i], last.get(i)) for i in (0, 2, 3, 4, 5, 6)),
        harm=(known[6], known[8]),
        evidence=(
            Evidence("float32_healthy"),
            Evidence(
                "grew",
                {"name": "gradient_norm", "first": 1.0, "last": 25.63, "steps": 8},
                seen=False,
            ),
        ),
        cause=Cause("precision", "N151", "certain"),
        help=(
            Advice("float32_here", "certain", tried=True),
            Advice("bfloat16", "likely"),
        ),
        reproduced=True,
        masked=(known[5],),
        count=2,
    )


def departures() -> dict[int, float]:
    """Returns how far values of an earlier step lay from their float32 shadow."""
    return {2: 3e-4, 3: 5e-4, 4: math.inf, 5: math.nan, 6: 0.0, 7: 2e-3, 8: 2e-3}
