# SPDX-License-Identifier: Apache-2.0
"""An adapter's door loads what does the work, and says what is missing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from numcheck.errors import MissingExtraError
from numcheck.lazy_adapter import LazyAdapter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Door(LazyAdapter):
    """The door of a framework that no machine has."""

    name = "absentia"
    package = "numcheck_absentia"
    needs = frozenset({"absentia"})
    extra = "absentia,more"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Returns the folder of the adapter behind the door, empty so far."""
    folder = tmp_path / "numcheck_absentia"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [n for n in sys.modules if n.startswith("numcheck_absentia")]:
        del sys.modules[name]


def test_what_is_there_is_called_with_everything(package: Path) -> None:
    (package / "instrumentation.py").write_text(
        "def instrument(target, **options): return target, options\n"
    )
    (package / "simulation.py").write_text(
        "def simulate(target, profile, **options): return target, profile, options\n"
    )
    assert Door().instrument("x", level="trace") == ("x", {"level": "trace"})
    assert Door().simulate("x", "y", seed=1) == ("x", "y", {"seed": 1})
    assert Door().call == "numcheck_absentia.instrument"


def test_a_missing_framework_is_told_with_its_extra(package: Path) -> None:
    (package / "instrumentation.py").write_text("import absentia.core\n")
    with pytest.raises(MissingExtraError, match=r"numcheck\[absentia,more\]"):
        Door().instrument("x")


def test_another_missing_package_is_no_missing_extra(package: Path) -> None:
    (package / "demo.py").write_text("import something_else_entirely\n")
    with pytest.raises(ModuleNotFoundError, match="something_else_entirely"):
        Door().demonstrate()


@pytest.mark.parametrize("text", ["import absentia\n", "raise OSError('no driver')\n"])
def test_the_doctor_hears_that_it_cannot_be_imported(package: Path, text: str) -> None:
    (package / "examine.py").write_text(text)
    (check,) = Door().examine()
    assert (check.topic, check.state) == ("absentia", "note")


def test_the_doctor_hears_what_the_adapter_says(package: Path) -> None:
    (package / "examine.py").write_text("def examine(): return ('fine',)\n")
    assert Door().examine() == ("fine",)
