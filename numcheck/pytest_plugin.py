# SPDX-License-Identifier: Apache-2.0
"""The pytest fixture ``numcheck``: watch in a test, and see the card when it fails.

    def test_training(numcheck):
        step = numcheck.instrument(train_step)
        ...

What was watched is closed at the end of the test; a pending failure then fails it.
Loading this plugin imports nothing but pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["Watch", "numcheck"]

_WATCH = pytest.StashKey["Watch"]()


class Watch:
    """What one test watches."""

    def __init__(self) -> None:
        self._watched: list[Any] = []

    def instrument(self, target: Any, **options: Any) -> Any:  # noqa: ANN401 - any framework's object
        """Return `target` watched, as `numcheck.instrument` does."""
        from numcheck.adapters import instrument

        watched = instrument(target, **options)
        self._watched.append(watched)
        return watched

    @property
    def findings(self) -> list[Any]:
        """Findings of everything watched in this test."""
        return [f for monitor in self._monitors() for f in monitor.findings]

    def close(self) -> None:
        """Close every monitor; a pending failure is raised.

        Raises:
            NonFiniteError: a watched program broke in its last step.
        """
        for monitor in self._monitors():
            monitor.close()

    def _monitors(self) -> list[Any]:
        from numcheck.errors import AmbiguousTargetError

        found = []
        for watched in self._watched:
            try:
                found.append(watched.numcheck)
            except AmbiguousTargetError:
                continue  # never called, so there is nothing to tell
        return found


@pytest.fixture
def numcheck(request: pytest.FixtureRequest) -> Generator[Watch, None, None]:
    """Watch modules and functions in this test."""
    watch = Watch()
    request.node.stash[_WATCH] = watch
    yield watch
    watch.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the cards of a failing test's findings, but those its traceback shows."""
    report = yield
    watch = item.stash.get(_WATCH, None)
    if report.failed and watch is not None:
        from numcheck.report.terminal import cards

        error = None if call.excinfo is None else call.excinfo.value
        shown = getattr(error, "findings", ())  # a NonFiniteError's text has its cards
        others = [f for f in watch.findings if f not in shown]
        if others:
            report.sections.append((f"numcheck ({call.when})", cards(others)))
    return report
