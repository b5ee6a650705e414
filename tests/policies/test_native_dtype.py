"""The format in which this machine computes fastest, and what it becomes in a policy and in a training."""

import torch

from tutelage.policies.local import LocalPolicy
from tutelage.policies.native_dtype import native_dtype, resolved
from tutelage.students import student_path


def test_only_hardware_with_bfloat16_gets_it(monkeypatch):
    for flags, expected in (
        ({"avx512_bf16": True}, "bfloat16"),
        ({"amx_bf16": True}, "bfloat16"),
        ({"avx512_f": True, "avx512_bf16": False}, "float32"),
        ({}, "float32"),
    ):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda flags=flags: flags, raising=False)
        assert native_dtype("cpu") == expected
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert native_dtype("cpu") == "float32"
    assert native_dtype("meta") == "float32"


def test_other_names_stay():
    assert [resolved(name) for name in ("float32", "bfloat16", "auto")] == ["float32", "bfloat16", "auto"]


def test_a_policy_loads_in_it(monkeypatch):
    folder = student_path("builtin:household_tiny")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
    assert LocalPolicy(folder, dtype="native", device="cpu").model.dtype == torch.bfloat16
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict, raising=False)
    assert LocalPolicy(folder, dtype="native", device="cpu").model.dtype == torch.float32
