# SPDX-License-Identifier: Apache-2.0
"""A trace for tools that plot: TensorBoard through any writer, W&B by dictionaries.

Nothing of those tools is imported here; writer or logging function are the caller's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol, cast

from numcheck.report.figures import binades, headroom_bits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numcheck.measure.summary import Summary
    from numcheck.record.site import Site
    from numcheck.record.trace import Trace

__all__ = ["DictionaryLog", "ScalarWriter", "log_trace", "scalars"]


class ScalarWriter(Protocol):
    """What a writer must have: torch's `SummaryWriter` and tensorboardX's do.

    A writer that also has ``add_histogram_raw`` gets the exponent histograms.
    """

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> object:
        """Note one number of one step."""
        ...


class DictionaryLog(Protocol):
    """A function that takes all numbers of a step at once: ``wandb.log`` does."""

    def __call__(self, values: dict[str, float], /, *, step: int) -> object:
        """Note the numbers of one step by name."""
        ...


def scalars(trace: Trace, rank: int = 0) -> dict[int, dict[str, float]]:
    """Return by step what can be plotted, ready for ``wandb.log(values, step=step)``.

    Args:
        trace: what was recorded.
        rank: whose values.

    Returns:
        For each recorded step ``numcheck/headroom/SITE`` (bits; -Inf after an
        overflow, left out where unknown or where all is zero), ``numcheck/nan/SITE``
        and ``numcheck/inf/SITE`` (counts, only where there are any), and the scalars
        that were read.

    Example:
        >>> from numcheck.record.site import Site
        >>> from numcheck.measure.summary import Summary
        >>> from numcheck.record.trace import TraceBuilder
        >>> builder = TraceBuilder(step=3)
        >>> site = Site(0, "loss", "forward", "kept", dtype="float16")
        >>> _ = builder.add(
        ...     site, Summary(n=1, nan=0, pos_inf=0, neg_inf=0, amax=16376.0)
        ... )
        >>> scalars(builder.build())
        {3: {'numcheck/headroom/loss': 2.0}}
    """
    found: dict[int, dict[str, float]] = {}
    for (step, whose), summaries in sorted(trace.summaries.items()):
        if whose == rank:
            values = found.setdefault(step, {})
            for index, summary in summaries.items():
                values.update(_site_scalars(trace.sites[index], summary))
    for event in trace.events:
        if event.rank == rank and isinstance(event.value, int | float):
            values = found.setdefault(event.step, {})
            values[f"numcheck/{event.name}"] = float(event.value)
    return found


def _site_scalars(site: Site, summary: Summary) -> Iterator[tuple[str, float]]:
    tag = _tag(site)
    bits = headroom_bits(summary, site.dtype)
    if bits is not None and bits != math.inf:
        yield f"numcheck/headroom/{tag}", bits
    infinities = (summary.pos_inf or 0) + (summary.neg_inf or 0)
    for name, count in (("nan", summary.nan or 0), ("inf", infinities)):
        if count:
            yield f"numcheck/{name}/{tag}", float(count)


def _tag(site: Site) -> str:
    """Return the site's name with its place in the order of execution.

    Two sites of one module may have one name, and a tag must not mix them.
    """
    return site.name if site.kind != "operator" else f"{site.name}.{site.index}"


def log_trace(
    trace: Trace, writer: ScalarWriter | DictionaryLog, rank: int = 0, *, since: int = 0
) -> None:
    """Write a trace's scalars, and its exponent histograms where the writer can.

    Args:
        trace: what was recorded.
        writer: any object with ``add_scalar(tag, value, step)``, such as
            ``torch.utils.tensorboard.SummaryWriter``; histograms need
            ``add_histogram_raw`` as well. Their axis is the binary exponent. Or a
            function of a dictionary and a step, such as ``wandb.log``.
        rank: whose values.
        since: first step to write, where earlier ones were written before.

    Example:
        >>> from numcheck.record.trace import Event, Trace
        >>> trace = Trace((), {}, (Event("loss", 0, 2.5), Event("loss", 1, 2.25)))
        >>> log_trace(trace, lambda values, step: print(step, values), since=1)
        1 {'numcheck/loss': 2.25}
    """
    add_scalar = getattr(writer, "add_scalar", None)
    for step, values in scalars(trace, rank).items():
        if step < since:
            continue
        if add_scalar is None:
            cast("DictionaryLog", writer)(values, step=step)
            continue
        for tag, value in values.items():
            add_scalar(tag, value, step)
    raw = getattr(writer, "add_histogram_raw", None)
    if raw is not None:
        for step, tag, drawn in _histograms(trace, rank):
            if step >= since:
                raw(tag, **drawn, global_step=step)


def _histograms(trace: Trace, rank: int) -> Iterator[tuple[int, str, dict[str, Any]]]:
    for (step, whose), summaries in sorted(trace.summaries.items()):
        for index, summary in summaries.items() if whose == rank else ():
            lowest, counts = binades(summary.exponents or {})
            if any(counts):
                tag = f"numcheck/exponents/{_tag(trace.sites[index])}"
                yield step, tag, _histogram(lowest, counts)


def _histogram(lowest: int, counts: Sequence[int]) -> dict[str, Any]:
    held = list(enumerate(counts, lowest))
    return {
        "min": lowest,
        "max": lowest + len(counts),
        "num": sum(counts),
        "sum": sum(e * n for e, n in held),
        "sum_squares": sum(e * e * n for e, n in held),
        "bucket_limits": [e + 1 for e, _ in held],
        "bucket_counts": list(counts),
    }
