"""The kernels against the plain loops: here interpreted, on a GPU as they are."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn import gru
from refil.nn.kernels import gru as gru_kernel
from tests.gpu import program_for_gpu

SIZES = [(1, 16, 16), (5, 21, 16), (9, 40, 64)]  # time, rows, size


def trace_back(weight, biases, gates, before, first, gradient):
    """The plain loop, with its gates worked out beforehand."""
    opened = gru.step(gates + biases[0], before @ weight + biases[1], before)[1:]
    return gru.trace_back(weight, opened, before, first, gradient)


LOOPS = [(gru_kernel.remember, gru.remember), (gru_kernel.trace_back, trace_back)]


def inputs(plain, time, rows, size):
    """What a loop takes, drawn by chance."""
    keys = jax.random.split(jax.random.key(time), 6)
    weight = jax.random.normal(keys[0], (size, 3 * size)) * size**-0.5
    gates, biases = jax.random.normal(keys[1], (time, rows, 3 * size)), jax.random.normal(keys[2], (2, 3 * size))
    first = jax.random.bernoulli(keys[3], 0.3, (time, rows, 1)).at[0].set(True)
    if plain is gru.remember:
        return weight, biases, gates, first
    before, gradient = jax.random.normal(keys[4], (2, time, rows, size))
    return weight, biases, gates, jnp.where(first, 0, before), first, gradient


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("kernel", "plain"), LOOPS)
def test_a_kernel_does_what_its_loop_does(kernel, plain, sizes):
    given = inputs(plain, *sizes)
    all_close(kernel(*given, interpret=True), plain(*given))


def all_close(ours, theirs, tolerance=1e-5):
    """Whatever a loop gives."""
    jax.tree.map(partial(assert_close, tolerance=tolerance), ours, theirs)


def assert_close(one, other, tolerance=1e-5):
    """Equal but for rounding, which a long loop may carry along."""
    scale = float(jnp.abs(other).max())
    np.testing.assert_allclose(one.astype(jnp.float32) / scale, other / scale, atol=tolerance)


def in_bf16(given):
    """The same with what comes instant by instant in bf16; the weights stay as they are."""
    return jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16) if leaf.ndim == 3 and leaf.dtype == jnp.float32 else leaf, given)


@pytest.mark.parametrize(("kernel", "plain"), LOOPS)
def test_what_comes_may_be_bf16(kernel, plain):
    given = inputs(plain, *SIZES[1])
    for loop in (plain, partial(kernel, interpret=True)):
        result = loop(*in_bf16(given))
        assert all(leaf.dtype == jnp.bfloat16 for leaf in jax.tree.leaves(result))
        all_close(result, plain(*given), tolerance=0.02)


@pytest.mark.parametrize(("kernel", "plain"), LOOPS)
def test_seeds_side_by_side(kernel, plain):
    given = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf[::-1]]), inputs(plain, 4, 18, 16))
    together = jax.vmap(partial(kernel, interpret=True))(*given)
    all_close(together, jax.vmap(plain)(*given))


@pytest.mark.parametrize(("kernel", "plain"), LOOPS)
def test_a_kernel_can_be_written_for_a_gpu(kernel, plain):
    given = inputs(plain, 3, 32, 64)
    for rows in (given, in_bf16(given)):
        assert "triton" in program_for_gpu(kernel, *rows)


def test_a_cpu_and_odd_sizes_have_the_plain_loops():
    assert jax.default_backend() == "gpu" or not gru_kernel.fits(jnp.zeros((64, 192)))
    assert not gru_kernel.fits(jnp.zeros((48, 144)))


def test_the_gradient_with_kernels_is_the_one_without(monkeypatch):
    """All of it, biases too; with kernels the gates are worked out again on the way back."""
    cell = gru.gru(4, 16, jax.random.key(0))
    rows = jax.random.normal(jax.random.key(1), (6, 3, 5, 4))
    first = jax.random.bernoulli(jax.random.key(2), 0.3, (6, 1, 5, 1)).at[0].set(True)
    gradient = jax.grad(lambda cell, rows: (cell.unroll(cell.shares(rows), first) ** 2).sum(), argnums=(0, 1))
    plain = gradient(cell, rows)
    for name in ("remember", "trace_back"):
        monkeypatch.setattr(gru_kernel, name, partial(getattr(gru_kernel, name), interpret=True))
    monkeypatch.setattr(gru_kernel, "fits", lambda weight: True)
    jax.tree.map(assert_close, gradient(cell, rows), plain)


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [*SIZES, (151, 768, 64)])
@pytest.mark.parametrize(("kernel", "plain"), LOOPS)
def test_on_a_gpu_too(kernel, plain, sizes):
    with jax.default_matmul_precision("highest"):
        given = inputs(plain, *sizes)
        all_close(jax.jit(kernel)(*given), plain(*given))
    all_close(jax.jit(kernel)(*in_bf16(given)), plain(*given), tolerance=0.02)
