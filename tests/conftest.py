# SPDX-License-Identifier: Apache-2.0
"""What holds in every test: English output, 80 plain columns, repeatable examples."""

from __future__ import annotations

import os
import shutil

import hypothesis
import pytest

# Timing never decides a test, so no deadline; a red run must be red again.
hypothesis.settings.register_profile(
    "numcheck", deadline=None, derandomize=True, print_blob=True
)
hypothesis.settings.register_profile(
    "long", deadline=None, max_examples=2000, print_blob=True
)


def pytest_configure() -> None:
    """Fixes what the user's surroundings would otherwise decide, doctests included."""
    os.environ.update(NUMCHECK_LANG="en", NO_COLOR="1", COLUMNS="80")
    # Small tensors in many processes: threads would only wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in ("FORCE_COLOR", "NUMCHECK_RUN"):
        os.environ.pop(name, None)
    profile = os.environ.get("HYPOTHESIS_PROFILE") or "numcheck"
    hypothesis.settings.load_profile(profile)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips tests marked `gpu` where no accelerator answers."""
    tools = ("nvidia-smi", "npu-smi", "rocm-smi")
    if item.get_closest_marker("gpu") and not any(map(shutil.which, tools)):
        pytest.skip("no accelerator on this machine")
