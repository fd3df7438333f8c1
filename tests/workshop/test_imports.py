# SPDX-License-Identifier: Apache-2.0
"""What importing may load, and who may name whom."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("numcheck", "numcheck_jax", "numcheck_torch")
HEAVY = {"click", "jinja2", "ml_dtypes", "numpy", "rich", "safetensors"}
TORCH = {"torch", "torch_npu", "torchair", "torchvision"}
JAX = {"flax", "jax", "jaxlib", "optax"}

# All that `import numcheck` may load besides itself. A new name here costs every user
# its import time; say in the commit what for.
ALLOWED = {
    "collections",
    "contextlib",
    "copyreg",
    "enum",
    "functools",
    "importlib",
    "keyword",
    "operator",
    "re",
    "reprlib",
    "types",
    "typing",
    "warnings",
}

LOADED = """
import json, sys
before = set(sys.modules)
{statement}
print(json.dumps(sorted({{name.split(".")[0] for name in set(sys.modules) - before}})))
"""


def loaded_by(statement: str) -> set[str]:
    """Returns the top-level modules that a statement loads in a new interpreter."""
    program = LOADED.format(statement=statement)
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True)
    return set(json.loads(run.stdout))


def imported_in(package: str) -> set[str]:
    """Returns the top-level modules named by any import in a package's source."""
    names: set[str] = set()
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: imports are absolute"
                names.add(str(node.module).split(".")[0])
    return names


def test_importing_numcheck_loads_the_allow_list_and_no_more() -> None:
    loaded = loaded_by("import numcheck") - set(sys.builtin_module_names)
    # Underscored ones are compiled halves, loaded by the modules that are listed.
    public = {name for name in loaded if not name.startswith("_")}
    assert public - {"numcheck"} <= ALLOWED


@pytest.mark.parametrize(
    "statement",
    [
        "import numcheck; dir(numcheck); numcheck.__all__; numcheck.__version__",
        "from numcheck import NumcheckError, NonFiniteError",
    ],
    ids=["listing names", "catching errors"],
)
def test_light_use_loads_no_dependency(statement: str) -> None:
    assert loaded_by(statement).isdisjoint(HEAVY | TORCH | JAX)


def test_asking_for_the_adapters_loads_no_framework() -> None:
    statement = "import numcheck.adapters; numcheck.adapters.adapters()"
    assert loaded_by(statement).isdisjoint(TORCH | JAX)


def test_star_import_from_the_core_loads_no_framework() -> None:
    assert loaded_by("from numcheck import *").isdisjoint(TORCH | JAX)


@pytest.mark.parametrize(
    ("package", "strangers"),
    [
        ("numcheck", TORCH | JAX | {"numcheck_jax", "numcheck_torch"}),
        ("numcheck_jax", TORCH | {"numcheck_torch"}),
        ("numcheck_torch", JAX | {"numcheck_jax"}),
    ],
    ids=PACKAGES,
)
def test_package_imports_no_stranger(package: str, strangers: set[str]) -> None:
    assert imported_in(package).isdisjoint(strangers)


@pytest.mark.parametrize("package", PACKAGES)
def test_package_imports_only_what_is_declared(package: str) -> None:
    known = {"numcheck_torch": TORCH, "numcheck_jax": JAX}.get(package, set())
    # Loaded only by those who have them: a notebook, a writer, a test run.
    optional = {"IPython", "pytest", "tensorboard"}
    if package == "numcheck_torch":  # its integrations
        optional |= {"accelerate", "lightning", "pytorch_lightning", "transformers"}
    foreign = imported_in(package) - sys.stdlib_module_names
    assert foreign <= {"numcheck", package} | HEAVY | known | optional
