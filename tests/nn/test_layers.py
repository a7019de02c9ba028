"""Layers against their equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn.layers import (
    ALIGNMENT,
    add_bias,
    chunk_count,
    linear,
    masked_softmax,
    matmul,
    mlp,
    pad_and_merge_bias,
    relu,
    split_k_matmul,
    weight_gradient,
)
from tests.gpu import pretend_backend

LOGITS = jnp.array([[1.0, 2.0, 3.0], [0.5, -0.5, 0.0]])


def test_weights_are_initialized_within_one_over_the_root_of_the_fan_in():
    layer = linear(25, 400, jax.random.key(0))
    for leaf in (layer.weight, layer.bias):
        assert float(jnp.abs(leaf).max()) <= 0.2
        np.testing.assert_allclose(leaf.std(), 0.2 / np.sqrt(3), rtol=0.1)


def test_masked_softmax_normalizes_over_the_entries_of_the_mask():
    mask = jnp.array([[True, False, True], [True, True, True]])
    weights = masked_softmax(LOGITS, mask)
    np.testing.assert_allclose(weights[0], [1 / (1 + np.e**2), 0, np.e**2 / (1 + np.e**2)], rtol=1e-6)
    np.testing.assert_allclose(weights[1], np.exp(LOGITS[1]) / np.exp(LOGITS[1]).sum(), rtol=1e-6)


def test_an_empty_mask_makes_softmax_and_gradient_zero():
    empty = jnp.zeros((2, 3), bool)
    assert not np.asarray(masked_softmax(LOGITS, empty)).any()
    assert not np.asarray(jax.grad(lambda logits: masked_softmax(logits, empty).sum())(LOGITS)).any()


def test_masked_softmax_keeps_the_dtype_of_its_logits():
    assert masked_softmax(LOGITS.astype(jnp.bfloat16), jnp.ones((2, 3), bool)).dtype == jnp.bfloat16


def test_relu_and_its_gradient_equal_those_of_jax():
    inputs = jnp.array([-2.0, -0.0, 0.0, 1e-30, 3.0, jnp.inf, -jnp.inf])
    for ours, theirs in ((relu, jax.nn.relu), (jax.vmap(jax.grad(relu)), jax.vmap(jax.grad(jax.nn.relu)))):
        np.testing.assert_array_equal(ours(inputs), theirs(inputs))
    assert relu(inputs.astype(jnp.bfloat16)).dtype == jnp.bfloat16


def test_composing_two_linear_layers_equals_applying_both():
    first, second = linear(3, 5, jax.random.key(0)), linear(5, 2, jax.random.key(1))
    inputs = jax.random.normal(jax.random.key(2), (4, 6, 3))
    np.testing.assert_allclose(first.compose(second)(inputs), second(first(inputs)), atol=1e-6)


def test_an_mlp_has_a_relu_between_layers_and_none_at_the_end():
    net = mlp((3, 5, 4, 2), jax.random.key(0))
    inputs = jax.random.normal(jax.random.key(1), (6, 3))
    assert [layer.weight.shape for layer in net.layers] == [(3, 5), (5, 4), (4, 2)]
    first, second, last = net.layers
    expected = last(jnp.maximum(second(jnp.maximum(first(inputs), 0)), 0))
    np.testing.assert_array_equal(net(inputs), expected)
    assert float(expected.min()) < 0


def test_a_product_of_bfloat16_can_return_float32_and_has_the_same_gradients():
    inputs, weight = (jax.random.normal(key, (6, 6)).astype(jnp.bfloat16) for key in jax.random.split(jax.random.key(0)))
    exact = matmul(inputs, weight, jnp.float32)
    np.testing.assert_array_equal(exact, inputs.astype(jnp.float32) @ weight.astype(jnp.float32))
    gradients = [
        jax.grad(lambda *factors, dtype=dtype: matmul(*factors, dtype).sum(dtype=jnp.float32), argnums=(0, 1))(inputs, weight)
        for dtype in (None, jnp.float32)
    ]
    jax.tree.map(np.testing.assert_array_equal, *gradients)


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_the_gradient_of_a_bias_is_accumulated_in_float32(shape):
    inputs, bias = jnp.zeros((5000, 2, 3), jnp.bfloat16), jnp.ones(shape, jnp.bfloat16)
    outputs, backward = jax.vjp(add_bias, inputs, bias)
    np.testing.assert_array_equal(outputs, inputs + bias)
    by_inputs, by_bias = backward(jnp.full_like(inputs, 0.5))
    np.testing.assert_array_equal(by_inputs, jnp.full_like(inputs, 0.5))
    np.testing.assert_array_equal(by_bias, jnp.full(shape, 2500 * 6 / np.prod(shape), jnp.bfloat16))


@pytest.mark.parametrize("batch", [(60,), (4, 15)])
def test_matmul_and_its_gradient_equal_those_of_jax(batch):
    keys = jax.random.split(jax.random.key(0), 3)
    factors = jax.random.normal(keys[0], (*batch, 5)), jax.random.normal(keys[1], (5, 3))
    gradient = jax.random.normal(keys[2], (*batch, 3))
    ours, theirs = (jax.vjp(product, *factors) for product in (matmul, jnp.matmul))
    np.testing.assert_array_equal(ours[0], theirs[0])
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5), ours[1](gradient), theirs[1](gradient)
    )


@pytest.mark.parametrize("size", [5, 7, 8, 15])  # padding left over, exactly filled by the bias, one more block for the bias
def test_merging_the_bias_into_the_weight_changes_neither_output_nor_gradient(size):
    layer, inputs = linear(size, 3, jax.random.key(0)), jax.random.normal(jax.random.key(1), (4, 6, size))
    factors = pad_and_merge_bias(inputs, layer.weight, layer.bias)
    assert factors[0].shape[-1] == len(factors[1]) == -(-(size + 1) // ALIGNMENT) * ALIGNMENT
    np.testing.assert_allclose(matmul(*factors), layer(inputs), atol=1e-6)

    def merged(layer, inputs):
        return (matmul(*pad_and_merge_bias(inputs, layer.weight, layer.bias)) ** 2).sum()

    def separate(layer, inputs):
        return ((inputs @ layer.weight + layer.bias) ** 2).sum()

    ours, theirs = (jax.grad(total, argnums=(0, 1))(layer, inputs) for total in (merged, separate))
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4), ours, theirs)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_a_linear_layer_computes_the_same_on_a_gpu(dtype, monkeypatch):
    """Two seeds, with an input size that is not a multiple of the alignment."""
    layers = jax.vmap(lambda key: linear(5, 3, key))(jax.random.split(jax.random.key(0), 2))
    layers, inputs = jax.tree.map(lambda leaf: leaf.astype(dtype), (layers, jax.random.normal(jax.random.key(1), (2, 6, 5))))

    def value_and_gradient(layers):
        return jax.vmap(jax.value_and_grad(lambda layer, inputs: (layer(inputs).astype(jnp.float32) ** 2).sum()))(
            layers, inputs
        )

    cpu = value_and_gradient(layers)
    pretend_backend(monkeypatch, "gpu")
    gpu = value_and_gradient(layers)
    assert [leaf.dtype for leaf in jax.tree.leaves(gpu)] == [leaf.dtype for leaf in jax.tree.leaves(cpu)]
    tolerance = 1e-5 if dtype == jnp.float32 else 0.03
    for one, other in zip(jax.tree.leaves(gpu), jax.tree.leaves(cpu), strict=True):
        one, other = (np.asarray(each, np.float32) for each in (one, other))
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * np.abs(other).max())


@pytest.mark.parametrize("rows", [1, 60, 67, 192, 2 * 131])  # fewer than splits, many divisors, a prime, more, few divisors
def test_partial_products_add_up_to_the_whole_product(rows):
    left, right = (jax.random.normal(jax.random.key(width), (rows, width)) for width in (5, 3))
    np.testing.assert_allclose(split_k_matmul(left, right), np.asarray(left).T @ np.asarray(right), rtol=1e-4, atol=1e-5)


def test_chunks_of_many_rows_and_few_columns_are_aligned():
    assert chunk_count(2688 * 16, 32, 64) == 64
    assert chunk_count(151 * 22 * 8 * 17, 32, 64) == 2 * 11 * 17  # 1208 rows each
    assert chunk_count(151 * 22 * 8 * 17, 64, 64) == 44


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("inputs", "outputs", "splits"), [(4, 3, 64), (128, 256, 12)])
def test_large_products_in_a_batch_are_split_less(inputs, outputs, splits, shared):
    left, right = (jax.random.normal(jax.random.key(width), (5, 192, width)) for width in (inputs, outputs))
    left, in_axes = (left[0], (None, 0)) if shared else (left, (0, 0))
    batched = jax.vmap(split_k_matmul, in_axes=in_axes)
    expected = np.einsum("ri,nro->nio" if shared else "nri,nro->nio", left, right)
    np.testing.assert_allclose(batched(left, right), expected, rtol=1e-4, atol=1e-4)
    assert f"{splits},{192 // splits},{inputs}]" in str(jax.make_jaxpr(batched)(left, right))
    assert f"64,3,{inputs}]" in str(jax.make_jaxpr(split_k_matmul)(left if shared else left[0], right[0]))


@pytest.mark.parametrize("product", [weight_gradient, split_k_matmul])
def test_weight_gradients_are_accumulated_in_float32(product):
    many = jnp.full((64 * 300, 1), 1 + 2**-7, jnp.bfloat16)  # a bfloat16 sum of these would stop growing at 256
    np.testing.assert_allclose(product(many, many)[0, 0], 64 * 300 * (1 + 2**-7) ** 2, rtol=1e-5)
