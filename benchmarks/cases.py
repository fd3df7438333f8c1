# SPDX-License-Identifier: Apache-2.0
"""Run small programs that break for a known reason, and score what numcheck says.

    python benchmarks/cases.py --cases tests/cases [--json OUT] [--only PATTERN]

Each case file offers ``NAME``, ``FRAMEWORK``, ``EXPECTED`` and ``build(fixed=False)``
(tests/cases/README.md). Every case runs in level ``watch`` with default options,
through the public API alone; ``EXPECTED`` only tells controls apart beforehand, and
scores the run afterwards.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import itertools
import json
import sys
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from numcheck.diagnose.finding import Finding

Built = dict[str, Any]
COLUMNS = ("detected", "phase", "op", "step", "cls")


@dataclasses.dataclass(frozen=True)
class Run:
    """What numcheck said about one variant of one case."""

    file: str
    variant: str
    findings: tuple[Finding, ...]
    trouble: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the run as plain JSON values."""
        found = [_finding_row(f) for f in self.findings]
        return {"file": self.file, "variant": self.variant, "findings": found}


def _finding_row(finding: Finding) -> dict[str, Any]:
    source = finding.site.source
    return {
        "id": finding.id,
        "severity": finding.severity,
        "op": finding.site.op,
        "phase": finding.phase,
        "step": finding.step,
        "cls": finding.cause.cls if finding.cause else None,
        "kind": finding.kind,
        "module": finding.site.scope,
        "source": f"{source.file}:{source.line}" if source else None,
    }


def run_torch(built: Built) -> tuple[Finding, ...]:
    """Train a torch case as its interface says, watched; return the findings."""
    import torch

    import numcheck_torch
    from numcheck import NonFiniteError

    model, optimizer = built["model"], built["optimizer"]
    scaler = built.get("scaler")
    if built.get("compile") is not None:
        model = torch.compile(model, **built["compile"])
    model = numcheck_torch.instrument(model, optimizer, scaler)
    batches = itertools.cycle(built["batches"])
    try:
        with model.numcheck:
            for _ in range(built["steps"]):
                _torch_step(built, model, optimizer, scaler, next(batches))
    except NonFiniteError:
        pass
    finally:
        torch._dynamo.reset()  # each case compiles afresh
    findings: tuple[Finding, ...] = model.numcheck.findings
    return findings


def _torch_step(
    built: Built, model: Any, optimizer: Any, scaler: Any, batch: Any
) -> None:
    import contextlib

    import torch

    inputs, targets = batch
    optimizer.zero_grad(set_to_none=True)
    autocast = built.get("autocast")
    with torch.autocast(**autocast) if autocast else contextlib.nullcontext():
        out = model(*inputs) if isinstance(inputs, tuple) else model(inputs)
        loss = built["loss_fn"](out, targets)
    (loss if scaler is None else scaler.scale(loss)).backward()
    if built.get("clip_grad_norm") is not None:
        if scaler is not None:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), built["clip_grad_norm"])
    if scaler is None:
        optimizer.step()
    else:
        scaler.step(optimizer)
        scaler.update()


def run_jax(built: Built) -> tuple[Finding, ...]:
    """Run a jax case as its interface says, watched; return the findings."""
    import numcheck

    step = numcheck.instrument(built["fn"])
    state, rest = built["args"][0], built["args"][1:]
    batches = itertools.cycle(built.get("batches", [rest]))
    try:
        for _ in range(built["steps"]):
            if built.get("carries_state"):
                state, _ = step(state, next(batches))
            else:
                step(*built["args"])
        step.numcheck.close()
    except numcheck.NonFiniteError:
        pass
    findings: tuple[Finding, ...] = step.numcheck.findings
    return findings


RUNNERS: dict[str, Callable[[Built], tuple[Finding, ...]]] = {
    "torch": run_torch,
    "jax": run_jax,
}


def load(path: Path) -> ModuleType:
    """Import a case file under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"case_{path.stem}", path)
    if spec is None or spec.loader is None:
        msg = f"cannot import {path}"
        raise ImportError(msg)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def run(path: Path, name: str, variant: str) -> Run:
    """Run one variant of one case. An exception becomes trouble, not an end."""
    try:
        module = load(path)
        built = module.build(fixed=True) if variant == "fixed" else module.build()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Run(name, variant, RUNNERS[module.FRAMEWORK](built))
    except Exception:  # noqa: BLE001 - one broken case must not hide the others
        return Run(name, variant, (), traceback.format_exc())


def score(run: Run, expected: dict[str, Any]) -> dict[str, bool]:
    """Compare the most important finding with the ground truth."""
    loud = [f for f in run.findings if f.severity != "note"]
    if not loud:
        return dict.fromkeys(COLUMNS, False)
    first = loud[0]
    return {
        "detected": True,
        "phase": first.phase == expected["phase"],
        "op": first.site.op in expected["first_bad_op"],
        "step": first.step == expected["step"],
        "cls": first.cause is not None and first.cause.cls == expected["cls"],
    }


def is_false_alarm(run: Run) -> bool:
    """Whether a healthy program got a finding of severity error or warning."""
    return any(f.severity != "note" for f in run.findings)


def main() -> int:
    """Run the cases and print the scoreboard; exit 1 when a case could not run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=Path, required=True, metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--only", default="", help="part of the file names to run")
    chosen = parser.parse_args()
    runs: list[Run] = []
    totals: list[dict[str, bool]] = []
    alarms = healthy = 0
    print(f"{'case':44s} {'  '.join(COLUMNS)}   finding")
    for path in sorted(chosen.cases.rglob("[0-9]*.py")):
        name = path.relative_to(chosen.cases).as_posix()
        if chosen.only not in name:
            continue
        expected = load(path).EXPECTED
        variants = ("control",) if expected.get("control") else ("faulty", "fixed")
        for variant in variants:
            result = run(path, name, variant)
            runs.append(result)
            if variant == "faulty":
                totals.append(score(result, expected))
                print(_faulty_line(result, totals[-1]))
            else:
                healthy += 1
                alarms += is_false_alarm(result)
                print(_healthy_line(result), end="")
    for column in COLUMNS:
        print(f"{column:9s} {sum(t[column] for t in totals)} of {len(totals)}")
    print(f"false findings on healthy programs: {alarms} of {healthy}")
    if chosen.json:
        rows = [r.as_json() for r in runs]
        chosen.json.write_text(json.dumps(rows, indent=1, allow_nan=False) + "\n")
    return 1 if any(r.trouble for r in runs) else 0


def _faulty_line(run: Run, marks: dict[str, bool]) -> str:
    cells = "  ".join(("yes" if marks[c] else "-").center(len(c)) for c in COLUMNS)
    loud = [f for f in run.findings if f.severity != "note"]
    said = run.trouble.strip().rsplit("\n", 1)[-1]
    if loud:
        row = _finding_row(loud[0])
        said = f"{row['id']} {row['op']} {row['phase']} {row['step']} {row['cls']}"
    return f"{run.file:44s} {cells}   {said}"


def _healthy_line(run: Run) -> str:
    if run.trouble:
        return f"{run.file:44s} {run.variant}: {run.trouble.strip().splitlines()[-1]}\n"
    loud = [_finding_row(f) for f in run.findings if f.severity != "note"]
    return f"{run.file:44s} {run.variant}: false finding {loud[0]}\n" if loud else ""


if __name__ == "__main__":
    sys.exit(main())
