# SPDX-License-Identifier: Apache-2.0
"""Whether a function transform is under way: ``torch.func``'s vmap, grad, jvp and kin.

Inside, tensors stand for many at once or for a value and its tangent, and are nothing
once the transform is over: a call there is no step that could be run again, and what
it returns cannot be measured.
"""

from __future__ import annotations

from typing import Final

import torch

__all__ = ["transform"]

transform: Final = torch._C._functorch.peek_interpreter_stack
"""Returns the innermost transform under way, None outside of all.

Example:
    >>> transform() is None
    True
    >>> torch.func.vmap(lambda x: x * (transform() is not None))(torch.ones(1))
    tensor([1.])
"""
