"""The kernels against JAX's own products: here interpreted, on a GPU as they are."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn import attention
from refil.nn.kernels import attention as attention_kernel
from tests.gpu import program_for_gpu

SIZES = [  # views, instants, agents, entities, size, heads, columns of gains a head, whether heads are summed
    (3, 5, 8, 8, 64, 4, 16, False),
    (2, 3, 8, 16, 128, 4, 32, True),
    (1, 3, 4, 16, 64, 4, 1, True),  # which makes 132 columns, and four that do not count
    (2, 3, 2, 4, 32, 2, 16, False),
]


def inputs(views, instants, agents, entities, size, heads, gained, summed):
    """What is gathered from, drawn by chance; the first agent sees nothing in the first view."""
    keys = jax.random.split(jax.random.key(agents), 3)
    columns = 2 * size + heads * gained
    projected = jax.random.normal(keys[0], (instants, entities, columns + -columns % 8))
    seen = jax.random.bernoulli(keys[1], 0.5, (views, instants, agents, entities)).at[0, 0, 0].set(False)
    weight = jax.random.normal(keys[2], (views, instants, agents, gained if summed else heads * gained))
    return projected, seen, weight


def value_and_gradient(gather, projected, seen, weight):
    """What is gathered, and the gradient of its weighted sum."""
    gathered = gather(projected, seen)
    return gathered, jax.grad(lambda projected: (gather(projected, seen) * weight).sum())(projected)


def both(sizes, interpret):
    """The kernels' result and the plain one."""
    *_, size, heads, gained, summed = sizes
    given = inputs(*sizes)
    kernel = partial(attention_kernel.gather, size=size, heads=heads, gained=gained, summed=summed, interpret=interpret)
    plain = partial(attention.gather_plainly, size=size, heads=heads, gained=gained, summed=summed)
    kernel, plain = (jax.jit(partial(value_and_gradient, each)) for each in (kernel, plain))
    return kernel, plain, given


@pytest.mark.parametrize("sizes", SIZES)
def test_the_kernels_do_what_the_products_do(sizes):
    kernel, plain, given = both(sizes, interpret=True)
    for one, other in zip(kernel(*given), plain(*given), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_seeds_side_by_side():
    kernel, plain, given = both(SIZES[0], interpret=True)
    given = [jnp.stack([leaf, leaf[::-1]]) for leaf in given]
    for one, other in zip(jax.vmap(kernel)(*given), jax.vmap(plain)(*given), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", SIZES)
def test_rows_may_be_bf16(sizes):
    kernel, plain, given = both(sizes, interpret=True)
    projected, seen, weight = given
    for one, other in zip(kernel(projected.astype(jnp.bfloat16), seen, weight), plain(*given), strict=True):
        assert one.dtype == jnp.bfloat16
        scale = float(jnp.abs(other).max())
        np.testing.assert_allclose(one.astype(jnp.float32) / scale, other / scale, atol=0.03)


@pytest.mark.parametrize("kind", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("sizes", SIZES)
def test_the_kernels_can_be_written_for_a_gpu(sizes, kind):
    kernel, _, (projected, *rest) = both(sizes, interpret=False)
    given = projected.astype(kind), *rest
    assert "triton" in program_for_gpu(kernel, *given)


def test_a_cpu_and_odd_sizes_have_the_plain_products():
    views = jnp.zeros((1, 2, 8, 16), bool)
    assert attention_kernel.fits(views, 64, 4, 16) == (jax.default_backend() == "gpu")
    for entities, gained in ((16, 4), (16, 13), (12, 16)):
        assert not attention_kernel.fits(views[..., :entities], 64, 4, gained)


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", SIZES)
def test_on_a_gpu_rows_may_be_bf16(sizes):
    kernel, plain, given = both(sizes, interpret=False)
    projected, seen, weight = given
    for one, other in zip(kernel(projected.astype(jnp.bfloat16), seen, weight), plain(*given), strict=True):
        scale = float(jnp.abs(other).max())
        np.testing.assert_allclose(one.astype(jnp.float32) / scale, other / scale, atol=0.03)


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [*SIZES, (3, 2416, 8, 16, 128, 4, 32, False), (2, 2400, 8, 16, 128, 4, 32, True)])
def test_on_a_gpu_too(sizes):
    with jax.default_matmul_precision("highest"):
        kernel, plain, given = both(sizes, interpret=False)
        for one, other in zip(kernel(*given), plain(*given), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
