"""The kernels of UPDeT's memory token against the same scans in XLA: interpreted on CPUs, compiled on GPUs."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn import memory_token
from refil.nn.kernels import updet
from refil.nn.memory_token import Layers
from tests.gpu import program_for_gpu
from tests.nn.test_memory_token import assert_close, random_inputs, random_utility
from tests.slow import all_but

# Views, (time, rows, agents, entities), size, heads, depth; the kernels pad 5 tokens to 16, and 17 to 32.
SIZES = [(2, (5, 2, 2, 4), 16, 2, 2), (1, (3, 1, 2, 16), 32, 3, 2), (1, (3, 1, 2, 5), 16, 1, 1), (1, (3, 1, 1, 4), 16, 1, 3)]


def random_arguments(views, sizes, size, heads, depth, dtype=jnp.float32):
    """Layers, inputs, where episodes begin, memory to start from, and a gradient of the tokens that the last block reads."""
    utility = random_utility(size, heads, depth)
    inputs, is_first, start = random_inputs(views, sizes, size)
    gradient = jax.random.normal(jax.random.key(5), (views, *sizes[:-1], sizes[-1] + 1, size))
    cast = partial(jax.tree.map, lambda leaf: leaf.astype(dtype) if leaf.dtype == jnp.float32 else leaf)
    return cast((Layers(utility.blocks, utility.output), inputs)), is_first, start, cast(gradient)


def forward_and_backward(forward, backward, arguments):
    """The results of both scans; the second continues from what the first one returns."""
    (layers, inputs), is_first, start, gradient = arguments
    tokens, previous = forward(layers, inputs, is_first, start)
    return tokens, previous, backward(layers, inputs, is_first, previous, gradient)


def plain(arguments):
    return jax.jit(partial(forward_and_backward, memory_token.memory_steps, memory_token.memory_scan_backward))(arguments)


def interpreted(arguments):
    kernels = (partial(kernel, interpret=True) for kernel in (updet.forward, updet.backward))
    return jax.jit(partial(forward_and_backward, *kernels))(arguments)


def distances(ours, theirs):
    """How far results are apart, relative to their size."""
    ours, theirs = ([np.asarray(leaf, np.float32) for leaf in leaves] for leaves in (ours, theirs))
    return [np.linalg.norm(one - other) / np.linalg.norm(other) for one, other in zip(ours, theirs, strict=True)]


@pytest.mark.parametrize("sizes", all_but((SIZES[0],), SIZES))
def test_each_kernel_computes_what_its_scan_computes(sizes):
    arguments = random_arguments(*sizes)
    assert_close(interpreted(arguments), plain(arguments))


@pytest.mark.slow
def test_inputs_may_be_bfloat16():
    rounded, exact = (random_arguments(*SIZES[0], dtype) for dtype in (jnp.bfloat16, jnp.float32))
    results, expected = interpreted(rounded), plain(exact)
    assert all(leaf.dtype == jnp.bfloat16 for leaf in results)
    assert max(distances(results, expected)) < 0.1


@pytest.mark.slow
def test_the_kernels_can_be_batched_over_seeds():
    arguments = random_arguments(*SIZES[0])
    both = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf[::-1]]), arguments)
    assert_close(jax.vmap(interpreted)(both), jax.vmap(plain)(both))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_the_kernels_can_be_lowered_for_a_gpu(dtype):
    arguments = random_arguments(*SIZES[1], dtype)
    program = program_for_gpu(partial(forward_and_backward, updet.forward, updet.backward), arguments)
    assert "_forward_program" in program
    assert "_backward_program" in program


def test_the_kernels_need_a_gpu_and_tokens_whose_size_is_a_power_of_two():
    (layers, inputs), *_ = random_arguments(*SIZES[0])
    assert jax.default_backend() == "gpu" or not updet.fits(layers, inputs)
    assert not updet.fits(None, random_inputs(1, (2, 1, 1, 4), 24)[0])


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [*SIZES, (1, (151, 22, 8, 16), 32, 3, 2), (3, (33, 40, 8, 16), 32, 3, 2)])
def test_on_a_gpu_each_kernel_computes_what_its_scan_computes(sizes):
    kernels = jax.jit(partial(forward_and_backward, updet.forward, updet.backward))
    with jax.default_matmul_precision("highest"):
        arguments = random_arguments(*sizes)
        expected = plain(arguments)
        assert max(distances(kernels(arguments), expected)) < 1e-4
    assert max(distances(kernels(random_arguments(*sizes, jnp.bfloat16)), expected)) < 0.1
