"""How the framework runs utilities: step by step, unrolled, with several views, and packed."""

from dataclasses import replace
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from refil.checks import batches, methods
from refil.errors import RefilError
from refil.learning import losses, networks
from refil.nn.layers import Linear, linear
from refil.nn.mixers import Vdn
from refil.nn.utilities import FeedForwardUtility, entity_inputs, initial_state, timestep_keys, unroll
from refil.types import EpisodeBatch, Method, Model, Observation, RecurrentUtility, Utility
from tests.tiny_methods import CASES, EPISODES, SPECS, TIME, built, marked_slow, q_values, random_batch, subject, two_models

SPEC = SPECS[1]


class Leaky(eqx.Module):
    """A utility written as a cell, as a user would: an exponential mean of what is visible, and the number of timesteps."""

    embed: Linear
    head: Linear

    def initial_state(self, *batch: int) -> tuple[Array, Array]:
        return jnp.full((*batch, 4), 0.5), jnp.ones(batch)

    def encode(self, obs: Observation, views: Array) -> Array:
        return views.astype(obs.entities.dtype) @ jnp.tanh(self.embed(obs.entities))

    def recur(self, state: tuple[Array, Array], inputs: Array) -> tuple[tuple[Array, Array], Array]:
        mean, timesteps = state
        mean = 0.5 * mean + jnp.tanh(inputs)
        return (mean, timesteps + 1), mean * timesteps[..., None]

    def q_values(self, features: Array, obs: Observation) -> Array:
        return self.head(features)


class Noisy(Leaky):
    """A utility that samples."""

    def q_values(self, features: Array, obs: Observation) -> Array:
        noise = jax.vmap(jax.vmap(lambda key: jax.random.normal(key, (3, 5))))(obs.key)
        return super().q_values(features, obs) + noise


class Forgetful(Leaky):
    """A utility that forgets the scores of one action."""

    def q_values(self, features: Array, obs: Observation) -> Array:
        return super().q_values(features, obs)[..., 1:]


def leaky(kind=Leaky, seed: int = 0) -> Leaky:
    one, other = jax.random.split(jax.random.key(seed))
    return kind(linear(SPEC.features, 4, one), linear(4, SPEC.actions, other))


KINDS = ("refil", "roma")


@pytest.mark.parametrize(("name", "kind"), marked_slow(CASES, fast=KINDS))
def test_playing_step_by_step_gives_the_q_values_of_learning(name, kind):
    methods.step_equals_unroll(subject(name, kind), 3)


def test_a_utility_written_as_a_cell_gives_the_same_q_values_step_by_step():
    assert isinstance(leaky(), RecurrentUtility)
    assert isinstance(leaky(), Utility)
    methods.step_equals_unroll(methods.Subject(Method(lambda key: Model(leaky(), Vdn()), lambda *given: given), SPEC), 3)


def test_a_utility_without_memory_has_an_empty_state():
    utility = two_models(built("refil", "feed-forward, linear")[0], 0)[0].utility
    assert not isinstance(utility, RecurrentUtility)
    assert initial_state(utility, 2, 3) == ()


def recurrent_utilities() -> list:
    return [leaky(), *(two_models(built(name, "recurrent, attention")[0], 3)[0].utility for name in ("refil", "qmix_updet"))]


@pytest.mark.parametrize("number", range(3), ids=["cell", "gru", "updet"])
def test_the_state_is_reset_at_the_first_timestep_of_an_episode(number):
    utility, batch = recurrent_utilities()[number], random_batch(SPEC, 3)
    obs = batch.observations
    second = replace(obs, is_first=obs.is_first.at[:, 2].set(True))
    together = q_values(Model(utility, Vdn()), replace(batch, observations=second))
    without_reset = q_values(Model(utility, Vdn()), batch)
    later = jax.tree.map(lambda leaf: jnp.concatenate([leaf[:, 2:], leaf[:, :2]], axis=1), second)
    alone = q_values(Model(utility, Vdn()), replace(batch, observations=later))
    np.testing.assert_allclose(together[:, 2:], alone[:, :3], atol=1e-6)
    np.testing.assert_allclose(together[:, :2], without_reset[:, :2], atol=1e-6)
    assert not np.allclose(together[:, 2:], without_reset[:, 2:], atol=1e-5)


@pytest.mark.parametrize("number", range(3), ids=["cell", "gru", "updet"])
def test_absent_agents_have_q_values_of_zero(number):
    batch = random_batch(SPEC, 1)
    assert not batch.observations.agent_present.all()
    q = np.asarray(q_values(Model(recurrent_utilities()[number], Vdn()), batch))
    absent = ~np.asarray(batch.observations.agent_present)
    assert (q[absent] == 0).all()
    assert (q[~absent] != 0).any()


def test_every_view_has_its_own_state():
    utility, batch = leaky(), random_batch(SPEC, 2)
    views = jnp.stack([batch.observations.visible, jnp.zeros_like(batch.observations.visible), batch.observations.full_view])
    together = unroll(utility, batch, views)
    for view in range(3):
        np.testing.assert_allclose(together[view], unroll(utility, batch, views[view][None])[0], atol=1e-6)
    assert not np.allclose(together[0], together[1])


def test_features_are_returned_if_asked_for():
    utility, batch = leaky(), random_batch(SPEC, 2)
    q, features = unroll(utility, batch, features=True)
    assert features.shape == (*q.shape[:-1], 4)
    present = np.asarray(batch.observations.agent_present)
    np.testing.assert_allclose(np.asarray(utility.head(features))[present], np.asarray(q)[present], atol=1e-6)


@pytest.fixture(scope="module")
def layouts() -> tuple[EpisodeBatch, EpisodeBatch, np.ndarray]:
    """The same episodes padded and packed, and their lengths in timesteps."""
    return batches.layouts(SPEC, 5)


def in_a_row(padded: Array, lengths: np.ndarray) -> np.ndarray:
    """Concatenate the timesteps of padded episodes."""
    return np.concatenate([np.asarray(row)[:length] for row, length in zip(padded, lengths, strict=True)])


@pytest.mark.parametrize("kind", [Leaky, pytest.param(Noisy, marks=pytest.mark.slow)])
def test_a_cell_gives_the_same_q_values_and_losses_padded_and_packed(layouts, kind):
    padded, packed, lengths = layouts
    q, packed_q = (unroll(leaky(kind), batch, key=jax.random.key(0)) for batch in (padded, packed))
    expected = in_a_row(q, lengths)
    np.testing.assert_allclose(packed_q[0, : len(expected)], expected, atol=1e-5)
    models = Model(leaky(kind), Vdn()), Model(leaky(kind, 1), Vdn())

    @partial(jax.jit, static_argnums=1)
    def loss(models, is_packed):
        batch = packed if is_packed else padded
        return losses.q_learning_loss(*models, batch, jax.random.key(1), 0.99)[0]

    gradient = jax.value_and_grad(loss)
    ours, theirs = gradient(models, True), gradient(models, False)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6), ours, theirs)


def test_the_keys_of_timesteps_differ_and_do_not_depend_on_packing(layouts):
    padded, packed, lengths = layouts
    keys, packed_keys = (jax.random.key_data(timestep_keys(batch, jax.random.key(0))) for batch in (padded, packed))
    expected = in_a_row(keys, lengths)
    np.testing.assert_array_equal(packed_keys[0, : len(expected)], expected)
    assert len({tuple(words) for words in expected.tolist()}) == len(expected)


def test_wrong_shapes_of_q_values_are_an_error_that_names_the_class():
    with pytest.raises(RefilError, match=r"q_values of Forgetful must return .* = \(1, 5, 3, 3, 5\), not \(1, 5, 3, 3, 4\)"):
        unroll(leaky(Forgetful), random_batch(SPEC, 0))


def test_a_utility_that_loses_views_is_an_error():
    class OneView(FeedForwardUtility):
        def encode(self, obs, views):
            return super().encode(obs, views)[:1]

    plain = networks.attention_vdn(networks.UtilityOptions(size=8, heads=2, recurrent=False), SPEC, jax.random.key(0)).utility
    batch = random_batch(SPEC, 0)
    views = jnp.stack([batch.observations.visible] * 2)
    assert unroll(plain, batch, views).shape[0] == 2
    with pytest.raises(RefilError, match=r"q_values of OneView must return .* = \(2, 3, 5, 3, 5\), not \(1, 3, 5, 3, 5\)"):
        unroll(OneView(plain.encoder, plain.head, plain.last_action_dim), batch, views)


def test_the_last_action_is_one_hot_for_agents_and_zero_for_others_and_at_the_first_timestep():
    obs = random_batch(SPEC, 0).observations
    obs = replace(obs, last_action=jnp.full_like(obs.last_action, 2).at[:, 0].set(-1))
    inputs = np.asarray(entity_inputs(obs, SPEC.actions))
    assert inputs.shape == (EPISODES, TIME + 1, SPEC.entities, SPEC.features + SPEC.actions)
    last = inputs[..., SPEC.features :]
    np.testing.assert_array_equal(last[:, 1:, : SPEC.agents], np.broadcast_to(np.eye(5)[2], last[:, 1:, : SPEC.agents].shape))
    assert not last[:, 0].any()
    assert not last[:, :, SPEC.agents :].any()
    np.testing.assert_array_equal(entity_inputs(obs, 0), obs.entities)
