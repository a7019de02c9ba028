"""The kernels of attention among few tokens against a transformer block without them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn import block
from refil.nn.kernels import heads
from tests.gpu import program_for_gpu


def random_block(size: int = 16, count: int = 3, dtype=jnp.float32):
    """A block, its tokens, and which of them are visible."""
    layer, tokens = block.block(size, count, jax.random.key(0)), jax.random.normal(jax.random.key(1), (5, 7, size))
    visible = jax.random.bernoulli(jax.random.key(2), 0.5, (5, 7)).at[:, -1].set(True)
    return jax.tree.map(lambda leaf: leaf.astype(dtype), (layer, tokens)), visible


def total(layer, tokens, visible):
    """A number that depends on both forms of a block."""
    results = layer(tokens, visible), layer.last(tokens, visible)
    return sum((result.astype(jnp.float32) ** 2 * jnp.arange(result.shape[-1])).sum() for result in results)


def gradients(exact: bool = True):
    """The sum and its gradient, compiled anew."""
    inputs, visible = random_block(dtype=jnp.float32 if exact else jnp.bfloat16)
    return jax.jit(jax.value_and_grad(lambda *inputs: total(*inputs, visible), argnums=(0, 1)))(*inputs)


def interpreted(monkeypatch):
    """From now on blocks use the kernels."""
    monkeypatch.setattr(heads, "fits", lambda tokens: True)
    monkeypatch.setattr(heads, "attend", partial(as_interpreted, heads.attend))


def as_interpreted(attend, *arguments):
    return attend(*arguments[:-1], True)


def test_a_block_computes_the_same_with_kernels(monkeypatch):
    expected = gradients()
    interpreted(monkeypatch)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=2e-4), gradients(), expected)


@pytest.mark.slow
def test_a_block_may_be_bfloat16(monkeypatch):
    expected = gradients()
    interpreted(monkeypatch)
    for ours, exact in zip(*map(jax.tree.leaves, (gradients(exact=False), expected)), strict=True):
        ours = np.asarray(ours, np.float32)
        assert np.linalg.norm(ours - exact) <= 0.05 * np.linalg.norm(exact)


def test_the_kernels_can_be_lowered_for_a_gpu():
    queries, others, visible = (
        jnp.zeros((3, 17, 96), jnp.bfloat16),
        jnp.zeros((3, 17, 192), jnp.bfloat16),
        jnp.ones((3, 17), bool),
    )

    def gradient(queries, others):
        return jax.grad(lambda *both: heads.attend(*both, visible, 3, False).astype(jnp.float32).sum(), argnums=(0, 1))(
            queries, others
        )

    assert program_for_gpu(gradient, queries, others).count("triton") >= 1


def test_the_kernels_need_a_gpu_and_heads_whose_size_is_a_power_of_two():
    assert jax.default_backend() == "gpu" or not heads.fits(jnp.zeros((5, 17, 32)))
    assert not heads.fits(jnp.zeros((5, 17, 24)))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_on_a_gpu_a_block_computes_the_same_with_kernels(dtype, monkeypatch):
    inputs, visible = random_block(32, 3, dtype)
    with jax.default_matmul_precision("highest"):
        fast = jax.jit(jax.grad(lambda *inputs: total(*inputs, visible), argnums=(0, 1)))(*inputs)
        monkeypatch.setattr(heads, "fits", lambda tokens: False)
        inputs = random_block(32, 3)[0]
        exact = jax.jit(jax.grad(lambda *inputs: total(*inputs, visible), argnums=(0, 1)))(*inputs)
    tolerance = 1e-4 if dtype == jnp.float32 else 0.05
    for ours, theirs in zip(jax.tree.leaves(fast), jax.tree.leaves(exact), strict=True):
        assert jnp.linalg.norm(ours.astype(jnp.float32) - theirs) <= tolerance * jnp.linalg.norm(theirs)
