"""Slots on GPUs and CPUs."""

import os

import pytest

from refil.errors import RefilError
from refil.sweeps import local


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine with two GPUs, as far as nvidia-smi and JAX's plug-ins tell."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nprintf '0\\n1\\n'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(local, "jax_has_cuda", lambda: True)
    for name in (local.VISIBLE, local.FRACTION, local.OLD_FRACTION, "JAX_PLATFORMS"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_each_gpu_has_a_slot_and_its_whole_memory(machine):
    expected = [("GPU 0", {"CUDA_VISIBLE_DEVICES": "0"}), ("GPU 1", {"CUDA_VISIBLE_DEVICES": "1"})]
    assert local.slots(1, None) == expected
    assert local.slots(1, 1) == expected[:1]


def test_runs_that_share_a_gpu_share_its_memory_and_come_to_empty_gpus_first(machine):
    slots = local.slots(2, None)
    assert [name for name, _ in slots] == ["GPU 0 slot 0", "GPU 1 slot 0", "GPU 0 slot 1", "GPU 1 slot 1"]
    assert slots[3][1] == {"CUDA_VISIBLE_DEVICES": "1", "XLA_CLIENT_MEM_FRACTION": "0.450"}
    machine.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.2")  # the user's choice; JAX refuses both names at once
    assert local.slots(2, 1)[0][1] == {"CUDA_VISIBLE_DEVICES": "0"}


def test_only_visible_gpus_are_used(machine):
    machine.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [name for name, _ in local.slots(1, None)] == ["GPU 1"]
    machine.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert local.slots(1, None) == [("CPU", {})]
    with pytest.raises(RefilError, match="CUDA_VISIBLE_DEVICES or JAX_PLATFORMS hides them"):
        local.slots(1, 1)


def test_a_gpu_that_is_not_there_is_an_error_with_its_reason(machine):
    with pytest.raises(RefilError, match=r"gpus=3 asks for more GPUs than there are: 2 \(0, 1\)"):
        local.slots(1, 3)
    machine.setattr(local, "jax_has_cuda", lambda: False)
    with pytest.raises(RefilError, match=r"pip install 'refil\[cuda\]'"):
        local.slots(1, 1)
    machine.setenv("PATH", "/nowhere")
    with pytest.raises(RefilError, match="nvidia-smi finds none"):
        local.slots(1, 1)


def test_a_cpu_has_one_slot_unless_more_are_asked_for(machine):
    assert local.slots(1, 0) == [("CPU", {"JAX_PLATFORMS": "cpu"})]
    machine.setenv("PATH", "/nowhere")
    assert local.slots(1, None) == [("CPU", {})]
    assert [name for name, _ in local.slots(3, None)] == ["CPU slot 0", "CPU slot 1", "CPU slot 2"]
