"""Kernels and precision follow from the device: decisions for GPUs that are only described."""

import jax.numpy as jnp
import pytest

from refil import hardware
from refil.errors import RefilError
from refil.hardware import Device
from refil.training import flags
from tests.gpu import pretend_backend

H200 = Device("gpu", "NVIDIA H200", "nvidia", (9, 0))
DEVICES = {
    "H200": (H200, True),
    "A100": (Device("gpu", "NVIDIA A100", "nvidia", (8, 0)), True),
    "T4": (Device("gpu", "Tesla T4", "nvidia", (7, 5)), False),
    "MI300": (Device("gpu", "AMD Instinct MI300X", "amd"), False),
    "unknown": (Device("gpu", "a new GPU"), False),
}


@pytest.fixture
def install(monkeypatch):
    """Pretend that the first device is another one, or none but a CPU."""
    monkeypatch.setattr(hardware, "_failures", [])

    def install(device):
        pretend_backend(monkeypatch, "cpu" if device is None else device.platform)
        monkeypatch.setattr(hardware, "device", lambda: device or Device("cpu", "cpu"))

    return install


@pytest.mark.parametrize("backend", ["cpu", "gpu", "tpu"])
def test_on_gpu_asks_jax_which_backend_runs(backend, monkeypatch):
    pretend_backend(monkeypatch, backend)
    assert hardware.on_gpu() == (backend == "gpu")


@pytest.mark.parametrize(
    ("reported", "device"),
    [
        (("NVIDIA H200", "PJRT C API\ncuda 13000", "9.0"), H200),
        (("Tesla T4", "cuda 12090", "7.5"), DEVICES["T4"][0]),
        (("NVIDIA GB10", "cuda 13000", "12.1"), Device("gpu", "NVIDIA GB10", "nvidia", (12, 1))),
        (("NVIDIA X", "cuda 13000", ""), Device("gpu", "NVIDIA X", "nvidia")),
        (("AMD Instinct MI300X", "PJRT C API\nrocm 60300", "gfx942"), DEVICES["MI300"][0]),
        (("a new GPU", "metal 1", ""), DEVICES["unknown"][0]),
    ],
)
def test_vendor_and_capability_are_read_from_what_jax_reports(reported, device):
    assert hardware.describe(*reported) == device


@pytest.mark.parametrize("name", DEVICES)
def test_kernels_and_bfloat16_are_automatic_on_nvidia_gpus_since_ampere(name, install):
    device, supported = DEVICES[name]
    install(device)
    assert (hardware.kernels().yes, hardware.bfloat16().yes) == (supported, supported)
    assert flags.compute_dtype("auto") == (jnp.bfloat16 if supported else jnp.float32)
    assert flags.compute_dtype("tf32") == jnp.float32
    assert flags.compute_dtype("bf16") == jnp.bfloat16
    if not supported:
        assert device.kind in hardware.kernels().reason


def test_a_cpu_has_neither_kernels_nor_fast_bfloat16(install):
    install(None)
    assert hardware.kernels() == hardware.bfloat16() == (False, "no GPU")
    assert flags.compute_dtype("auto") == jnp.float32


def test_kernels_can_be_switched_on_and_off(install):
    install(DEVICES["MI300"][0])
    with hardware.using_kernels("on"):
        assert hardware.kernels() == (True, "switched on, although AMD Instinct MI300X is untested")
    install(H200)
    with hardware.using_kernels("off"):
        assert hardware.kernels() == (False, "switched off")
        with hardware.using_kernels("auto"):
            assert hardware.kernels().yes
    hardware.configure("off")
    try:
        assert not hardware.kernels().yes
    finally:
        hardware.configure("auto")


def test_kernels_need_a_backend_and_a_gpu(install, monkeypatch):
    install(None)
    with pytest.raises(RefilError, match=r"train\.kernels 'on' needs a GPU"):
        hardware.check("on")
    hardware.check("auto")
    install(H200)
    hardware.check("on")
    monkeypatch.setattr(hardware, "compilers", lambda: ())  # a JAX version without Pallas' backend, and no Triton
    assert hardware.kernels().reason.endswith("Triton is not installed (pip install triton)")
    assert not hardware.kernels().yes


@pytest.mark.parametrize(
    ("in_jax", "installed", "wanted", "found"),
    [
        (True, True, None, ("Pallas", "Triton")),
        (True, False, None, ("Pallas",)),
        (False, True, None, ("Triton",)),
        (False, False, None, ()),
        (True, True, "Triton", ("Triton",)),
        (True, False, "Triton", ()),
    ],
)
def test_kernels_are_compiled_by_pallas_while_jax_has_it_and_then_by_triton(in_jax, installed, wanted, found, monkeypatch):
    monkeypatch.setattr(hardware, "triton", object() if in_jax else None)
    monkeypatch.setattr(hardware, "find_spec", lambda name: name if installed else None)
    if wanted:
        monkeypatch.setenv("REFIL_KERNEL_COMPILER", wanted)
    assert hardware.compilers.__wrapped__() == found


def test_an_unknown_compiler_is_refused(monkeypatch):
    monkeypatch.setenv("REFIL_KERNEL_COMPILER", "nvcc")
    with pytest.raises(RefilError, match="REFIL_KERNEL_COMPILER is 'nvcc'; available: Pallas, Triton"):
        hardware.compilers.__wrapped__()


def test_kernels_that_do_not_compile_are_given_up(install):
    install(H200)
    hardware.give_up_kernels("out of shared memory")
    assert hardware.kernels() == (False, "they do not compile here: out of shared memory")
