# SPDX-License-Identifier: Apache-2.0
"""constraints.txt pins one version of all that pyproject.toml asks for."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

# torch-npu follows its users' driver; nox makes the environments and is in none.
UNPINNED = {"nox", "torch-npu"}


def pins() -> dict[str, str]:
    """Returns the pinned version of each distribution, by canonical name."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def requirements() -> list[Requirement]:
    """Returns what the project, its extras, its groups and its build ask for."""
    project = PYPROJECT["project"]
    groups = [
        *project["optional-dependencies"].values(),
        *PYPROJECT["dependency-groups"].values(),
        PYPROJECT["build-system"]["requires"],
        project["dependencies"],
    ]
    texts = {text for group in groups for text in group if isinstance(text, str)}
    return [r for r in map(Requirement, sorted(texts)) if r.name not in UNPINNED]


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_requirement_is_pinned_inside_its_range(requirement: Requirement) -> None:
    assert requirement.specifier.contains(pins()[canonicalize_name(requirement.name)])


def test_pins_are_exact_and_listed_once() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    entries = [line for line in lines if line and not line.startswith("#")]
    assert all(line.count("==") == 1 for line in entries)
    assert len(pins()) == len(entries)
