# SPDX-License-Identifier: Apache-2.0
"""The fixture closes what a test watched, and shows the card when it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

pytest_plugins = ["pytester"]

PROGRAM = """
import numcheck.adapters
from numcheck.diagnose.finding import Finding
from numcheck.monitor import Monitor
from numcheck.options import Options
from numcheck.record import Site

class Watched:
    def __init__(self, function, fails_at_close):
        self.function, self.numcheck = function, Pending(fails_at_close)
    def __call__(self, *args):
        return self.function(*args)

class Pending(Monitor):
    def __init__(self, fails):
        super().__init__(Options(on_error="raise" if fails else "record"))
        self.fails = fails
    def close(self):
        first, self.fails_once = not self._closed, True
        super().close()
        if first:
            site = Site(0, "log", "forward")
            self.deliver([Finding("N301", "error", site, 7, "-inf")])

def instrument(target, fails_at_close=False):
    return Watched(target, fails_at_close)

numcheck.adapters.instrument = instrument
"""


def run(pytester: pytest.Pytester, body: str) -> pytest.RunResult:
    pytester.makepyfile(fake=PROGRAM, test_it="import fake\n" + body)
    return pytester.runpytest_subprocess("-p", "no:randomly")


def test_a_pending_failure_fails_the_test(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        "def test_a(numcheck):\n"
        "    numcheck.instrument(abs, fails_at_close=True)(-1)\n",
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*NonFiniteError*"])


def test_a_failing_test_shows_the_card(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        "def test_a(numcheck):\n"
        "    step = numcheck.instrument(abs)\n"
        "    step.numcheck.close()\n"
        "    assert step(-1) == 2\n",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*numcheck (call)*", "error[[]N301]*"])


def test_a_passing_test_shows_nothing(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        "def test_a(numcheck):\n    assert numcheck.instrument(abs)(-1) == 1\n",
    )
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*N301*")


def test_the_plugin_loads_nothing_until_it_is_used(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        "import sys\n"
        "def test_a():\n"
        "    heavy = {'numpy', 'rich', 'numcheck.report', 'numcheck.formats'}\n"
        "    assert not heavy & set(sys.modules)\n"
    )
    result = pytester.runpytest_subprocess("-p", "numcheck.pytest_plugin")
    result.assert_outcomes(passed=1)


def test_the_short_summary_says_what_broke_and_the_card_stands_once(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where CI is set, pytest itself repeats the whole error in its summary.
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("BUILD_NUMBER", raising=False)
    lines = failing_at_close(pytester)
    assert len([line for line in lines if "  --> " in line]) == 1


def test_the_short_summary_on_a_ci_server_says_what_broke_first(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    failing_at_close(pytester)


def failing_at_close(pytester: pytest.Pytester) -> list[str]:
    """Returns the lines printed for a test whose program broke, as first looked at."""
    result = run(
        pytester,
        "def test_a(numcheck):\n"
        "    numcheck.instrument(abs, fails_at_close=True).numcheck.close()\n",
    )
    result.assert_outcomes(failed=1)
    (summary,) = [
        line for line in result.outlines if line.startswith("FAILED test_it.py::test_a")
    ]
    assert "NonFiniteError: error[N301]" in summary
    return result.outlines
