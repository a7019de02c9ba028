"""A transformer block; tests/methods/test_updet.py compares its equations with NumPy."""

import jax
import jax.numpy as jnp
import numpy as np

from refil.nn import block


def test_the_result_for_the_last_token_is_that_of_the_whole_block():
    layer = block.block(8, 3, jax.random.key(0))
    tokens = jax.random.normal(jax.random.key(1), (2, 5, 4, 8))
    visible = jax.random.bernoulli(jax.random.key(2), 0.5, (2, 5, 4)).at[..., -1].set(True)
    np.testing.assert_allclose(layer.last(tokens, visible), layer(tokens, visible)[..., -1:, :], atol=1e-5)
    assert jnp.shape(layer.last(tokens, visible)) == (2, 5, 1, 8)
