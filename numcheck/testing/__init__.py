# SPDX-License-Identifier: Apache-2.0
"""Assertions for test suites; the pytest fixture is in `numcheck.pytest_plugin`.

Arrays of any framework, and containers of them, are accepted wherever a value is.
"""

from __future__ import annotations

from numcheck.testing.assertions import (
    assert_close_in_format,
    assert_finite,
    assert_headroom,
)

__all__ = ["assert_close_in_format", "assert_finite", "assert_headroom"]
