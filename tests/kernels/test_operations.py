"""Every operation computes in Triton's language what it computes in JAX."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.kernels import operations
from tests.kernels.example import assert_translates, refuses

FLOATS = np.array([-3.5, -1.0, -0.25, 0.0, 0.5, 1.0, 2.0, 7.5] * 2, np.float32)
POSITIVE = np.geomspace(0.01, 90, 16, dtype=np.float32)
INTEGERS = np.array([-7, -2, -1, 0, 1, 2, 5, 9] * 2, np.int32)
MATRIX = np.sin(np.arange(256, dtype=np.float32)).reshape(16, 16)

OF_ONE = {
    "neg": (lambda x: -x, FLOATS),
    "abs": (jnp.abs, FLOATS),
    "square": (jnp.square, FLOATS),
    "exp": (jnp.exp, FLOATS),
    "log": (jnp.log, POSITIVE),
    "sqrt": (jnp.sqrt, POSITIVE),
    "rsqrt": (jax.lax.rsqrt, POSITIVE),
    "sin": (jnp.sin, FLOATS),
    "cos": (jnp.cos, FLOATS),
    "tanh": (jnp.tanh, FLOATS),
    "floor": (jnp.floor, FLOATS),
    "ceil": (jnp.ceil, FLOATS),
    "logistic": (jax.nn.sigmoid, FLOATS),
    "sign": (jnp.sign, FLOATS),
    "population_count": (jax.lax.population_count, INTEGERS),
    "stop_gradient": (jax.lax.stop_gradient, FLOATS),
    "not": (lambda x: (~(x > 0)).astype(jnp.int32), INTEGERS),
    "integer_pow": (lambda x: x**3, FLOATS),
    "clamp": (lambda x: jnp.clip(x, -1.0, 2.0), FLOATS),
    "convert": (lambda x: x.astype(jnp.int32), FLOATS),
    "to bool": (lambda x: x.astype(bool).astype(jnp.int32), INTEGERS),
    "transpose": (lambda x: x.T, MATRIX),
    "reshape": (lambda x: x.reshape(4, 64), MATRIX),
    "sum": (lambda x: jnp.sum(x, axis=1), MATRIX),
    "sum of two axes": (lambda x: jnp.broadcast_to(jnp.sum(x), (16,)), MATRIX),
    "max": (lambda x: jnp.max(x, axis=0), MATRIX),
    "min": (lambda x: jnp.min(x, axis=0), MATRIX),
    "argmax": (lambda x: jnp.argmax(x, axis=1).astype(jnp.int32), MATRIX),
    "argmin": (lambda x: jnp.argmin(x, axis=0).astype(jnp.int32), MATRIX),
    "iota": (lambda x: x + jax.lax.broadcasted_iota(jnp.float32, (16, 16), 1), MATRIX),
    "broadcast": (lambda x: jnp.broadcast_to(x[:, None], (16, 4)), FLOATS),
}
OF_TWO = {
    "add": jnp.add,
    "sub": jnp.subtract,
    "mul": jnp.multiply,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "eq": lambda x, y: jnp.where(x == y, 1.0, 2.0),
    "lt": lambda x, y: jnp.where(x < y, 1.0, 2.0),
    "ge": lambda x, y: jnp.where((x >= y) & (x != 0) | (y > x), x, y),
}


@pytest.mark.parametrize("name", OF_ONE)
def test_operations_on_one_array(name):
    assert_translates(*OF_ONE[name], rtol=2e-6)


@pytest.mark.parametrize("name", OF_TWO)
def test_operations_on_two_arrays(name):
    assert_translates(OF_TWO[name], FLOATS, FLOATS[::-1].copy())


def test_division_of_floats_and_of_integers():
    assert_translates(jnp.divide, FLOATS, POSITIVE)
    assert_translates(lambda x: jax.lax.div(x, jnp.full_like(x, 2)), abs(INTEGERS))
    assert_translates(lambda x: jax.lax.rem(x, jnp.full_like(x, 3)), abs(INTEGERS))


@pytest.mark.parametrize("axes", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_products_of_matrices_along_any_axes(axes):
    product = partial(jax.lax.dot_general, dimension_numbers=(((axes[0],), (axes[1],)), ((), ())))
    assert_translates(product, MATRIX, MATRIX + 1, rtol=2e-5)


def test_products_are_exact_if_asked_for():
    inputs = operations.Value("x", (16, 16), np.dtype("float32"))
    params = {"dimension_numbers": (((1,), (0,)), ((), ())), "precision": (jax.lax.Precision.HIGHEST,) * 2}
    aval = jax.ShapeDtypeStruct((16, 16), jnp.float32)
    assert 'input_precision="ieee"' in operations.expression("dot_general", params, [inputs, inputs], aval)
    params["precision"] = None
    assert "input_precision" not in operations.expression("dot_general", params, [inputs, inputs], aval)


def test_products_with_batches_and_negative_powers_are_refused():
    def batched(inputs, outputs):
        outputs[...] = jnp.einsum("bij,bjk->bik", inputs[...], inputs[...])

    def inverse(inputs, outputs):
        outputs[...] = jax.lax.integer_pow(inputs[...], -1)

    refuses(batched, (2, 16, 16), "not two matrices")
    refuses(inverse, (16,), "to the power of -1")
