"""Rows at indices that differ from column to column."""

import jax.numpy as jnp
import numpy as np
import pytest

from refil.kernels.gather import take_rows
from tests.kernels.example import assert_translates, sized, source_of

INDEX = np.array([[1, 0], [1, 3], [2, 2], [0, 1]], np.int32)


@pytest.mark.parametrize("values", [np.arange(8.0, dtype=np.float32), np.arange(8, dtype=np.int32), np.arange(8) % 3 == 0])
def test_every_column_has_its_own_index(values):
    values = values.reshape(4, 2)
    taken = take_rows(jnp.asarray(values), jnp.asarray(INDEX))
    assert taken.dtype == values.dtype
    np.testing.assert_array_equal(taken, np.take_along_axis(values, INDEX, axis=0))


def test_triton_gathers():
    assert_translates(take_rows, np.arange(8, dtype=np.float32).reshape(4, 2), INDEX)

    def kernel(inputs, outputs):
        outputs[...] = take_rows(inputs[...], inputs[...].astype(jnp.int32))

    assert source_of(kernel, sized((16,))).count("tl.gather") == 1
