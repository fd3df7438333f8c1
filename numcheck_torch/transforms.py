# SPDX-License-Identifier: Apache-2.0
"""Whether tensors are what they seem: in function transforms, and where all is fake.

Inside ``torch.func``'s vmap, grad, jvp and kin they stand for many at once or for a
value and its tangent, and are nothing once the transform is over; under a fake mode
they hold nothing; what traces a program writes down whatever is computed. A call there
is no step that could be run again.
"""

from __future__ import annotations

from typing import Final

import torch

__all__ = ["is_pretended", "transform"]

_mode: Final = torch._C._get_dispatch_mode
_FAKE: Final = torch._C._TorchDispatchModeKey.FAKE
_PROXY: Final = torch._C._TorchDispatchModeKey.PROXY
_traced: Final = torch._C._get_tracing_state

transform: Final = torch._C._functorch.peek_interpreter_stack
"""Returns the innermost transform under way, None outside of all.

Example:
    >>> transform() is None
    True
    >>> torch.func.vmap(lambda x: x * (transform() is not None))(torch.ones(1))
    tensor([1.])
"""


def is_pretended() -> bool:
    """Whether what is computed now are no numbers of a step.

    Example:
        >>> is_pretended()
        False
    """
    return (
        transform() is not None
        or _mode(_FAKE) is not None
        or _mode(_PROXY) is not None
        or _traced() is not None
    )
