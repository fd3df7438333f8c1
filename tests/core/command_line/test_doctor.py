# SPDX-License-Identifier: Apache-2.0
"""``numcheck doctor`` says what is here, in the reader's language."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import numcheck.doctor
from numcheck.cli import cli
from numcheck.doctor import Check, broken_import

if TYPE_CHECKING:
    from collections.abc import Iterator


class Fake:
    """An adapter that was written elsewhere, with texts of its own."""

    def examine(self) -> Iterator[Check]:
        yield Check("fake", "note", "its device is asleep")


@pytest.fixture
def adapters(monkeypatch: pytest.MonkeyPatch) -> list[Fake]:
    found: list[Fake] = []
    monkeypatch.setattr(numcheck.doctor, "adapters", lambda: found)
    return found


@pytest.mark.parametrize(
    ("lang", "said"), [("en", "1 problem found"), ("zh", "发现 1 个问题")]
)
def test_without_an_adapter_it_says_what_to_install(
    adapters: list[Fake], lang: str, said: str
) -> None:
    out = CliRunner().invoke(cli, ["doctor", "--lang", lang])
    assert out.exit_code == 1
    assert "pip install 'numcheck[torch]'" in out.output
    assert out.output.splitlines()[-1] == said
    assert f"Python {platform.python_version()}" in out.output


def test_an_adapter_may_say_it_in_its_own_words(adapters: list[Fake]) -> None:
    adapters.append(Fake())
    out = CliRunner().invoke(cli, ["doctor", "--lang", "en"])
    assert out.exit_code == 0
    assert "[note] fake      its device is asleep" in out.output
    assert out.output.splitlines()[-1] == "0 problems found"


@pytest.mark.parametrize(
    ("has_torch_npu", "way_out"), [(True, "BACKEND_AUTOLOAD=0"), (False, "libhccl")]
)
def test_an_import_that_fails_is_told_with_the_way_out(
    has_torch_npu: bool, way_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = {"torch": "2.13.0"} | ({"torch_npu": "2.13.0"} if has_torch_npu else {})
    monkeypatch.setattr(numcheck.doctor, "installed", here.get)
    told = broken_import("torch", ImportError("libhccl.so: cannot open")).told("en")
    assert told.startswith("cannot be imported: libhccl.so: cannot open")
    assert way_out in told
    assert has_torch_npu == ("CANN" in told)


def test_a_framework_that_is_absent_is_only_a_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(numcheck.doctor, "installed", lambda _: None)
    check = broken_import("jax", ImportError("no jax"))
    assert (check.state, check.told("en")) == (
        "note",
        "not installed: pip install 'numcheck[jax]'",
    )
