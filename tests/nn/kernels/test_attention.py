"""The attention kernels against the same attention in XLA: interpreted on CPUs, compiled on GPUs."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn import attention
from refil.nn.kernels import attention as attention_kernel
from tests.gpu import program_for_gpu

SIZES = [  # views, timesteps, agents, entities, size, heads, value_dim, sum_heads
    (3, 5, 8, 8, 64, 4, 16, False),
    (2, 3, 8, 16, 128, 4, 32, True),
    (1, 3, 4, 16, 64, 4, 1, True),  # which makes 132 columns and four of padding
    (2, 3, 2, 4, 32, 2, 16, False),
]


def random_inputs(views, timesteps, agents, entities, size, heads, value_dim, sum_heads):
    """Random projections, views and weights of the output; the first agent has nothing in its first view."""
    keys = jax.random.split(jax.random.key(agents), 3)
    columns = 2 * size + heads * value_dim
    projections = jax.random.normal(keys[0], (timesteps, entities, columns + -columns % 8))
    masks = jax.random.bernoulli(keys[1], 0.5, (views, timesteps, agents, entities)).at[0, 0, 0].set(False)
    weight = jax.random.normal(keys[2], (views, timesteps, agents, value_dim if sum_heads else heads * value_dim))
    return projections, masks, weight


def value_and_gradient(attend, projections, masks, weight):
    """Return the output, and the gradient of its weighted sum."""
    attended = attend(projections, masks)
    return attended, jax.grad(lambda projections: (attend(projections, masks) * weight).sum())(projections)


def both(sizes, interpret):
    """Return value and gradient with the kernels and with XLA, as functions of the inputs, and random inputs."""
    *_, size, heads, value_dim, sum_heads = sizes
    layout = {"size": size, "heads": heads, "value_dim": value_dim, "sum_heads": sum_heads}
    kernel = partial(attention_kernel.attend, **layout, interpret=interpret)
    xla = partial(attention.attend_xla, **layout)
    kernel, xla = (jax.jit(partial(value_and_gradient, each)) for each in (kernel, xla))
    return kernel, xla, random_inputs(*sizes)


@pytest.mark.parametrize("sizes", SIZES)
def test_the_kernels_compute_what_xla_computes(sizes):
    kernel, xla, inputs = both(sizes, interpret=True)
    for one, other in zip(kernel(*inputs), xla(*inputs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_the_kernels_can_be_batched_over_seeds():
    kernel, xla, inputs = both(SIZES[0], interpret=True)
    inputs = [jnp.stack([leaf, leaf[::-1]]) for leaf in inputs]
    for one, other in zip(jax.vmap(kernel)(*inputs), jax.vmap(xla)(*inputs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", SIZES)
def test_projections_may_be_bfloat16(sizes):
    kernel, xla, inputs = both(sizes, interpret=True)
    projections, masks, weight = inputs
    for one, other in zip(kernel(projections.astype(jnp.bfloat16), masks, weight), xla(*inputs), strict=True):
        assert one.dtype == jnp.bfloat16
        scale = float(jnp.abs(other).max())
        np.testing.assert_allclose(one.astype(jnp.float32) / scale, other / scale, atol=0.03)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("sizes", SIZES)
def test_the_kernels_can_be_lowered_for_a_gpu(sizes, dtype):
    kernel, _, (projections, *rest) = both(sizes, interpret=False)
    inputs = projections.astype(dtype), *rest
    assert "triton" in program_for_gpu(kernel, *inputs)


def test_the_kernels_need_a_gpu_and_block_sizes_that_triton_accepts():
    views = jnp.zeros((1, 2, 8, 16), bool)
    assert attention_kernel.fits(views, 64, 4, 16) == (jax.default_backend() == "gpu")
    for entities, value_dim in ((16, 4), (16, 13), (12, 16)):
        assert not attention_kernel.fits(views[..., :entities], 64, 4, value_dim)


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", SIZES)
def test_on_a_gpu_projections_may_be_bfloat16(sizes):
    kernel, xla, inputs = both(sizes, interpret=False)
    projections, masks, weight = inputs
    for one, other in zip(kernel(projections.astype(jnp.bfloat16), masks, weight), xla(*inputs), strict=True):
        scale = float(jnp.abs(other).max())
        np.testing.assert_allclose(one.astype(jnp.float32) / scale, other / scale, atol=0.03)


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [*SIZES, (3, 2416, 8, 16, 128, 4, 32, False), (2, 2400, 8, 16, 128, 4, 32, True)])
def test_on_a_gpu_the_kernels_compute_what_xla_computes(sizes):
    with jax.default_matmul_precision("highest"):
        kernel, xla, inputs = both(sizes, interpret=False)
        for one, other in zip(kernel(*inputs), xla(*inputs), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
