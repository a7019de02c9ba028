"""The GRU kernels against the same scans in XLA: interpreted on CPUs, compiled on GPUs."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn import gru
from refil.nn.kernels import gru as gru_kernel
from tests.gpu import program_for_gpu
from tests.slow import all_but

SIZES = [(1, 1, 16, 16), (2, 5, 21, 16), (1, 9, 40, 64)]  # views, time, rows, size


def forward(weight, biases, gates, is_first):
    return gru.gru_steps(weight, biases, gates, is_first)[0]


def backward(weight, biases, gates, previous, is_first, gradient):
    """The backward scan in XLA, which expects the activations, with the arguments of the kernel."""
    activations = gru.gru_step(gates + biases[0], previous @ weight + biases[1], previous)[1:]
    return gru.gru_scan_backward(weight, activations, previous, is_first, gradient)


SCANS = [(gru_kernel.gru_scan, forward), (gru_kernel.gru_scan_backward, backward)]


def random_inputs(xla, views, time, rows, size):
    """Random arguments of a scan."""
    keys = jax.random.split(jax.random.key(time), 6)
    weight = jax.random.normal(keys[0], (size, 3 * size)) * size**-0.5
    gates, biases = jax.random.normal(keys[1], (views, time, rows, 3 * size)), jax.random.normal(keys[2], (2, 3 * size))
    is_first = jax.random.bernoulli(keys[3], 0.3, (views, time, rows, 1)).at[:, 0].set(True)
    if xla is forward:
        return weight, biases, gates, is_first
    previous, gradient = jax.random.normal(keys[4], (2, views, time, rows, size))
    return weight, biases, gates, jnp.where(is_first, 0, previous), is_first, gradient


@pytest.mark.parametrize("sizes", all_but((SIZES[1],), SIZES))
@pytest.mark.parametrize(("kernel", "xla"), SCANS)
def test_each_kernel_computes_what_its_scan_computes(kernel, xla, sizes):
    inputs = random_inputs(xla, *sizes)
    all_close(kernel(*inputs, interpret=True), xla(*inputs))


def all_close(ours, theirs, tolerance=1e-5):
    jax.tree.map(partial(assert_close, tolerance=tolerance), ours, theirs)


def assert_close(one, other, tolerance=1e-5):
    """Compare relative to the largest entry: a long scan accumulates rounding errors."""
    scale = float(jnp.abs(other).max())
    np.testing.assert_allclose(one.astype(jnp.float32) / scale, other / scale, atol=tolerance)


def in_bf16(inputs):
    """Return the inputs with everything that has a time axis in bfloat16; weights and biases stay in float32."""
    return jax.tree.map(
        lambda leaf: leaf.astype(jnp.bfloat16) if leaf.ndim == 4 and leaf.dtype == jnp.float32 else leaf, inputs
    )


@pytest.mark.parametrize(("kernel", "xla"), SCANS)
def test_inputs_may_be_bfloat16(kernel, xla):
    inputs = random_inputs(xla, *SIZES[1])
    for scan in (xla, partial(kernel, interpret=True)):
        result = scan(*in_bf16(inputs))
        assert all(leaf.dtype == jnp.bfloat16 for leaf in jax.tree.leaves(result))
        all_close(result, xla(*inputs), tolerance=0.02)


@pytest.mark.parametrize(("kernel", "xla"), SCANS)
def test_the_kernels_can_be_batched_over_seeds(kernel, xla):
    inputs = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf[::-1]]), random_inputs(xla, 2, 4, 18, 16))
    batched = jax.vmap(partial(kernel, interpret=True))(*inputs)
    all_close(batched, jax.vmap(xla)(*inputs))


@pytest.mark.parametrize(("kernel", "xla"), SCANS)
def test_the_kernels_can_be_lowered_for_a_gpu(kernel, xla):
    inputs = random_inputs(xla, 1, 3, 32, 64)
    for each in (inputs, in_bf16(inputs)):
        assert "triton" in program_for_gpu(kernel, *each)


def test_the_kernels_need_a_gpu_and_a_hidden_size_that_is_a_power_of_two():
    assert jax.default_backend() == "gpu" or not gru_kernel.fits(jnp.zeros((64, 192)))
    assert not gru_kernel.fits(jnp.zeros((48, 144)))


def test_the_kernel_continues_from_a_given_hidden_state():
    inputs = random_inputs(forward, *SIZES[1])
    views, _, rows = inputs[2].shape[:3]
    start = jax.random.normal(jax.random.key(3), (views, rows, len(inputs[0])))
    inputs = (*inputs[:3], inputs[3].at[:, 0].set(False), start)
    hiddens, previous = gru_kernel.gru_scan_with_previous(*inputs, interpret=True)
    assert_close(hiddens, gru.gru_steps(*inputs)[0])
    before = jnp.concatenate([start[:, None], hiddens[:, :-1]], axis=1)
    assert_close(previous, jnp.where(inputs[3], 0.0, before))


def test_the_gradient_is_the_same_with_kernels(monkeypatch):
    """The gradients of weights, biases and inputs; the backward kernel recomputes the activations."""
    cell = gru.gru(4, 16, jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (3, 6, 5, 4))
    is_first = jax.random.bernoulli(jax.random.key(2), 0.3, (1, 6, 5, 1)).at[:, 0].set(True)
    gradient = jax.grad(lambda cell, inputs: (cell.unroll(cell.project_inputs(inputs), is_first) ** 2).sum(), argnums=(0, 1))
    xla = gradient(cell, inputs)
    for name in ("gru_scan", "gru_scan_with_previous", "gru_scan_backward"):
        monkeypatch.setattr(gru_kernel, name, partial(getattr(gru_kernel, name), interpret=True))
    monkeypatch.setattr(gru_kernel, "fits", lambda weight: True)
    monkeypatch.setattr(gru, "on_gpu", lambda: True)
    jax.tree.map(assert_close, gradient(cell, inputs), xla)


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [*SIZES, (1, 151, 768, 64), (3, 33, 512, 128)])
@pytest.mark.parametrize(("kernel", "xla"), SCANS)
def test_on_a_gpu_each_kernel_computes_what_its_scan_computes(kernel, xla, sizes):
    with jax.default_matmul_precision("highest"):
        inputs = random_inputs(xla, *sizes)
        all_close(jax.jit(kernel)(*inputs), xla(*inputs))
    all_close(jax.jit(kernel)(*in_bf16(inputs)), xla(*inputs), tolerance=0.02)
