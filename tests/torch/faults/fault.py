# SPDX-License-Identifier: Apache-2.0
"""What every fault has in common."""

from __future__ import annotations

import sys

from torch import nn

WIDTH = 8
HUGE = 1e30


class Fault(nn.Module):
    """One operator that can go wrong, on the line that is marked.

    Its forward gets `h` of ordinary values, and `a`, which is 0 in a healthy step and 1
    in the bad one.

    Attributes:
        op: part of the name that the operator has in an ordinary, eager run.
    """

    op = ""


def faults_of(module: str) -> dict[str, type[Fault]]:
    """Returns the faults of a module by name."""
    found = vars(sys.modules[module]).values()
    kinds = [k for k in found if isinstance(k, type) and issubclass(k, Fault)]
    return {k.__name__: k for k in kinds if k.__module__ == module}
