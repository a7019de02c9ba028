"""UPDeT's network by itself; its equations are held to in tests/methods."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from refil.nn.transformer import updet_utility
from tests.test_methods import SPECS, random_episodes


def test_in_bf16_too_many_instants_have_as_many_times_the_gradient():
    spec = SPECS[1]
    utility = updet_utility(spec, 8, 2, 1, False, jax.random.key(0))
    seen = jax.tree.map(lambda leaf: leaf[:1, :1], random_episodes(spec, 0).observations)
    seen = replace(seen, entities=seen.entities.astype(jnp.bfloat16), last_action=jnp.full_like(seen.last_action, -1))

    def gradient(instants: int):
        obs = jax.tree.map(lambda leaf: jnp.repeat(leaf, instants, axis=1), seen)  # all of them first ones
        working = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), utility)
        return jax.jit(jax.grad(lambda utility: utility.unroll(obs, obs.visible[None])[0].sum()))(working)

    for one, many in zip(*map(jax.tree.leaves, (gradient(1), gradient(512))), strict=True):
        one, many = np.asarray(one, np.float32), np.asarray(many, np.float32) / 512
        assert np.linalg.norm(many - one) <= 0.03 * np.linalg.norm(one)
