"""Partitions and the views they make."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from refil.envs import group_matching
from refil.learning import partitions


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), agents=st.integers(1, 4), others=st.integers(0, 4), groups=st.integers(1, 4))
def test_the_two_views_partition_what_is_seen(seed, agents, others, groups):
    draw = np.random.default_rng(seed)
    seen = jnp.asarray(draw.random((agents, agents + others)) < 0.7)
    side = partitions.random_sides(agents + others, groups, jax.random.key(seed))
    within, across = partitions.views(side, seen)
    assert ((within | across) == seen).all()
    assert not (within & across).any()
    assert (within[jnp.arange(agents), jnp.arange(agents)] == seen[jnp.arange(agents), jnp.arange(agents)]).all()
    assert ((side >= 0) & (side < groups)).all()


def test_two_groups_make_every_size_of_group_equally_likely():
    draw = jax.vmap(lambda key: partitions.random_sides(5, 2, key).sum())
    sizes = np.bincount(draw(jax.random.split(jax.random.key(0), 30_000)), minlength=6) / 30_000
    np.testing.assert_allclose(sizes, np.full(6, 1 / 6), atol=0.01)


def test_three_groups_have_equal_shares_and_dirichlet_spread():
    draw = jax.vmap(lambda key: partitions.random_sides(2, 3, key))
    sides = np.asarray(draw(jax.random.split(jax.random.key(1), 30_000)))
    np.testing.assert_allclose([(sides == group).mean() for group in range(3)], np.full(3, 1 / 3), atol=0.01)
    # Two entities meet with probability E[sum of squared shares] = 2 / (groups + 1).
    np.testing.assert_allclose((sides[:, 0] == sides[:, 1]).mean(), 2 / 4, atol=0.01)


def first_instant():
    env = group_matching.build(group_matching.Config())
    obs = env.observe(env.reset((), jax.random.key(3)))
    return obs, jax.random.bernoulli(jax.random.key(4), 0.5, (8,)).astype(int)


def test_oracles_imagine_true_groups_whole_or_in_parts():
    obs, drawn = first_instant()
    same_group = obs.group[:, None] == obs.group[None, :]
    same_side = drawn[:, None] == drawn[None, :]
    fixed = partitions.views(partitions.true_groups(obs, drawn), obs.visible)[0]
    randomized = partitions.views(partitions.random_in_groups(obs, drawn), obs.visible)[0]
    np.testing.assert_array_equal(fixed, same_group)
    np.testing.assert_array_equal(randomized, same_group & same_side)


def test_the_released_mistake_forgets_groups_after_the_first_instant():
    obs, drawn = first_instant()
    seen = [jnp.full((8,), action) for action in (-1, 0)]
    from dataclasses import replace

    first, later = (
        partitions.at_first(partitions.true_groups, partitions.all_together, replace(obs, last_action=last), drawn)
        for last in seen
    )
    np.testing.assert_array_equal(first, obs.group)
    np.testing.assert_array_equal(later, np.zeros(8))
