"""The source of a kernel in Triton's language."""

import jax.numpy as jnp
import pytest

from refil.kernels.program import Block, Kernel, Options
from refil.kernels.source import KernelError
from tests.kernels.example import kernel_of, refuses, sized, source_of


def test_the_source_is_readable():
    def double(inputs, outputs):
        outputs[...] = 2 * inputs[...]

    assert (
        source_of(double, sized((16,)))
        == """\
def example(array_0, array_1):
    rest = tl.program_id(0)
    v0 = rest % 1
    rest = rest // 1
    v1 = array_0
    v2 = array_1
    v3 = v1 + tl.arange(0, 16)
    v4 = tl.load(v3)
    v5 = tl.cast(2.0, tl.float32) * v4
    v6 = v2 + tl.arange(0, 16)
    tl.store(v6, v5)
"""
    )


def copy(inputs, outputs):
    outputs[...] = inputs[...]


def rows(count, options=Options(name="rows")):  # noqa: B008 (a tuple)
    """A kernel whose programs get a row each."""
    block, shape = Block((None, 16), lambda row: (row, 0)), sized((count, 16))
    return Kernel(copy, (block,), (block,), (shape,), (count,), options)


def test_offsets_into_large_arrays_have_64_bits():
    large, small = rows(2**28), rows(8)
    assert ".to(tl.int64) * 16" in large.triton_source(large.out_shape)
    assert "int64" not in small.triton_source(small.out_shape)


def test_a_batched_kernel_has_an_axis_more_in_its_grid_and_in_batched_arrays():
    kernel = rows(8).batched(3, [False])
    assert kernel.grid == (3, 8)
    assert kernel.out_shape[0].shape == (3, 8, 16)
    assert kernel.in_blocks[0].index_map(2, 5) == (5, 0)
    assert kernel.out_blocks[0].index_map(2, 5) == (2, 5, 0)
    assert kernel.in_blocks[0].shape == (None, 16)
    assert kernel.out_blocks[0].shape == (None, None, 16)


def test_a_kernel_without_a_name_is_called_like_its_function():
    assert rows(1, Options()).name == "copy"


def test_types_that_triton_does_not_have_are_refused():
    refuses(copy, (16,), "values of type complex64", jnp.complex64)


def test_errors_name_the_kernel():
    with pytest.raises(KernelError, match=r"^the GPU kernel sums uses cumsum, which is not supported$"):
        kernel_of(
            lambda inputs, outputs: outputs.__setitem__(..., jnp.cumsum(inputs[...])), sized((16,)), name="sums"
        ).triton_source([sized((16,))])
