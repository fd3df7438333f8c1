# SPDX-License-Identifier: Apache-2.0
"""Everything a developer runs; `nox` alone runs what decides whether a change lands.

`nox -l` lists the sessions, `nox -t tests` runs all tests, `nox -s NAME -- ARGS` passes
arguments on, `nox -R -s NAME` skips the installation. Environments are plain venvs
filled by pip, so that a wheel of PyTorch found on the machine (for its accelerator, or
without one) is the one that is tested.
"""

from __future__ import annotations

import os
import sys

import nox

nox.needs_version = ">=2025.5"
nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
nox.options.error_on_external_run = True

# What would put other packages into every environment, or its own elsewhere.
for _name in (
    "PIP_PREFIX", "PIP_TARGET", "PIP_USER", "PYTEST_ADDOPTS", "PYTEST_PLUGINS",
    "PYTHONHOME", "PYTHONPATH",
):  # fmt: skip
    os.environ.pop(_name, None)

PINNED = ("--quiet", "--constraint", "constraints.txt")
PROJECT = nox.project.load_toml("pyproject.toml")
BOTH_EXTRAS = ".[torch,jax,flax]"

# What each test session installs, and where its tests and its doctests are.
EXTRAS = {"core": ".", "torch": ".[torch]", "jax": ".[jax]"}
GROUPS = {
    "core": ("test",),
    "torch": ("test-torch", "test-integrations"),
    "jax": ("test-jax",),
}
TESTS = {
    "core": ("numcheck", "tests/core", "tests/workshop"),
    "torch": ("numcheck_torch", "tests/torch", "--ignore=tests/torch/npu"),
    "jax": ("numcheck_jax", "tests/jax"),
}
# Puts the tests of a process on the simulated NPU.
EVERYWHERE = ("-p", "tests.torch.npu.everywhere")


def group(*names: str) -> tuple[str, ...]:
    """Returns the requirements of dependency groups named in pyproject.toml."""
    return nox.project.dependency_groups(PROJECT, *names)


def frameworks(session: nox.Session, *groups: str) -> str:
    """Returns the Python of the one environment that holds both frameworks.

    The two are gigabytes, so the sessions that need both share them.
    """
    home = session.cache_dir.parent / "frameworks"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        session.run(sys.executable, "-m", "venv", str(home), external=True)
    install = (str(python), "-m", "pip", "install", *PINNED, "--editable", BOTH_EXTRAS)
    session.run(*install, *group(*groups), external=True, silent=True)
    return str(python)


@nox.session
def lint(session: nox.Session) -> None:
    """Checks form, spelling and who imports whom; `-- --fix` repairs what it can."""
    session.install(*PINNED, *group("lint"))
    fix = "--fix" in session.posargs
    session.run("ruff", "format", *([] if fix else ["--check"]))
    session.run("ruff", "check", *(["--fix"] if fix else []))
    session.run("codespell")
    session.run("lint-imports")


@nox.session(venv_backend="none")
def types(session: nox.Session) -> None:
    """Checks all three packages with mypy --strict, against the real frameworks."""
    python = frameworks(session, "types")
    session.run(python, "-m", "mypy", *session.posargs, external=True)


@nox.session(tags=["tests"])
@nox.parametrize("part", ["core", "torch", "jax"], ids=["core", "torch", "jax"])
def tests(session: nox.Session, part: str) -> None:
    """Runs one package's tests and doctests, with no other framework installed."""
    session.install(*PINNED, "--editable", EXTRAS[part], *group(*GROUPS[part]))
    where = session.posargs or ("--doctest-modules", *TESTS[part])
    session.run("python", "-m", "pytest", *where)
    if part == "torch" and not session.posargs:
        # Processes of their own: a device must exist before autograd first runs.
        session.run("python", "-m", "pytest", "tests/torch/npu")
        # The quick ones of those that `nox -s npu` runs.
        quick = ("tests/torch/check_numerics", "tests/torch/data")
        session.run("python", "-m", "pytest", *EVERYWHERE, *quick)


@nox.session(name="tests(cross)", venv_backend="none", tags=["tests"])
def cross(session: nox.Session) -> None:
    """Runs the tests in which core and adapters must agree, and the cases."""
    python = frameworks(session, "test-cross")
    where = session.posargs or ("tests/cross", "tests/cases")
    session.run(python, "-m", "pytest", *where, external=True)


@nox.session
def docs(session: nox.Session) -> None:
    """Builds the documentation into site/; a broken link or reference is an error."""
    session.install(*PINNED, "--editable", ".", *group("docs"))
    session.run("mkdocs", *(session.posargs or ("build", "--strict")))


@nox.session(venv_backend="none", default=False)
def demo(session: nox.Session) -> None:
    """Breaks a small training in both frameworks, explains it, writes report.html."""
    python = frameworks(session)
    session.run(python, "-m", "numcheck", "demo", *session.posargs, external=True)


@nox.session(venv_backend="none", default=False)
def bench(session: nox.Session) -> None:
    """Prints what watching and tracing cost beside other tools; `-- FILE` picks one."""
    python = frameworks(session, "test-cross")
    if session.posargs:
        session.run(python, *session.posargs, external=True)
        return
    for name in ("torch_overhead", "gpu_torch", "jax_overhead", "formats"):
        session.run(python, f"benchmarks/{name}.py", external=True)


@nox.session(default=False)
def npu(session: nox.Session) -> None:
    """Runs the PyTorch tests on a simulated NPU, as far as they can hold there."""
    session.install(*PINNED, "--editable", EXTRAS["torch"], *group("test-torch"))
    names = "check_numerics data identity lift models recorder simulation watch"
    where = [f"tests/torch/{name}" for name in names.split()]
    session.run("python", "-m", "pytest", *EVERYWHERE, *(session.posargs or where))


@nox.session(default=False)
def oldest(session: nox.Session) -> None:
    """Runs the PyTorch tests with the oldest PyTorch that pyproject.toml allows."""
    (newer,) = PROJECT["project"]["optional-dependencies"]["torch"]
    floor = newer.replace(">=", "==") + ".*"
    # The pins are those of the newest PyTorch; what an old one needs it says itself.
    session.install("--quiet", "--editable", ".", *group("test"), floor)
    # Companion libraries and the stand-in for a device were not tried with it yet.
    apart = [
        f"--ignore=tests/torch/{name}" for name in ("integrations", "models", "npu")
    ]
    where = session.posargs or ("tests/torch", *apart)
    session.run("python", "-m", "pytest", *where)


@nox.session(default=False)
def contract(session: nox.Session) -> None:
    """Reads the real torch_npu wheel, to see that what the adapter uses is there."""
    session.install(*PINNED, "--editable", EXTRAS["torch"], *group("test-torch"))
    session.run("pytest", "-m", "registry", "tests/torch/npu", *session.posargs)


@nox.session(venv_backend="none", default=False)
def browser(session: nox.Session) -> None:
    """Opens the HTML report in an installed Chromium and uses it as a reader would."""
    python = frameworks(session, "test-cross", "browser")
    where = session.posargs or ("tests/core",)
    session.run(python, "-m", "pytest", "-m", "browser", *where, external=True)
