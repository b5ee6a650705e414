"""The number format ``native``: bfloat16 where the hardware computes in it, else float32, which is faster there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

NATIVE: Final = "native"

_CPU_FLAGS: Final = ("avx512_bf16", "amx_bf16", "arm_bf16", "bf16")
"""Instructions for products of bfloat16 matrices, as torch names them."""


def native_dtype(device: str = "auto") -> str:
    """``bfloat16`` or ``float32``, for a device as torch names it. ``auto``: a GPU if there is one, else the CPU."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda"):
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    if device.startswith("cpu"):
        return "bfloat16" if any(_cpu_capabilities().get(flag, False) for flag in _CPU_FLAGS) else "float32"
    return "float32"


def resolved(dtype: str, device: str = "auto") -> str:
    """The dtype itself, ``native`` taken for what it is on this machine."""
    return native_dtype(device) if dtype == NATIVE else dtype


def _cpu_capabilities() -> Mapping[str, Any]:
    # Not in every version of torch that is supported; without it nothing is known, and float32 is safe.
    tell: Callable[[], Mapping[str, Any]] | None = getattr(torch.cpu, "get_capabilities", None)
    return {} if tell is None else tell()
