# SPDX-License-Identifier: Apache-2.0
"""What a step's program was given: the batch, its targets, and their samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from numcheck.diagnose.laboratory import CannotRunError
from numcheck_torch.kinds import is_plain
from numcheck_torch.trees import named_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from numcheck_torch.program import Program
    from numcheck_torch.recorder import Recorder

__all__ = ["Batch", "named_inputs"]

_NUMPY = (torch.float16, torch.float32, torch.float64)


class Batch:
    """Names and samples of the tensors a program was given.

    Args:
        model: the watched module; its parameters and buffers are not the batch.
        program: what the step did.
    """

    def __init__(self, model: torch.nn.Module, program: Program) -> None:
        own = {id(t) for t in (*model.parameters(), *model.buffers())}
        self.inputs = _distinct(_inputs(program), own)
        used = {id(t) for _, t in self.inputs} | own
        self.targets = _distinct(_targets(program), used)

    @property
    def rows(self) -> int | None:
        """Number of samples: the leading size that the inputs share."""
        sizes = {t.shape[0] for _, t in self.inputs if t.dim() > 0}
        return sizes.pop() if len(sizes) == 1 else None

    def name_sources(self, recorder: Recorder) -> None:
        """Tell a recorder what the tensors are called."""
        for name, tensor in self.inputs:
            recorder.source(tensor, f"input:{name}", "input")
        for name, tensor in self.targets:
            recorder.source(tensor, f"input:{name}", "target")

    def only(self, rows: Sequence[int]) -> Callable[[torch.Tensor], torch.Tensor]:
        """Return the change that fills the batch with the given samples."""
        size = self.rows
        if size is None:
            raise CannotRunError("refusal.no_batch_axis")
        batch = {id(t) for _, t in (*self.inputs, *self.targets)}
        order = [rows[i % len(rows)] for i in range(size)]

        def change(tensor: torch.Tensor) -> torch.Tensor:
            if id(tensor) not in batch or tensor.dim() == 0:
                return tensor
            if tensor.shape[0] == 0 or tensor.shape[0] % size:
                return tensor
            index = torch.tensor(order, device=tensor.device)
            # Labels may be flattened already: several rows for each sample.
            samples = tensor.detach().reshape(size, -1)[index]
            chosen = samples.reshape(tensor.shape)
            return chosen.requires_grad_(tensor.requires_grad)

        return change

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the values on the host; what NumPy has no dtype for, in float32."""
        return {
            f"input:{name}": _array(tensor)
            for name, tensor in (*self.inputs, *self.targets)
            if _is_plain(tensor)
        }

    def lifted(self, dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
        """Return the change that widens every lower-precision tensor given."""

        def change(tensor: torch.Tensor) -> torch.Tensor:
            if (
                not tensor.is_floating_point()
                or tensor.dtype.itemsize >= dtype.itemsize
            ):
                return tensor
            return tensor.detach().to(dtype).requires_grad_(tensor.requires_grad)

        return change


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether NumPy can have the values: a shard of a larger tensor has others."""
    odd = tensor.is_complex() or tensor.is_quantized or tensor.layout != torch.strided
    return is_plain(type(tensor)) and not odd


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    on_host = tensor.detach().cpu().resolve_neg()
    if on_host.is_floating_point() and on_host.dtype not in _NUMPY:
        on_host = on_host.float()
    array: NDArray[Any] = on_host.numpy()
    return array


def named_inputs(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (name, tensor) of a call's arguments.

    Positional ones are ``input``, ``input1``…; what has a keyword or a key goes by it.

    Example:
        >>> x = torch.zeros(2)
        >>> [name for name, _ in named_inputs((x, x), {"mask": x})]
        ['input', 'input1', 'mask']
    """
    place = 0
    for path, tensor in named_tensors(args):
        inner = path.partition(".")[2]
        if inner and not inner.replace(".", "").isdigit():
            yield inner, tensor
        else:
            yield f"input{place}" if place else "input", tensor
            place += 1
    yield from named_tensors(kwargs)


def _inputs(program: Program) -> Iterator[tuple[str, torch.Tensor]]:
    for forward in program.forwards:
        yield from named_inputs(forward.args, forward.kwargs)


def _targets(program: Program) -> Iterator[tuple[str, torch.Tensor]]:
    place = 0
    for slot, kept in program.externals.items():
        tensor = kept.tensor
        if slot in program.constants:
            continue
        if tensor.dim() == 0 and slot not in program.written and not place:
            # A number made on the way (a loss scale, a count) is no target.
            continue
        yield f"target{place}" if place else "target", tensor
        place += 1


def _distinct(
    named: Iterator[tuple[str, torch.Tensor]], known: set[int]
) -> list[tuple[str, torch.Tensor]]:
    """Return what is not known yet, under names of their own."""
    found: list[tuple[str, torch.Tensor]] = []
    seen, names = set(known), set[str]()
    for name, tensor in named:
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        unique, number = name, 1
        while unique in names:
            number += 1
            unique = f"{name}.{number}"
        names.add(unique)
        found.append((unique, tensor))
    return found
