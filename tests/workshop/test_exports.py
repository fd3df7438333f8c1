# SPDX-License-Identifier: Apache-2.0
"""The public list of each package is what it says, once, in order."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import numcheck

ROOT = Path(__file__).parents[2]
PACKAGES = ("numcheck", "numcheck_jax", "numcheck_torch")


def tree(package: str) -> ast.Module:
    """Returns the parsed `__init__` of a package, which need not be importable here."""
    return ast.parse((ROOT / package / "__init__.py").read_text("utf-8"))


def listed(package: str) -> list[str]:
    """Returns the literal `__all__` of a package."""
    for node in tree(package).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    pytest.fail(f"{package} has no literal __all__")


def bound(package: str) -> set[str]:
    """Returns the public names a type checker sees in a package's `__init__`."""
    names: set[str] = set()
    for node in ast.walk(tree(package)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(package):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("package", PACKAGES)
def test_exported_names_equal_what_the_package_binds(package: str) -> None:
    assert bound(package) == set(listed(package)) - {"__version__"}


@pytest.mark.parametrize("package", PACKAGES)
def test_exported_names_are_listed_once(package: str) -> None:
    assert len(listed(package)) == len(set(listed(package)))


@pytest.mark.parametrize("name", listed("numcheck"))
def test_exported_name_loads_and_is_documented(name: str) -> None:
    value = getattr(numcheck, name)
    assert callable(value)
    assert inspect.getdoc(value)


def test_a_function_stays_callable_after_the_package_of_its_name_is_imported() -> None:
    program = """
import numcheck
from numcheck.diagnose.incident import Incident
from numcheck.record import TraceBuilder
assert numcheck.diagnose(Incident(TraceBuilder(0).build(), 0)) == ()
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_every_exported_function_has_a_runnable_example() -> None:
    values = [getattr(numcheck, name) for name in numcheck.__all__]
    functions = [value for value in values if inspect.isfunction(value)]
    lacking = [f.__name__ for f in functions if ">>>" not in str(inspect.getdoc(f))]
    assert lacking == []


def test_listing_shows_every_exported_name_before_any_is_used() -> None:
    program = "import numcheck; print(*dir(numcheck))"
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True)
    assert set(numcheck.__all__) <= set(run.stdout.split())


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = numcheck.no_such_name


def test_version_is_the_distribution_s() -> None:
    assert numcheck.__version__ == importlib.metadata.version("numcheck")


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_takes_the_name_of_a_function(package: str) -> None:
    modules = {path.stem for path in (ROOT / package).glob("*.py")}
    folders = {path.name for path in (ROOT / package).iterdir() if path.is_dir()}
    # numcheck.diagnose answers calls itself (`numcheck.callable_package`).
    assert (modules | folders) & set(listed(package)) <= {"diagnose"}
