# SPDX-License-Identifier: Apache-2.0
"""What a user gets from `pip install numcheck`, read from a wheel built here."""

from __future__ import annotations

import configparser
import email
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("numcheck", "numcheck_jax", "numcheck_torch")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Builds the wheel from the working tree, without the network."""
    target = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", target]
    subprocess.run(command, cwd=ROOT, check=True)
    (path,) = target.glob("*.whl")
    return zipfile.ZipFile(path)


def metadata(wheel: zipfile.ZipFile, name: str) -> str:
    """Returns one file of the wheel's dist-info folder as text."""
    (path,) = [n for n in wheel.namelist() if n.endswith(f".dist-info/{name}")]
    return wheel.read(path).decode()


def test_wheel_holds_every_file_of_the_three_packages(wheel: zipfile.ZipFile) -> None:
    sources = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert sources <= set(wheel.namelist())


def test_wheel_holds_nothing_but_the_three_packages(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_package_is_marked_as_typed(wheel: zipfile.ZipFile, package: str) -> None:
    assert f"{package}/py.typed" in wheel.namelist()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_messages_and_pages_are_in_the_wheel(
    wheel: zipfile.ZipFile, language: str
) -> None:
    held = set(wheel.namelist())
    assert f"numcheck/report/messages/{language}/findings.toml" in held
    assert f"numcheck/report/explain/{language}/N101.md" in held
    assert any(name.startswith("numcheck/report/web/") for name in held)


def test_wheel_declares_the_command_and_both_adapters(wheel: zipfile.ZipFile) -> None:
    parser = configparser.ConfigParser()
    parser.read_string(metadata(wheel, "entry_points.txt"))
    assert {section: dict(parser[section]) for section in parser.sections()} == {
        "console_scripts": {"numcheck": "numcheck.cli:main"},
        "numcheck.adapters": {
            "jax": "numcheck_jax.adapter:ADAPTER",
            "torch": "numcheck_torch.adapter:ADAPTER",
        },
        "pytest11": {"numcheck": "numcheck.pytest_plugin"},
    }


def test_no_framework_is_required_without_an_extra(wheel: zipfile.ZipFile) -> None:
    header = email.message_from_string(metadata(wheel, "METADATA"))
    required = {r for r in header.get_all("Requires-Dist", []) if "extra ==" not in r}
    names = {r.split(">")[0].strip() for r in required}
    assert names == {"click", "jinja2", "ml-dtypes", "numpy", "rich", "safetensors"}


def test_licence_travels_with_the_wheel(wheel: zipfile.ZipFile) -> None:
    text = metadata(wheel, "licenses/LICENSE")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
