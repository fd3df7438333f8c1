# SPDX-License-Identifier: Apache-2.0
"""Every program in README and documentation runs as it stands there."""

from __future__ import annotations

import ast
import contextlib
import functools
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn

import numcheck
import numcheck_torch
from numcheck.errors import AmbiguousTargetError, NonFiniteError
from numcheck.monitor import Monitor
from numcheck.options import Options
from numcheck.record import TraceBuilder
from numcheck.report import write_report

ROOT = Path(__file__).parents[2]
PAIRS = [
    (ROOT / "README.md", ROOT / "README.zh-CN.md"),
    *((p, ROOT / "docs/zh" / p.name) for p in sorted((ROOT / "docs/en").glob("*.md"))),
]
PAGES = [page for pair in PAIRS for page in pair]
NOT_RUN = {
    "torch_npu": "needs an NPU",
    "numcheck_torch.npu": "needs an NPU",
    "Trainer(": "needs transformers, which has tests of its own",
}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    """Returns what stands between fences of a language."""
    found = FENCE.findall(page.read_text("utf-8"))
    return [text for name, text in found if name == language]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


PROGRAMS = [page for page in PAGES if blocks(page, "python")]


def train_step(state: jax.Array, batch: Any) -> tuple[jax.Array, jax.Array]:
    inputs, targets = batch

    def loss(weights: jax.Array) -> jax.Array:
        return jnp.mean((jnp.asarray(inputs) @ weights - jnp.asarray(targets)) ** 2)

    value, gradient = jax.value_and_grad(loss)(state)
    return state - 0.1 * gradient, value


def surroundings(code: str, folder: Path) -> dict[str, Any]:
    """Returns what a page takes for granted: a model, data, a training step."""
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    pairs = [
        (rng.normal(size=(8, 4)).astype(np.float32), rng.normal(size=(8, 2)))
        for _ in range(3)
    ]
    for_torch = [(torch.from_numpy(x), torch.from_numpy(y).float()) for x, y in pairs]
    monitor = Monitor(Options())
    monitor.record(TraceBuilder(0).build())
    (folder / "my-accelerator.toml").write_text('overflow = "saturate"\n', "utf-8")
    write_report([], None, path=folder / "report.json")
    x, w = (rng.normal(size=n).astype(np.float32) for n in ((64, 64), (128, 128)))
    return {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "loss_fn": nn.functional.mse_loss,
        "train_step": train_step,
        "state": jnp.ones((4, 2)),
        "batches": pairs if "train_step" in code else for_torch,
        "loader": [(a, b.argmax(1)) for a, b in for_torch],
        "monitor": monitor,
        "writer": SimpleNamespace(add_scalar=lambda tag, value, step: None),
        "wandb": SimpleNamespace(log=lambda values, step: None),
        "numcheck": numcheck,
        "numcheck_torch": numcheck_torch,
        "x": x,
        "w": w,
        "a": x,
        "b": x,
        "other": numcheck.summarize(x),
        "amax_a": 1.0,
        "amax_b": 2.0,
        **{f"model_{n}": SimpleNamespace(numcheck=traced()) for n in "ab"},
    }


@functools.cache
def traced() -> Monitor:
    """Returns a monitor that recorded a step of a PyTorch model."""
    torch.manual_seed(0)
    model = numcheck_torch.instrument(nn.Linear(2, 2), level="trace")
    with model.numcheck:
        model(torch.ones(1, 2)).sum().backward()
    return model.numcheck


@pytest.mark.parametrize("page", PROGRAMS, ids=name_of)
def test_every_program_of_a_page_runs_in_turn(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NUMCHECK_LANG", "zh" if "zh" in name_of(page) else "en")
    known: dict[str, Any] = {}
    for code in blocks(page, "python"):
        if any(word in code for word in NOT_RUN):
            continue
        for name, value in surroundings(code, tmp_path).items():
            if name not in known or name == "batches":
                known[name] = value
        # Names such as `Scene` in a sketch's annotations need not exist.
        path = tmp_path / "first.py"
        path.write_text(code, "utf-8")
        program = compile(code, str(path), "exec", flags=annotations())
        if page.stem == "first-report" and "torch.log" in code:
            with pytest.raises(NonFiniteError) as raised:
                exec(program, known)  # noqa: S102 - our own documentation
            shown = str(raised.value).splitlines()
            assert set(blocks(page, "text")[0].splitlines()) <= set(shown)
        elif page.stem == "first-report" and "jnp.log" in code:
            with pytest.raises(NonFiniteError, match="N301"):
                exec(program, known)  # noqa: S102 - as above
        else:
            exec(program, known)  # noqa: S102 - as above
    for value in known.values():
        with contextlib.suppress(AttributeError, AmbiguousTargetError):
            value.numcheck.close()


def annotations() -> int:
    import __future__

    return __future__.annotations.compiler_flag


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].stem)
def test_both_languages_show_the_same_programs_and_commands(
    pair: tuple[Path, Path],
) -> None:
    english, chinese = pair
    trees = [
        [ast.dump(ast.parse(code)) for code in blocks(page, "python")] for page in pair
    ]
    assert trees[0] == trees[1]
    told = commands(english), commands(chinese)
    assert len(told[0]) == len(told[1])
    for words in zip(*told, strict=True):
        # A Chinese page may name what is to be filled in by a Chinese word.
        assert len(words[0]) == len(words[1])
        pairs = zip(*words, strict=True)
        assert all(a == b or not b.isascii() for a, b in pairs), words


def commands(page: Path) -> list[list[str]]:
    """Returns the words of a page's commands, without comments."""
    lines = [
        line.partition("#")[0].split()
        for language in ("sh", "console")
        for block in blocks(page, language)
        for line in block.splitlines()
    ]
    return [words for words in lines if words]
