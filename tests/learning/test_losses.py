"""Partitions of entities, the views they produce, joint values and their targets."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refil.envs import group_matching
from refil.errors import RefilError
from refil.learning import losses
from refil.nn.mixers import Vdn
from refil.nn.utilities import unroll
from refil.types import Model
from tests.tiny_methods import FEED_FORWARD, built, random_batch, two_models


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), agents=st.integers(1, 4), others=st.integers(0, 4), groups=st.integers(1, 4))
def test_the_two_views_partition_what_is_visible(seed, agents, others, groups):
    draw = np.random.default_rng(seed)
    visible = jnp.asarray(draw.random((agents, agents + others)) < 0.7)
    group_ids = losses.random_partition(agents + others, groups, jax.random.key(seed))
    within, across = losses.views(group_ids, visible)
    assert ((within | across) == visible).all()
    assert not (within & across).any()
    itself = jnp.arange(agents)
    assert (within[itself, itself] == visible[itself, itself]).all()
    assert ((group_ids >= 0) & (group_ids < groups)).all()


def test_with_two_groups_every_group_size_is_equally_likely():
    sample = jax.vmap(lambda key: losses.random_partition(5, 2, key).sum())
    sizes = np.bincount(sample(jax.random.split(jax.random.key(0), 30_000)), minlength=6) / 30_000
    np.testing.assert_allclose(sizes, np.full(6, 1 / 6), atol=0.01)


def test_three_groups_are_equally_likely_and_their_probabilities_are_dirichlet():
    sample = jax.vmap(lambda key: losses.random_partition(2, 3, key))
    group_ids = np.asarray(sample(jax.random.split(jax.random.key(1), 30_000)))
    np.testing.assert_allclose([(group_ids == group).mean() for group in range(3)], np.full(3, 1 / 3), atol=0.01)
    # Two entities are in the same group with probability E[sum of squared probabilities] = 2 / (groups + 1).
    np.testing.assert_allclose((group_ids[:, 0] == group_ids[:, 1]).mean(), 2 / 4, atol=0.01)


def first_timestep():
    env = group_matching.build(group_matching.Config())
    obs = env.observe(env.reset((), jax.random.key(3)))
    return obs, jax.random.bernoulli(jax.random.key(4), 0.5, (8,)).astype(int)


def test_random_groups_are_used_as_they_are_or_replaced_by_a_single_one():
    obs, random = first_timestep()
    np.testing.assert_array_equal(losses.use_random(obs, random), random)
    np.testing.assert_array_equal(losses.single_group(obs, random), np.zeros(8))


def test_oracles_use_true_groups_whole_or_split_randomly():
    obs, random = first_timestep()
    same_group = obs.group[:, None] == obs.group[None, :]
    same_part = random[:, None] == random[None, :]
    fixed = losses.views(losses.true_groups(obs, random), obs.visible)[0]
    randomized = losses.views(losses.random_in_groups(obs, random), obs.visible)[0]
    np.testing.assert_array_equal(fixed, same_group)
    np.testing.assert_array_equal(randomized, same_group & same_part)


def test_forget_groups_uses_true_groups_at_the_first_timestep_only():
    obs, random = first_timestep()
    first, later = (
        losses.switch_after_first_step(losses.true_groups, losses.single_group, replace(obs, is_first=is_first), random)
        for is_first in (jnp.asarray(True), jnp.asarray(False))
    )
    np.testing.assert_array_equal(first, obs.group)
    np.testing.assert_array_equal(later, np.zeros(8))


@pytest.fixture(scope="module")
def inputs():
    """A model with a sum as its mixer, a target model, and a batch."""
    method, spec = built("vdn_attention", FEED_FORWARD)
    return *two_models(method, 0), random_batch(spec, 0)


def test_partitions_stay_the_same_within_an_episode(inputs):
    batch = inputs[-1]
    group_ids = losses.sample_partitions(batch, 2, 5, jax.random.key(0))
    assert group_ids.shape == (5, *batch.episode_id.shape, 5)
    assert (group_ids == group_ids[:, :, :1]).all()
    assert len({tuple(ids) for ids in np.asarray(group_ids[:, :, 0]).reshape(-1, 5).tolist()}) > 5


def test_joint_values_are_those_of_the_actions_taken_one_per_slice_of_factors(inputs):
    *_, batch = inputs
    q = jax.random.normal(jax.random.key(0), (3, *batch.observations.available.shape))
    first, others, all_of_them = losses.joint_values(Vdn(), ((), ()), q, batch, [slice(0, 1), slice(1, None), slice(None)])
    taken = np.take_along_axis(np.asarray(q)[:, :, :-1], np.asarray(batch.actions)[None, ..., None], axis=-1)[..., 0].sum(-1)
    np.testing.assert_allclose(first, taken[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(others, taken[1] + taken[2], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(all_of_them, first + others, rtol=1e-5, atol=1e-6)


def test_the_model_chooses_the_next_actions_and_the_target_model_values_them(inputs):
    model, target, batch = inputs
    q, target_q = (np.asarray(unroll(each.utility, batch)) for each in (model, target))
    best = np.where(batch.observations.available, q, -np.inf).argmax(-1)
    values = np.take_along_axis(target_q, best[..., None], axis=-1)[..., 0].sum(-1)[:, 1:]
    expected = batch.rewards + 0.9 * np.where(batch.terminated, 0, values)
    targets = losses.TargetInputs(((), ()), ((), ()), jnp.asarray(target_q))
    result = losses.joint_targets(Model(target.utility, Vdn()), targets, jnp.asarray(q), batch, 0.9)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


class WrongMixer(Vdn):
    """A mixing network that forgets to sum over agents."""

    def value(self, per_factor, shared, utilities):
        return utilities.sum(axis=0)


def test_a_mixer_that_returns_a_wrong_shape_is_named_in_the_error(inputs):
    model, target, batch = inputs
    wrong = Model(model.utility, WrongMixer())
    with pytest.raises(RefilError, match=r"value of WrongMixer must return .* = \(3, 5\), not \(3, 5, 3\)"):
        losses.q_learning_loss(wrong, target, batch, jax.random.key(0), 0.99)
