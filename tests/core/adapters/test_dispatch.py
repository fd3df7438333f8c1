# SPDX-License-Identifier: Apache-2.0
"""`numcheck.instrument` goes by what it is given."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

import numcheck.adapters
from numcheck import instrument
from numcheck.errors import AmbiguousTargetError, ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Callable


class Red:
    """A value of one framework."""

    def __call__(self) -> str:
        return "red"


class Blue:
    """A value of the other."""


@dataclasses.dataclass
class FakeAdapter:
    name: str
    kind: type

    @property
    def call(self) -> str:
        return f"numcheck_{self.name}.instrument"

    def claims(self, target: object) -> bool:
        return isinstance(target, self.kind)

    def claims_leaf(self, leaf: object) -> bool:
        return isinstance(leaf, self.kind)

    def instrument(self, target: Any, **options: Any) -> Any:
        return Watched(self.name, target, options)


@dataclasses.dataclass
class Watched:
    numcheck: str
    target: Any
    options: dict[str, Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.target(*args, **kwargs)


@pytest.fixture(autouse=True)
def _two_frameworks(monkeypatch: pytest.MonkeyPatch) -> None:
    both = (FakeAdapter("blue", Blue), FakeAdapter("red", Red))
    monkeypatch.setattr(numcheck.adapters, "adapters", lambda: both)


def test_an_object_goes_to_the_adapter_that_claims_it() -> None:
    red = Red()
    watched = instrument(red, every=3)
    assert watched == Watched("red", red, {"every": 3})


@dataclasses.dataclass
class Batch:
    values: list[object]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda leaf: leaf,
        lambda leaf: {"a": [1, (leaf,)]},
        lambda leaf: Batch([leaf]),
    ],
    ids=["plain", "nested", "dataclass"],
)
def test_a_plain_function_is_decided_by_its_first_arguments(
    wrap: Callable[[object], object],
) -> None:
    watched = instrument(lambda x: x)
    value = wrap(Blue())
    with pytest.raises(AmbiguousTargetError, match="not called yet"):
        _ = watched.numcheck
    assert watched(value) is value
    assert watched.numcheck == "blue"


def test_arguments_of_two_frameworks_are_ambiguous() -> None:
    watched = instrument(lambda *_: None)
    with pytest.raises(
        AmbiguousTargetError, match=r"numcheck_blue\.instrument or numcheck_red"
    ):
        watched(Red(), Blue())


def test_arguments_of_no_framework_name_every_explicit_call() -> None:
    with pytest.raises(AmbiguousTargetError, match=r"no framework.*numcheck_blue"):
        instrument(lambda x: x)(3)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="got int"):
        instrument(3)
