# SPDX-License-Identifier: Apache-2.0
"""The framework-neutral half of a watched program."""

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import linecache
import math
import threading
import types
import warnings
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import numcheck.monitor
from numcheck.diagnose.finding import Finding
from numcheck.diagnose.incident import Experiment, Incident
from numcheck.diagnose.incident_json import incident_from_json
from numcheck.errors import ArgumentError, NonFiniteError
from numcheck.measure.summary import Summary
from numcheck.monitor import Monitor, NumcheckWarning
from numcheck.options import Options, options_from
from numcheck.record import Event, Site, SourceLine, TraceBuilder, open_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numcheck.diagnose.finding import Severity
    from numcheck.record import Trace


def finding(op: str = "log", severity: Severity = "error", step: int = 3) -> Finding:
    return Finding("N301", severity, Site(4, op, "forward"), step, "-inf")


def one_step(step: int = 0) -> Trace:
    builder = TraceBuilder(step)
    builder.add(Site(0, "log", "forward"), Summary(n=1, low=-math.inf, high=0.0))
    return builder.build()


def test_an_error_is_raised_with_its_finding() -> None:
    monitor = Monitor(Options())
    with pytest.raises(NonFiniteError, match="N301") as raised:
        monitor.deliver([finding(severity="warning", op="exp"), finding()])
    assert raised.value.finding == finding()
    assert isinstance(raised.value, FloatingPointError)
    assert [f.severity for f in monitor.findings] == ["error", "warning"]


def test_an_error_of_a_later_step_is_raised_though_it_is_known() -> None:
    monitor = Monitor(Options())
    for step in (3, 4, 6):
        with pytest.raises(NonFiniteError):
            monitor.deliver([finding(step=step)])
        monitor.deliver([finding(step=step)])
    (found,) = monitor.findings
    assert (found.step, found.count) == (3, 6)


def test_on_error_warn_warns_and_goes_on() -> None:
    monitor = Monitor(Options(on_error="warn"))
    with pytest.warns(NumcheckWarning, match="N301"):
        monitor.deliver([finding()])


def test_on_error_record_is_silent() -> None:
    monitor = Monitor(Options(on_error="record"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monitor.deliver([finding()])
    assert monitor.findings == (finding(),)


def test_a_note_is_never_loud() -> None:
    monitor = Monitor(Options())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monitor.deliver([finding(severity="note")])


def test_a_repeated_origin_is_counted_until_a_healthy_step() -> None:
    monitor = Monitor(Options(on_error="record"))
    monitor.deliver([finding(step=3)])
    monitor.deliver([finding(step=4)])
    assert monitor.is_known(finding(step=5))
    monitor.rearm()
    monitor.deliver([finding(step=9)])
    assert [(f.step, f.count) for f in monitor.findings] == [(3, 2), (9, 1)]


def test_an_origin_that_was_only_a_note_is_news_when_it_does_harm() -> None:
    monitor = Monitor(Options())
    monitor.deliver([finding(severity="note", step=0)])
    with pytest.raises(NonFiniteError):
        monitor.deliver([finding(severity="error", step=1)])
    assert [f.severity for f in monitor.findings] == ["error", "note"]


def broken_hook() -> None:
    raise RuntimeError


def test_a_failure_inside_numcheck_is_told_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    monitor = Monitor(Options())
    for _ in range(2):
        try:
            broken_hook()
        except RuntimeError:
            monitor.fault("the output hook")
    told = capsys.readouterr().err
    assert told.count("N901") == 1
    assert "in broken_hook" in told
    assert "training goes on" in told


def test_closing_does_not_hide_the_programs_own_error() -> None:
    class Pending(Monitor):
        def close(self) -> None:
            super().close()
            self.deliver([finding()])

    with pytest.raises(KeyError) as raised, Pending(Options()):
        raise KeyError
    assert "N301" in raised.value.__notes__[0]


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"level": "wach"}, "'watch', 'anchors', 'trace'"),
        ({"on_error": None}, "'raise', 'warn', 'record', 'skip'"),
        ({"every": 0}, "positive whole number"),
        ({"every": True}, "positive whole number"),
        ({"evry": 3}, "unknown option 'evry'; did you mean 'every'"),
        ({"x": 3}, "unknown option 'x'; options are audit_first"),
        ({"run": 3}, "run must be the path of a folder"),
        ({"run": ""}, "run must be the path of a folder"),
    ],
    ids=[
        "level",
        "on_error",
        "zero",
        "bool",
        "misspelt",
        "unknown",
        "run",
        "empty-run",
    ],
)
def test_a_wrong_option_says_what_was_expected(
    keywords: dict[str, Any], words: str
) -> None:
    with pytest.raises(ArgumentError, match=words):
        options_from(keywords)


def test_everything_a_run_saw_is_in_its_folder(tmp_path: Path) -> None:
    monitor = Monitor(Options(run=tmp_path), framework="none")
    monitor.observe(loss=math.inf, gradient_norm=None)
    monitor.record(one_step(0))
    incident = Incident(
        one_step(1),
        1,
        reproduced=True,
        experiments={"float32": Experiment("float32", "healthy", "", {"amax": 3e5})},
        departures={0: math.inf},
        history=(Event("loss", 0, math.nan),),
        settings={"lr": 0.1, "fused": True},
    )
    monitor.keep(incident)
    monitor.close()
    run = open_run(tmp_path)
    assert run.trace.events == (Event("loss", 0, math.inf),)
    assert run.trace.at(0).summaries == one_step(0).at(0).summaries
    (kept,) = run.incidents
    again = incident_from_json(kept.trace, kept.step, kept.rank, kept.known)
    assert repr(again) == repr(incident)
    assert run.path == monitor.run_path


def test_a_full_disk_costs_records_and_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monitor = Monitor(Options(run=tmp_path))
    with monkeypatch.context() as disk:
        disk.setattr("numcheck.record.trace_files.append", full)
        disk.setattr("numcheck.record.run_folder.append", full)
        incident = Incident(one_step(1), 1, reproduced=True)
        for _ in range(2):  # the step, then what experiments added
            monitor.observe(loss=1.0)
            monitor.record(one_step(0))
            monitor.keep(incident)
    assert capsys.readouterr().err.count("note[N901]") == 1
    with pytest.raises(NonFiniteError):
        monitor.deliver([finding()])
    assert monitor.trace is not None
    monitor.keep(Incident(one_step(2), 2, reproduced=True))
    monitor.close()
    run = open_run(tmp_path)
    assert [kept.step for kept in run.incidents] == [2]
    assert [e.name for e in run.trace.events].count("loss") == 2
    (note,) = run.notes  # of what was lost, no more
    assert "unread.incidents_untold" in note


def test_a_long_run_keeps_its_newest_scalars_and_loses_none_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numcheck.monitor, "MOST_EVENTS", 100)
    monitor = Monitor(Options(run=tmp_path))
    for step in range(1000):
        monitor.step = step
        monitor.observe(loss=float(step))
    monitor.close()
    assert len(monitor.events) <= 100
    assert monitor.events[-1].value == 999
    values = [e.value for e in open_run(tmp_path).trace.events]
    assert values == [float(step) for step in range(1000)]


def test_a_held_monitor_outlives_the_function_that_made_it() -> None:
    class Subject:
        pass

    def watch() -> tuple[weakref.ref[Monitor], weakref.ref[Subject]]:
        monitor, subject = Monitor(Options()), Subject()
        monitor.hold(subject)
        return weakref.ref(monitor), weakref.ref(subject)

    first, _ = watch()
    second, subject = watch()
    gc.collect()
    assert first() is None
    held = second()
    assert held is not None
    assert subject() is not None
    held.release()
    del held
    gc.collect()
    assert second() is None


def test_the_first_line_of_an_exception_says_what_and_where() -> None:
    line = SourceLine("/other/head.py", 12, "forward", "y = x.log()")
    site = Site(4, "log", "forward", source=line)
    monitor = Monitor(Options())
    with pytest.raises(NonFiniteError) as raised:
        monitor.deliver(
            [Finding("N301", "error", site, 3, "-inf", fields={"kind": "-inf"})]
        )
    first, blank, card, *_ = str(raised.value).splitlines()
    assert first.startswith("error[N301]: ")
    assert first.endswith("-Inf, at /other/head.py:12")
    assert (blank, card) == ("", first.removesuffix(", at /other/head.py:12"))


def test_a_warning_names_the_line_of_the_program_not_of_an_adapter() -> None:
    monitor = Monitor(Options(on_error="warn"))

    def inquire(found: list[Finding], deliver: Callable[[list[Finding]], None]) -> None:
        deliver(found)

    own = {"__name__": "numcheck_other.inquiry"}
    adapter = types.FunctionType(inquire.__code__, own)
    with pytest.warns(NumcheckWarning) as caught:
        adapter([finding()], monitor.deliver)
    assert caught[0].filename == __file__
    assert linecache.getline(__file__, caught[0].lineno).strip().startswith("adapter(")


def _called_by_libraries(deliver: Callable[[], None]) -> None:
    """Calls from the standard library, which is called from an installed package."""
    stack = contextlib.ExitStack()
    stack.callback(deliver)

    def close(_: float) -> float:
        stack.close()
        return 0.0

    np.vectorize(close, otypes=[float])(np.ones(1))


def test_a_warning_passes_over_installed_libraries() -> None:
    monitor = Monitor(Options(on_error="warn"))
    with pytest.warns(NumcheckWarning) as caught:
        _called_by_libraries(functools.partial(monitor.deliver, [finding()]))
    assert [warning.filename for warning in caught] == [__file__]


def test_a_warning_without_a_program_on_the_stack_is_still_given() -> None:
    monitor = Monitor(Options(on_error="warn"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        thread = threading.Thread(target=monitor.deliver, args=([finding()],))
        thread.start()
        thread.join()
    assert [w.category for w in caught] == [NumcheckWarning]
