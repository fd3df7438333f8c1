# SPDX-License-Identifier: Apache-2.0
"""What a module holds between steps, named as findings name it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numcheck_torch.scope import plain_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch
    from torch import nn

    from numcheck.record.site import Role

__all__ = ["local", "named_state"]


def named_state(
    modules: Callable[[], nn.Module | None],
) -> Iterator[tuple[torch.Tensor, str, Role]]:
    """Yield parameters and buffers with their names and roles.

    Args:
        modules: gives the module that holds them; None once it is gone.
    """
    root = modules()
    if root is None:
        return
    for name, parameter in root.named_parameters():
        yield local(parameter), f"parameter:{plain_path(name)}", "parameter"
    for name, buffer in root.named_buffers():
        yield local(buffer), f"buffer:{plain_path(name)}", "buffer"


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of a distributed tensor that this process holds."""
    part: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return part
