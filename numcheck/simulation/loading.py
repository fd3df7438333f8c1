# SPDX-License-Identifier: Apache-2.0
"""Profiles from their files: those of the package by name, the user's by path."""

from __future__ import annotations

import difflib
import functools
import os
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from numcheck.errors import ArgumentError, ArgumentTypeError, NumcheckError
from numcheck.record.site import Family
from numcheck.simulation.profile import DTYPES, Arithmetic, Profile, Rule
from numcheck.simulation.rounding import Rounding, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["load", "parse", "profile_names"]

_CHOICES: Final = {
    "overflow": ("ieee", "saturate"),
    "nan": ("keep", "zero"),
    "fused": ("wide", "truncate"),
    "rounding": ("nearest_even", "nearest_away", "toward_zero"),
    "factor_overflow": ("ieee", "saturate", "satfinite"),
    "scale_rule": ("floor", "ceil", "rceil", "even"),
}
_FORMATS: Final = ("input", "right", "gradient", "accumulator", "output")
_SUMS: Final = ("matmul", "conv", "attention", "sum", "mean")
_LISTS: Final = {"families": get_args(Family), "dtypes": DTYPES}
_KEYS: Final = (*_CHOICES, *_FORMATS, *_LISTS, "chunk")


def load(profile: str | os.PathLike[str] | Profile) -> Profile:
    """Return a profile by its name, or from a file of the user's.

    Args:
        profile: a name that `profile_names` lists, the path of a TOML file, or a
            profile, which is returned as it is.

    Raises:
        ArgumentError: there is no such profile, or its file says what cannot be.
        ArgumentTypeError: it is none of these.

    Example:
        >>> load("ascend910a").arithmetic("exp", "float16").saturate
        True
    """
    if isinstance(profile, Profile):
        return profile
    given: object = profile
    if not isinstance(given, str | os.PathLike):
        raise ArgumentTypeError(
            "profile must be a name, a path or a Profile, got "
            f"{type(given).__name__}; `numcheck profiles` lists the names"
        )
    name = os.fspath(profile)
    if name in profile_names():
        return _shipped(name)
    if Path(name).is_file():
        return parse(_text_of(Path(name)), name)
    near = difflib.get_close_matches(name, profile_names(), n=1)
    hint = f"did you mean {near[0]!r}?" if near else "`numcheck profiles` lists them"
    raise ArgumentError(f"no profile and no file is named {name!r}; {hint}")


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{path} is not TOML: {error}") from error


@functools.cache
def profile_names() -> tuple[str, ...]:
    """Return the names of the profiles that come with numcheck.

    Example:
        >>> "mxfp8" in profile_names()
        True
    """
    folder = files("numcheck.simulation") / "profiles"
    found = (f.name for f in folder.iterdir() if f.name.endswith(".toml"))
    return tuple(sorted(name.removesuffix(".toml") for name in found))


def parse(text: str, name: str) -> Profile:
    """Return the profile that a TOML text describes.

    Keys at the top hold for every operator, also below a ``[[rule]]`` that does not
    say otherwise.

    Args:
        text: the file.
        name: what to call it.

    Raises:
        ArgumentError: the text is no TOML, or says what cannot be; the message names
            the file, the rule and the key.

    Example:
        >>> parse('overflow = "saturate"', "mine").arithmetic("add", "float16").saturate
        True
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ArgumentError(f"{name} is not TOML: {error}") from error
    rules = table.pop("rule", [])
    if not isinstance(rules, list) or not all(isinstance(r, dict) for r in rules):
        raise ArgumentError(f"{name}: rules are written as [[rule]] tables")
    found = []
    for i, rule in enumerate(rules):
        where = f"{name}, rule {i + 1}"
        _check(rule, where)
        found.append(_rule({**table, **rule}, where))
    _check(table, name)
    return Profile(name, (*found, _rule(table, name)))


@functools.cache
def _shipped(name: str) -> Profile:
    file = files("numcheck.simulation") / "profiles" / f"{name}.toml"
    return parse(file.read_text("utf-8"), name)


def _rule(keys: Mapping[str, Any], where: str) -> Rule:
    rounding = functools.partial(_rounding, keys, where)
    arithmetic = Arithmetic(
        input=rounding("input"),
        right=rounding("right"),
        gradient=rounding("gradient"),
        accumulator=rounding("accumulator"),
        chunk=keys.get("chunk", 1),
        output=rounding("output"),
        saturate=keys.get("overflow") == "saturate",
        nan_to_zero=keys.get("nan") == "zero",
        fused=keys.get("fused", "wide"),
    )
    families = frozenset(keys.get("families", ()))
    return Rule(families, tuple(keys.get("dtypes", DTYPES)), arithmetic)


def _rounding(keys: Mapping[str, Any], where: str, key: str) -> Rounding | None:
    name = keys.get(key)
    if name is None:
        return None
    try:
        resolve(name)
    except NumcheckError as error:
        raise ArgumentError(f"{where}: {key}: {error}") from error
    if key == "accumulator" and Rounding(name).way not in ("float", "none"):
        raise ArgumentError(
            f"{where}: accumulator is a scalar floating-point format, got {name!r}"
        )
    is_factor = key in ("input", "right", "gradient")
    if not is_factor:
        return Rounding(name, overflow=keys.get("overflow", "ieee"))
    return Rounding(
        name,
        mode=keys.get("rounding"),
        overflow=keys.get("factor_overflow", "ieee"),
        scale_rule=keys.get("scale_rule"),
    )


def _check(keys: Mapping[str, Any], where: str) -> None:
    for key, value in keys.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            hint = (
                f"did you mean {near[0]!r}?" if near else f"known: {', '.join(_KEYS)}"
            )
            raise ArgumentError(f"{where}: unknown key {key!r}; {hint}")
        if key in _CHOICES and value not in _CHOICES[key]:
            allowed = ", ".join(_CHOICES[key])
            raise ArgumentError(f"{where}: {key} is one of {allowed}, got {value!r}")
        if key in _FORMATS and not isinstance(value, str):
            raise ArgumentError(f"{where}: {key} is a format's name, got {value!r}")
        if key in _LISTS:
            _check_list(key, value, where)
        if key == "accumulator":
            _check_sums(keys.get("families", ()), where)
        if key == "chunk" and not (type(value) is int and value > 0):
            raise ArgumentError(f"{where}: chunk is a positive number, got {value!r}")


def _check_sums(families: object, where: str) -> None:
    if isinstance(families, list) and families and not {*_SUMS} & {*families}:
        raise ArgumentError(
            f"{where}: accumulator is about sums, so families holds one of "
            f"{', '.join(_SUMS)}; got {families!r}"
        )


def _check_list(key: str, value: object, where: str) -> None:
    known = [word for word in _LISTS[key] if word]
    unknown = (
        value if not isinstance(value, list) else [v for v in value if v not in known]
    )
    if unknown:
        raise ArgumentError(
            f"{where}: {key} is a list of {', '.join(known)}; got {unknown!r}"
        )
