"""The system-call filter, run by a small machine of its own."""

from __future__ import annotations

import os
import struct

import pytest

from tutelage.envs.sandbox.call_filter import ARCHITECTURES, CALLS, CLONE, CLONE3, call_filter

ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000

COMMON = {"read": (0, 63), "write": (1, 64), "execve": (59, 221), "exit_group": (231, 94), "futex": (202, 98)}


def decided(program: bytes, call: int, architecture: int, argument: int = 0) -> int:
    """What the kernel would answer, by the rules of classic BPF."""
    data = struct.pack("<iIQ6Q", call, architecture, 0, argument, 0, 0, 0, 0, 0)
    steps = [struct.unpack_from("<HBBI", program, 8 * index) for index in range(len(program) // 8)]
    position, value = 0, 0
    while True:
        code, yes, no, operand = steps[position]
        position += 1
        if code == 0x20:
            (value,) = struct.unpack_from("<I", data, operand)
        elif code == 0x06:
            return operand
        else:
            true = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            position += yes if true else no


@pytest.fixture(params=list(ARCHITECTURES))
def machine(request, monkeypatch):
    """Each known machine: its column in the tables, its number, its filter."""
    uname = os.uname()
    with monkeypatch.context() as patch:
        patch.setattr(os, "uname", lambda: os.uname_result((*tuple(uname)[:4], request.param)))
        program = call_filter.__wrapped__()
    return list(ARCHITECTURES).index(request.param), ARCHITECTURES[request.param], program


def test_denied_calls(machine):
    column, architecture, program = machine
    for name, numbers in CALLS.items():
        assert decided(program, numbers[column], architecture) == EPERM, name


def test_ordinary_calls(machine):
    column, architecture, program = machine
    for name, numbers in COMMON.items():
        assert decided(program, numbers[column], architecture) == ALLOW, name
    assert decided(program, CLONE[column], architecture, argument=0x11) == ALLOW


def test_new_user_spaces(machine):
    column, architecture, program = machine
    assert decided(program, CLONE[column], architecture, argument=0x10000000 | 0x11) == EPERM
    assert decided(program, CLONE3[column], architecture) == ENOSYS


def test_calls_by_other_doors(machine):
    column, architecture, program = machine
    assert decided(program, COMMON["read"][column], 0x40000003) == KILL  # 32-bit x86
    if architecture == ARCHITECTURES["x86_64"]:
        assert decided(program, 0x40000000 | COMMON["read"][column], architecture) == EPERM


def test_a_machine_that_is_not_known_has_no_filter(monkeypatch):
    uname = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((*tuple(uname)[:4], "riscv64")))
    assert call_filter.__wrapped__() == b""
