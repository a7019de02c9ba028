"""Kernels are compiled by Triton, without a GPU, and become part of the program that JAX compiles."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest

from refil import hardware
from refil.envs.starcraft.sim import kernel as battle
from refil.hardware import Device
from refil.kernels import launch
from refil.kernels.call import kernel_call
from refil.kernels.program import Options
from refil.kernels.source import KernelError
from refil.nn.kernels import attention, gru, heads, layer_norm, updet
from tests.envs.starcraft.sim.test_kernel import amid_battle
from tests.gpu import program_for_gpu
from tests.kernels.example import kernel_of, sized
from tests.nn.kernels import test_gru, test_updet

H200 = Device("gpu", "NVIDIA H200", "nvidia", (9, 0))


@pytest.fixture
def for_an_h200(monkeypatch):
    """Compile with Triton for this GPU."""
    pytest.importorskip("triton")
    monkeypatch.setattr(hardware, "compiler", lambda: "Triton")
    monkeypatch.setattr(hardware, "device", lambda: H200)


def both(function, *inputs):
    value, pullback = jax.vjp(function, *inputs)
    return value, pullback(value)


def layers(dtype):
    """The kernels of all layers with their gradients, and arguments."""
    normal = partial(jax.random.normal, jax.random.key(0), dtype=dtype)
    views, visible = jnp.ones((2, 5, 8, 16), bool), jnp.ones((3, 17), bool)
    attend = partial(attention.attend, size=128, heads=4, value_dim=32, sum_heads=False, interpret=False)
    yield gru.gru_scan, test_gru.random_inputs(test_gru.forward, 1, 3, 32, 64)
    yield gru.gru_scan_backward, test_gru.random_inputs(test_gru.backward, 1, 3, 32, 64)
    yield partial(both, lambda given: attend(given, views)), (normal((5, 16, 384)),)
    yield partial(both, lambda *given: heads.attend(*given, visible, 3, False)), (normal((3, 17, 96)), normal((3, 17, 192)))
    yield (
        partial(layer_norm.layer_norm_backward, relu=True),
        (normal((256, 128)), jnp.ones(128), jnp.ones(128), normal((256, 128))),
    )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_triton_compiles_the_kernels_of_all_layers(for_an_h200, dtype):
    for function, arguments in layers(dtype):
        given = test_gru.in_bf16(arguments) if dtype == jnp.bfloat16 else arguments
        assert launch.TARGET in program_for_gpu(function, *given)


@pytest.mark.slow
def test_triton_compiles_updets_memory(for_an_h200):
    arguments = test_updet.random_arguments(1, (3, 2, 8, 16), 32, 3, 2, jnp.bfloat16)
    program = program_for_gpu(partial(test_updet.forward_and_backward, updet.forward, updet.backward), arguments)
    assert program.count(launch.TARGET) == 2


@pytest.mark.slow
@pytest.mark.parametrize("near_only", [False, True])
@pytest.mark.parametrize("name", ["3-8sz", "3-8csz"])  # one effect of weapons, and two
def test_triton_compiles_battles(for_an_h200, name, near_only):
    game, state, jitter = amid_battle(name, battles=3)
    plan = battle.Plan(near_only=near_only)
    assert launch.TARGET in program_for_gpu(lambda *given: battle.run_ticks(*given, game, plan=plan), state, jitter)


@pytest.mark.slow
@pytest.mark.parametrize("fuse", [True, False])
def test_products_and_sums_are_fused_if_allowed(for_an_h200, fuse):
    def linear(inputs, outputs):
        outputs[...] = inputs[...] * inputs[...] + 1

    source = kernel_of(linear, sized((32,))).triton_source([sized((32,))])
    compiled = launch.compile_kernel(source, "example", ("*fp32", "*fp32"), Options(num_warps=1, fp_fusion=fuse), 90)
    assert ("fma.rn.f32" in compiled.ptx) == fuse


@pytest.mark.slow
def test_compiled_kernels_say_what_they_need(for_an_h200):
    def add(inputs, outputs):
        outputs[...] = inputs[...] + 1

    kernel = kernel_of(add, sized((32,)))
    source = kernel.triton_source([sized((32,))])
    compiled = launch.compile_kernel(source, "example", ("*fp32", "*fp32"), Options(num_warps=1), 90)
    assert ".visible .entry example(" in compiled.ptx
    assert ".version 8.7" in compiled.ptx
    assert compiled.shared == 0
    assert compiled.arguments == 4  # two arrays, and two pointers that Triton adds


def test_gpus_without_a_compute_capability_are_refused(monkeypatch):
    monkeypatch.setattr(hardware, "compiler", lambda: "Triton")
    monkeypatch.setattr(hardware, "device", lambda: Device("gpu", "AMD Instinct MI300X", "amd"))
    spec = jax.experimental.pallas.BlockSpec((16,), lambda i: (0,))
    call = kernel_call(lambda inputs, outputs: None, sized((16,)), (1,), [spec], spec, Options(name="empty"))
    with pytest.raises(KernelError, match=r"kernels for AMD Instinct MI300X; switch them off with kernels='off'"):
        call(jnp.zeros(16))
