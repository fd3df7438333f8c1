# SPDX-License-Identifier: Apache-2.0
"""An NPU without an NPU: PyTorch's spare device, renamed ``npu``, in pure Python.

Tensors on it hold a CPU tensor, and every operator runs on that. What an Ascend NPU
does otherwise is done on top: both overflow modes with the sticky flag, the kernels
that are missing, and the switches torch_npu has. The device also counts how often the
host waits for it.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
import warnings
from typing import TYPE_CHECKING, Any, Self

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _setup_privateuseone_for_python_backend,
)

from tests.torch.npu.kernels import fused_operators

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

__all__ = ["CHIP", "Chip", "NpuTensor", "chip", "install", "treat_as_plain"]

_SATURATING = (torch.float16, torch.bfloat16, torch.float32)
_READERS = ("aten::relu", "aten::to", "aten::_to_copy", "aten::clone")
_MISSING = ("aten::aminmax", "aten::_aminmax", "aten::frexp")


class Chip:
    """What the simulated device is and does.

    Attributes:
        soc: torch_npu's number: 104 is a 910B of the first kind (saturates only),
            220 a 910B1 (Inf and NaN), 260 a 950.
        saturates: whether an overflow gives the largest finite number.
        flag: the sticky overflow flag.
        waits: how often the host read a value back.
        forbidden: operators that were asked for and have no kernel.
        corrupts: name of an operator whose results come out wrong; empty for none.
        blind: name of a reduction that gives 0 for NaN; empty for none.
        late: whether the next tensor that arrives sets the flag, as memory does that
            nobody has written yet.
        races: name of an operator that reads what is not written yet while operators
            before it are still under way; empty for none.
        pads: name of an operator that overflows on padding alone; empty for none.
        overwrites: name of an operator whose result somebody overwrites before it is
            read; empty for none.
        under_way: how many operators were started since the host waited for them all.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Be a healthy 910B1."""
        self.soc = 220
        self.saturates = False
        self.flag = False
        self.waits = 0
        self.forbidden: list[str] = []
        self.corrupts = ""
        self.blind = ""
        self.late = False
        self.races = ""
        self.pads = ""
        self.overwrites = ""
        self.doomed: list[torch.Tensor] = []
        self.under_way = 0


CHIP = Chip()


@contextlib.contextmanager
def chip(**facts: Any) -> Iterator[Chip]:
    """Let the device be another one inside a block."""
    CHIP.reset()
    for name, value in facts.items():
        if not hasattr(CHIP, name):
            raise AttributeError(name)
        setattr(CHIP, name, value)
    try:
        yield CHIP
    finally:
        CHIP.reset()


class _Utils(types.ModuleType):
    """``torch.npu.utils``, the part that numcheck uses."""

    def get_soc_version(self) -> int:
        return CHIP.soc

    def is_support_inf_nan(self) -> bool:
        return not CHIP.saturates

    def get_npu_overflow_flag(self) -> bool:
        if not CHIP.saturates:
            raise RuntimeError("Unsupported api when soc_version >= Ascend910B1")
        CHIP.waits += 1
        return CHIP.flag

    def clear_npu_overflow_flag(self) -> None:
        if not CHIP.saturates:
            warnings.warn("clear_npu_overflow_flag is useless", stacklevel=2)
            return
        CHIP.flag = False


class _Event:
    """``torch.npu.Event``: the device is as far as Python is, so all has happened."""

    def record(self, stream: Any = None) -> None:
        """Note nothing."""

    def synchronize(self) -> None:
        """Wait for what was noted."""
        CHIP.waits += 1


class _Npu(_DummyBackendModule, types.ModuleType):
    """``torch.npu``, the part that PyTorch and numcheck use."""

    Event = _Event

    def __init__(self) -> None:
        types.ModuleType.__init__(self, "torch.npu")
        self.utils = _Utils("torch.npu.utils")
        self.get_npu_overflow_flag = self.utils.get_npu_overflow_flag
        self.clear_npu_overflow_flag = self.utils.clear_npu_overflow_flag
        self.conv = types.SimpleNamespace(allow_hf32=True)
        self.matmul = types.SimpleNamespace(allow_hf32=False)

    def get_device_name(self, device: Any = None) -> str:
        names = {104: "Ascend910B", 220: "Ascend910B1", 260: "Ascend950"}
        return names.get(CHIP.soc, f"Ascend{CHIP.soc}")

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        found = [torch.float16, torch.float32]
        return [*found, torch.bfloat16] if CHIP.soc >= 220 else found

    def is_bf16_supported(self, including_emulation: bool = False) -> bool:
        return CHIP.soc >= 220

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None:
        torch.set_rng_state(state)

    def synchronize(self, device: Any = None) -> None:
        CHIP.waits += 1
        CHIP.under_way = 0


class NpuTensor(torch.Tensor):
    """A tensor whose device is ``npu:0`` and whose values lie in `raw`."""

    raw: torch.Tensor

    @staticmethod
    def __new__(
        cls: type[Self], raw: torch.Tensor, requires_grad: bool = False
    ) -> Self:
        made: Self = torch.Tensor._make_wrapper_subclass(
            cls,
            raw.size(),
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device="npu:0",
            requires_grad=requires_grad,
        )
        made.raw = raw
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"NpuTensor({self.raw})"

    @property
    def data(self) -> torch.Tensor:  # type: ignore[override]
        return torch.Tensor.data.__get__(self)

    @data.setter
    def data(self, value: NpuTensor) -> None:
        # PyTorch exchanges what it knows of the tensor; `raw` goes with it.
        torch.Tensor.data.__set__(self, value)
        self.raw = value.raw

    def numpy(self, *, force: bool = False) -> Any:
        CHIP.waits += 1
        return self.raw.numpy(force=force)

    def tolist(self) -> Any:
        CHIP.waits += 1
        return self.raw.tolist()

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _run(func, args, dict(kwargs or {}))


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    leaves = pytree.tree_leaves((args, kwargs))
    to_npu = any(isinstance(x, NpuTensor) for x in leaves)
    if kwargs.get("device") is not None:
        to_npu = torch.device(kwargs["device"]).type == "npu"
    _refuse(func, leaves)
    wrappers: dict[int, NpuTensor] = {}

    def unwrapped(x: Any) -> Any:
        if isinstance(x, NpuTensor):
            wrappers[id(x.raw)] = x
            return x.raw
        on_npu = isinstance(x, torch.device | str) and str(x).startswith("npu")
        return torch.device("cpu") if on_npu else x

    here = pytree.tree_map(unwrapped, (args, kwargs))
    if (
        CHIP.saturates
        and func is torch.ops.aten._amp_foreach_non_finite_check_and_unscale_.default
    ):
        return _unscale_by_flag(*here[0])
    CHIP.under_way += 1
    if CHIP.overwrites:
        _overwrite(func, pytree.tree_leaves(here))
    result = func(*here[0], **here[1])
    if func is torch.ops.aten._local_scalar_dense.default or not to_npu:
        CHIP.waits += 1
        return result

    def wrapped(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        _arithmetic(func, x)
        known = wrappers.get(id(x))
        return NpuTensor(x) if known is None else known

    out = pytree.tree_map(wrapped, result)
    # Views share storage on a real device, and the recorder goes by that.
    return return_and_correct_aliasing(func, args, kwargs, out) if func.is_view else out


def _unscale_by_flag(
    gradients: list[torch.Tensor], found_inf: torch.Tensor, inverse: torch.Tensor
) -> None:
    """Judge by the flag alone, as torch_npu does here, and clear it."""
    if CHIP.flag:
        found_inf.fill_(1.0)
        CHIP.flag = False
        return
    for gradient in gradients:
        gradient.mul_(inverse)


def _refuse(func: Any, leaves: list[Any]) -> None:
    """Note what a real device could not do; nothing fails, so tests say it clearly."""
    name = func._schema.name
    doubles = any(isinstance(x, NpuTensor) and x.dtype == torch.float64 for x in leaves)
    if name in _MISSING or doubles:
        CHIP.forbidden.append(f"{name}{' in float64' if doubles else ''}")


def _overwrite(func: Any, read: list[Any]) -> None:
    """Spoil what was made earlier and is read now, by anything but a measurement."""
    if func._schema.name not in _READERS:
        return
    memories = {x.untyped_storage()._cdata for x in read if isinstance(x, torch.Tensor)}
    for x in CHIP.doomed:
        if x.untyped_storage()._cdata in memories:
            x.view(-1)[:1].fill_(float("nan"))


def _arithmetic(func: Any, x: torch.Tensor) -> None:
    """Do to a result what the device does, in place."""
    if CHIP.blind and func._schema.name == CHIP.blind:
        x.nan_to_num_(nan=0.0)
    is_early = func._schema.name == CHIP.races and CHIP.under_way > 1
    if is_early or (CHIP.corrupts and func._schema.name == CHIP.corrupts):
        x.view(-1)[:1].fill_(float("nan"))
    if CHIP.overwrites and func._schema.name == CHIP.overwrites:
        CHIP.doomed.append(x)
    if CHIP.pads and func._schema.name == CHIP.pads:
        CHIP.flag = True
    if not CHIP.saturates or x.dtype not in _SATURATING or func.is_view:
        return
    if CHIP.late and func is torch.ops.aten._foreach_norm.Scalar:
        CHIP.flag, CHIP.late = True, False
    if not bool(torch.isfinite(x).all()):
        CHIP.flag = True
        most = torch.finfo(x.dtype).max
        x.copy_(torch.nan_to_num(x, nan=0.0, posinf=most, neginf=-most))


def treat_as_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let numcheck take the simulated tensors for plain ones, which real ones are."""
    importlib.import_module("numcheck_torch.kinds")
    for name, module in tuple(sys.modules.items()):
        if not name.startswith("numcheck_torch."):
            continue
        plain = getattr(module, "PLAIN", None)
        if plain is not None:
            monkeypatch.setattr(module, "PLAIN", plain | {NpuTensor})


_LIBRARIES: list[torch.library.Library] = []


def install() -> None:
    """Register the device, once for the process."""
    if _LIBRARIES:
        return
    _setup_privateuseone_for_python_backend("npu", _Npu())
    factories = torch.library.Library("aten", "IMPL")
    factories.impl("empty.memory_format", _empty, "PrivateUse1")
    factories.impl("empty_strided", _empty_strided, "PrivateUse1")
    factories.impl("_copy_from", _copy_from, "PrivateUse1")
    _LIBRARIES.append(factories)
    _LIBRARIES.append(_autocast())
    _LIBRARIES.append(fused_operators())


def _empty(size: Any, *, dtype: Any = None, memory_format: Any = None, **_: Any) -> Any:
    shape = memory_format or torch.contiguous_format
    return NpuTensor(torch.empty(size, dtype=dtype, memory_format=shape))


def _empty_strided(size: Any, stride: Any, *, dtype: Any = None, **_: Any) -> Any:
    return NpuTensor(torch.empty_strided(size, stride, dtype=dtype))


def _copy_from(source: Any, target: Any, non_blocking: bool = False) -> Any:
    """Copy below the dispatch of subclasses, as ``torch.tensor`` does."""
    plain = [getattr(t, "raw", t) for t in (target, source)]
    plain[0].copy_(plain[1])
    return target


def _autocast() -> torch.library.Library:
    """Cast what products and losses are given, as autocast does on a real device."""
    rest = torch.library.Library("_", "IMPL", "AutocastPrivateUse1")
    rest.fallback(torch.library.fallthrough_kernel)
    _LIBRARIES.append(rest)
    library = torch.library.Library("aten", "IMPL")
    products = ("linear", "matmul", "mm", "bmm", "addmm")
    for name in (*products, "scaled_dot_product_attention"):
        library.impl(
            name, _casting(getattr(torch.ops.aten, name)), "AutocastPrivateUse1"
        )
    for name in ("softmax.int", "log_softmax.int", "nll_loss", "mse_loss"):
        operator = getattr(torch.ops.aten, name.partition(".")[0])
        wide = _casting(operator, torch.float32)
        library.impl(name, wide, "AutocastPrivateUse1")
    return library


def _casting(operator: Any, wanted: torch.dtype | None = None) -> Any:
    key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def call(*args: Any, **kwargs: Any) -> Any:
        dtype = wanted or torch.get_autocast_dtype("npu")

        def cast(x: Any) -> Any:
            lifts = isinstance(x, torch.Tensor) and x.is_floating_point()
            return x.to(dtype) if lifts and x.device.type == "npu" else x

        with torch._C._ExcludeDispatchKeyGuard(key):
            return operator(*map(cast, args), **kwargs)

    return call
