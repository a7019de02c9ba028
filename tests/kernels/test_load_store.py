"""Indices into references select the same elements as in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from refil.kernels import load_store
from refil.kernels.call import load, store
from refil.kernels.source import Reference, Source, Value
from tests.kernels import language
from tests.kernels.example import kernel_of, refuses, sized

INPUTS = np.arange(512, dtype=np.float32).reshape(2, 16, 16)
INDICES = {
    "all": lambda ref: ref[...],
    "one row": lambda ref: ref[1],
    "a slice of columns": lambda ref: ref[0, :, pl.ds(4, 8)],
    "a slice that starts at a computed place": lambda ref: ref[0, :, pl.ds(jnp.int32(2) * 3, 8)],
    "every other row": lambda ref: ref[1, pl.ds(0, 8, 2), :],
    "rows of an array": lambda ref: ref[0, jnp.arange(16)[::1] * 0 + 3],
}


@pytest.mark.parametrize("name", INDICES)
def test_loads(name):
    index = INDICES[name]

    def body(inputs, outputs):
        outputs[...] = index(inputs)

    expected = {
        "all": INPUTS,
        "one row": INPUTS[1],
        "a slice of columns": INPUTS[0, :, 4:12],
        "a slice that starts at a computed place": INPUTS[0, :, 6:14],
        "every other row": INPUTS[1, ::2],
        "rows of an array": INPUTS[0, [3] * 16],
    }[name]
    kernel = kernel_of(body, sized(INPUTS.shape), output=sized(expected.shape))
    np.testing.assert_array_equal(language.run_kernel(kernel, [INPUTS])[0], expected)


def test_masked_loads_and_stores_touch_only_what_the_mask_selects():
    def body(inputs, outputs):
        row, column = jnp.arange(16)[:, None], jnp.arange(16)[None, :]
        mask = jnp.broadcast_to(row + column < 5, (16, 16))
        store(outputs.at[row, column], load(inputs.at[1, row, column], mask=mask, other=0.0) + 1, mask=row <= column)

    result = language.run_kernel(kernel_of(body, sized(INPUTS.shape), output=sized((16, 16))), [INPUTS])[0]
    row, column = np.indices((16, 16))
    expected = np.where(row <= column, np.where(row + column < 5, INPUTS[1], 0) + 1, 0)
    np.testing.assert_array_equal(result, expected)


def test_a_reference_is_indexed_once():
    def body(inputs, outputs):
        outputs[pl.ds(0, 8)] = inputs.at[pl.ds(0, 16)].at[pl.ds(0, 8)][...]

    refuses(body, (32,), "index it once")


def test_stores_without_a_mask_write_every_element():
    lines, value = Source(), Value("x", (16,), np.dtype("float32"))
    tree = jax.tree.structure(())
    load_store.store("swap", {"tree": tree}, [Reference("p", (16,), (1,)), value], lines)
    assert lines.lines == ["    v0 = p + tl.arange(0, 16)", "    tl.store(v0, x)"]
