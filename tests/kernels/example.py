"""Small kernels and their translation."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.kernels.program import Block, Kernel, Options
from refil.kernels.source import KernelError
from tests.kernels import language


def sized(shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def kernel_of(body: Callable, *inputs, output=None, name="example") -> Kernel:
    """Return a kernel with a single program, which gets whole arrays; its result is by default like its first argument."""
    output = inputs[0] if output is None else output

    def whole(shape):
        return Block(shape, lambda i: (0,) * len(shape))

    blocks = [whole(each.shape) for each in (*inputs, output)]
    return Kernel(body, tuple(blocks[:-1]), (blocks[-1],), (output,), (1,), Options(name=name))


def source_of(body: Callable, *inputs, output=None) -> str:
    return kernel_of(body, *inputs, output=output).triton_source(inputs)


def assert_translates(function: Callable, *inputs, rtol=1e-6) -> None:
    """Check that a kernel that applies a function to whole arrays computes, when translated, what the function computes."""
    arrays = [jnp.asarray(each) for each in inputs]
    expected = jax.eval_shape(function, *arrays)

    def body(*references):
        references[-1][...] = function(*(each[...] for each in references[:-1]))

    kernel = kernel_of(body, *(sized(each.shape, each.dtype) for each in arrays), output=sized(expected.shape, expected.dtype))
    (result,) = language.run_kernel(kernel, arrays)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(np.asarray(result, np.float64), np.asarray(function(*arrays), np.float64), rtol=rtol, atol=1e-7)


def refuses(body: Callable, shape, words: str, dtype=jnp.float32) -> None:
    with pytest.raises(KernelError, match=words):
        source_of(body, sized(shape, dtype))
