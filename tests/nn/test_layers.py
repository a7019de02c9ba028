"""Layers against their equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn.layers import (
    ALIGNED,
    aligned,
    columns_together,
    in_pieces,
    layer_norm,
    linear,
    multiply,
    multiply_flat,
    plus,
    relu,
)


def test_layers_begin_within_one_over_the_root_of_the_fan_in():
    layer = linear(25, 400, jax.random.key(0))
    for leaf in (layer.weight, layer.bias):
        assert float(jnp.abs(leaf).max()) <= 0.2
        np.testing.assert_allclose(leaf.std(), 0.2 / np.sqrt(3), rtol=0.1)


def test_relu_is_jaxs_and_its_gradient_too():
    rows = jnp.array([-2.0, -0.0, 0.0, 1e-30, 3.0, jnp.inf, -jnp.inf])
    for ours, theirs in ((relu, jax.nn.relu), (jax.vmap(jax.grad(relu)), jax.vmap(jax.grad(jax.nn.relu)))):
        np.testing.assert_array_equal(ours(rows), theirs(rows))
    assert relu(rows.astype(jnp.bfloat16)).dtype == jnp.bfloat16


def test_two_linear_layers_are_one():
    first, second = linear(3, 5, jax.random.key(0)), linear(5, 2, jax.random.key(1))
    rows = jax.random.normal(jax.random.key(2), (4, 6, 3))
    np.testing.assert_allclose(first.then(second)(rows), second(first(rows)), atol=1e-6)


def test_a_layer_norm_is_pytorchs():
    rows = jax.random.normal(jax.random.key(0), (3, 8)) * 5 + 2
    normed = layer_norm(8)(rows)
    np.testing.assert_allclose(normed.mean(axis=-1), 0, atol=1e-6)
    np.testing.assert_allclose(
        normed, (rows - rows.mean(-1, keepdims=True)) / jnp.sqrt(rows.var(-1, keepdims=True) + 1e-5), atol=1e-5
    )


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_what_is_added_to_all_rows_has_jaxs_gradient_summed_up_exactly(shape):
    rows, added = jnp.zeros((5000, 2, 3), jnp.bfloat16), jnp.ones(shape, jnp.bfloat16)
    result, back = jax.vjp(plus, rows, added)
    np.testing.assert_array_equal(result, rows + added)
    by_rows, by_added = back(jnp.full_like(rows, 0.5))
    np.testing.assert_array_equal(by_rows, jnp.full_like(rows, 0.5))
    np.testing.assert_array_equal(by_added, jnp.full(shape, 2500 * 6 / np.prod(shape), jnp.bfloat16))


def test_a_products_gradient_is_jaxs_own():
    keys = jax.random.split(jax.random.key(0), 3)
    given = jax.random.normal(keys[0], (60, 5)), jax.random.normal(keys[1], (5, 3))
    by = jax.random.normal(keys[2], (60, 3))
    ours, theirs = (jax.vjp(product, *given) for product in (multiply_flat, jnp.matmul))
    np.testing.assert_array_equal(ours[0], theirs[0])
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5), ours[1](by), theirs[1](by))


@pytest.mark.parametrize("inputs", [5, 7, 8, 15])  # room to spare, just enough, none
def test_a_bias_may_be_a_row_of_the_weights(inputs):
    layer, rows = linear(inputs, 3, jax.random.key(0)), jax.random.normal(jax.random.key(1), (4, 6, inputs))
    wide = aligned(rows, layer.weight, layer.bias)
    assert wide[0].shape[-1] == len(wide[1]) == -(-(inputs + 1) // ALIGNED) * ALIGNED
    np.testing.assert_allclose(multiply(*wide), layer(rows), atol=1e-6)

    def ours(layer, rows):
        return (multiply(*aligned(rows, layer.weight, layer.bias)) ** 2).sum()

    def theirs(layer, rows):
        return ((rows @ layer.weight + layer.bias) ** 2).sum()

    ours, theirs = (jax.grad(total, argnums=(0, 1))(layer, rows) for total in (ours, theirs))
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4), ours, theirs)


@pytest.mark.parametrize("kind", [jnp.float32, jnp.bfloat16])
def test_a_layer_is_the_same_on_a_gpu(kind, monkeypatch):
    """Two seeds of it, on rows whose width is none that a GPU likes."""
    layers = jax.vmap(lambda key: linear(5, 3, key))(jax.random.split(jax.random.key(0), 2))
    layers, rows = jax.tree.map(lambda leaf: leaf.astype(kind), (layers, jax.random.normal(jax.random.key(1), (2, 6, 5))))

    def value_and_gradient(layers):
        return jax.vmap(jax.value_and_grad(lambda layer, rows: (layer(rows).astype(jnp.float32) ** 2).sum()))(layers, rows)

    here = value_and_gradient(layers)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    there = value_and_gradient(layers)
    assert [leaf.dtype for leaf in jax.tree.leaves(there)] == [leaf.dtype for leaf in jax.tree.leaves(here)]
    tolerance = 1e-5 if kind == jnp.float32 else 0.03
    for one, other in zip(jax.tree.leaves(there), jax.tree.leaves(here), strict=True):
        one, other = (np.asarray(each, np.float32) for each in (one, other))
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * np.abs(other).max())


@pytest.mark.parametrize("rows", [1, 60, 67, 192, 2 * 131])  # fewer than pieces, many divisors, a prime, more, few divisors
def test_pieces_come_to_the_whole(rows):
    one, other = (jax.random.normal(jax.random.key(width), (rows, width)) for width in (5, 3))
    np.testing.assert_allclose(in_pieces(one, other), np.asarray(one).T @ np.asarray(other), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("few", "some", "pieces"), [(4, 3, 64), (128, 256, 12)])
def test_of_many_side_by_side_large_sums_are_made_in_fewer_pieces(few, some, pieces, shared):
    one, other = (jax.random.normal(jax.random.key(width), (5, 192, width)) for width in (few, some))
    one, axes = (one[0], (None, 0)) if shared else (one, (0, 0))
    together = jax.vmap(in_pieces, in_axes=axes)
    expected = np.einsum("rf,nrs->nfs" if shared else "nrf,nrs->nfs", one, other)
    np.testing.assert_allclose(together(one, other), expected, rtol=1e-4, atol=1e-4)
    assert f"{pieces},{192 // pieces},{few}]" in str(jax.make_jaxpr(together)(one, other))
    assert f"64,3,{few}]" in str(jax.make_jaxpr(in_pieces)(one if shared else one[0], other[0]))


@pytest.mark.parametrize("add_up", [columns_together, in_pieces])
def test_columns_come_together_in_float32(add_up):
    many = jnp.full((64 * 300, 1), 1 + 2**-7, jnp.bfloat16)  # added up in bfloat16, these would stop growing at 256
    np.testing.assert_allclose(add_up(many, many)[0, 0], 64 * 300 * (1 + 2**-7) ** 2, rtol=1e-5)
