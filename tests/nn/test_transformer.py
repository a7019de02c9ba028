"""UPDeT's network in bf16; tests/methods compares its equations with NumPy."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn.transformer import updet_utility
from refil.nn.utilities import unroll
from tests.tiny_methods import SPECS, random_batch


@pytest.mark.slow
def test_the_gradient_of_many_equal_timesteps_is_that_of_one_times_their_number_in_bf16():
    """The gradient of the weights is summed over time in float32: a sum in bf16 would stop growing."""
    spec = SPECS[1]
    utility = updet_utility(spec, 8, 2, 1, False, jax.random.key(0))
    batch = random_batch(spec, 0)
    one = jax.tree.map(lambda leaf: leaf[:1, :1], batch.observations)
    one = replace(one, entities=one.entities.astype(jnp.bfloat16))

    def gradient(timesteps: int):
        obs = jax.tree.map(lambda leaf: jnp.repeat(leaf, timesteps, axis=1), one)  # all of them are first timesteps
        repeated = replace(batch, observations=obs)
        working = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), utility)
        return jax.jit(jax.grad(lambda utility: unroll(utility, repeated).sum()))(working)

    for alone, many in zip(*map(jax.tree.leaves, (gradient(1), gradient(512))), strict=True):
        alone, many = np.asarray(alone, np.float32), np.asarray(many, np.float32) / 512
        assert np.linalg.norm(many - alone) <= 0.03 * np.linalg.norm(alone)
