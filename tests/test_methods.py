"""What every method guarantees, for all methods in the package; sizes, masks and partitions are random."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refil import plugins
from refil.learning import losses
from refil.training import config
from refil.types import Method, Observation, Spec
from tests.tiny_methods import (
    BOTH,
    CASES,
    EPISODES,
    METHODS,
    RECURRENT,
    as_floats,
    assert_trees_close,
    built,
    every_case,
    every_method,
    jitted_loss,
    marked_slow,
    q_values,
    random_batch,
    two_models,
)

seeds = st.integers(0, 10_000)
few = settings(max_examples=8, deadline=None)


def sizes(name: str, kind: str) -> list[int]:
    """Return numbers of entities to try a method with."""
    return [2, 5] if name in BOTH and (name, kind) != ("refil", RECURRENT) else [5]


@cache
def jitted_value(method: Method):
    def value(model, obs, utilities, views):
        return losses.mix(model.mixer, model.mixer.context(obs, views), utilities, losses.ALL_FACTORS)

    return jax.jit(value)


def permuted(obs: Observation, agents: np.ndarray, entities: np.ndarray) -> Observation:
    """Return the same timesteps with entities in another order; agents stay in front."""
    return replace(
        obs,
        entities=obs.entities[..., entities, :],
        present=obs.present[..., entities],
        alive=obs.alive[..., entities],
        visible=obs.visible[..., agents, :][..., entities],
        available=obs.available[..., agents, :],
        group=obs.group[..., entities],
        targeting_action=obs.targeting_action[..., entities],
        last_action=obs.last_action[..., agents],
    )


def random_order(spec: Spec, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an order of agents, and of all entities."""
    draw = np.random.default_rng(seed)
    agents = draw.permutation(spec.agents)
    return agents, np.concatenate([agents, spec.agents + draw.permutation(spec.entities - spec.agents)])


@every_case
@few
@given(seed=seeds, size=st.integers(0, 1))
def test_permuting_entities_permutes_utilities_and_leaves_the_joint_value(name, kind, seed, size):
    method, spec = built(name, kind, sizes(name, kind)[size % len(sizes(name, kind))])
    model, batch = two_models(method, seed)[0], random_batch(spec, seed)
    agents, order = random_order(spec, seed)
    obs, other = batch.observations, permuted(batch.observations, agents, order)
    q = q_values(model, batch)
    np.testing.assert_allclose(q_values(model, replace(batch, observations=other)), q[:, :, agents], atol=1e-5)
    if hasattr(model, "mixer"):
        utilities = q.max(axis=-1)[None]
        value = jitted_value(method)(model, obs, utilities, obs.full_view[None])
        same = jitted_value(method)(model, other, utilities[..., agents], other.full_view[None])
        np.testing.assert_allclose(same, value, atol=1e-5)


# Methods with an imagined value sample the group of each entity by its position.
WITHOUT_PARTITIONS = [case for case in CASES if not hasattr(plugins.load("refil.methods", case[0]).Config, "imagined_weight")]


@pytest.mark.parametrize(("name", "kind"), marked_slow(WITHOUT_PARTITIONS))
@few
@given(seed=seeds)
def test_permuting_entities_leaves_the_loss(name, kind, seed):
    method, spec = built(name, kind)
    batch, (agents, order) = random_batch(spec, seed), random_order(spec, seed)
    other = replace(batch, observations=permuted(batch.observations, agents, order), actions=batch.actions[..., agents])
    # Values, not gradients: ROMA divides by the distance of roles, and new models have roles so similar that rounding shows.
    loss, same = (jitted_loss(method)(*two_models(method, seed), each, jax.random.key(seed))[0] for each in (batch, other))
    np.testing.assert_allclose(same, loss, atol=2e-5)


@few
@given(seed=seeds)
def test_permuting_entities_leaves_the_joint_value_and_the_state_value_of_qtran(seed):
    method, spec = built("qtran", RECURRENT)
    model, obs = two_models(method, seed)[0], random_batch(spec, seed).observations
    agents, order = random_order(spec, seed)
    draw = np.random.default_rng(seed)
    hidden = as_floats(draw.normal(size=(*obs.agent_present.shape, 4)))
    actions = jnp.asarray(draw.integers(0, spec.actions, obs.agent_present.shape))
    value = jitted_qtran(model, obs, hidden, actions)
    same = jitted_qtran(model, permuted(obs, agents, order), hidden[..., agents, :], actions[..., agents])
    assert_trees_close(same, value, 1e-5)
    assert not np.allclose(*value, atol=1e-3)  # two different values


@jax.jit
def jitted_qtran(model, obs, hidden, actions):
    return model.joint_value(obs, hidden, actions), model.state_value(obs)


@every_case
@few
@given(seed=seeds, size=st.integers(0, 1))
def test_garbage_in_absent_slots_and_after_the_end_changes_nothing(name, kind, seed, size):
    method, spec = built(name, kind, sizes(name, kind)[size % len(sizes(name, kind))])
    model, target = two_models(method, seed)
    batch = random_batch(spec, seed)
    obs, draw = batch.observations, np.random.default_rng(seed)
    over = np.concatenate([np.zeros((EPISODES, 1), bool), ~np.asarray(batch.valid)], axis=1)  # after the last timestep
    garbage = jnp.asarray(draw.normal(size=obs.entities.shape) * 100, jnp.float32)
    spoiled = replace(obs, entities=jnp.where(~obs.present[..., None] | over[..., None, None], garbage, obs.entities))
    after = ~batch.valid
    worse = replace(
        batch,
        observations=replace(spoiled, visible=obs.visible & ~over[..., None, None]),
        actions=jnp.where(after[..., None], 0, batch.actions),
        rewards=jnp.where(after, -1e7, batch.rewards),
        terminated=batch.terminated | after,
    )
    key = jax.random.key(seed)
    assert_trees_close(jitted_loss(method)(model, target, worse, key), jitted_loss(method)(model, target, batch, key))


COMMUNICATING = [name for name in METHODS if getattr(plugins.load("refil.methods", name), "COMMUNICATES", False)]


@pytest.mark.parametrize(("name", "kind"), marked_slow([case for case in CASES if case[0] not in COMMUNICATING]))
@few
@given(seed=seeds)
def test_an_invisible_entity_cannot_change_the_utility_of_an_agent(name, kind, seed):
    method, spec = built(name, kind)
    model, batch = two_models(method, seed)[0], random_batch(spec, seed)
    obs, entity = batch.observations, seed % spec.entities
    hidden = replace(obs, visible=obs.visible.at[:, :, 0, entity].set(entity == 0))
    changed = replace(hidden, entities=obs.entities.at[:, :, entity].add(5.0))
    q, other = (q_values(model, replace(batch, observations=each)) for each in (hidden, changed))
    if entity != 0:
        np.testing.assert_array_equal(q[:, :, 0], other[:, :, 0])
    seen = np.asarray(hidden.visible[..., entity] & hidden.present[..., entity, None])
    if kind.startswith("feed") and seen.any():
        assert not np.allclose(q[seen], other[seen], atol=1e-9)


@pytest.mark.parametrize(("name", "kind"), marked_slow([case for case in CASES if case[0] not in ("qtran", "iql_attention")]))
@few
@given(seed=seeds)
def test_the_joint_value_never_falls_when_a_utility_rises(name, kind, seed):
    method, spec = built(name, kind)
    model, obs = two_models(method, seed)[0], random_batch(spec, seed).observations
    draw = np.random.default_rng(seed)
    group_ids = jnp.asarray(draw.integers(0, 3, obs.present.shape))
    for views in (obs.full_view[None], losses.views(group_ids, obs.full_view)):
        utilities = jnp.asarray(draw.normal(size=views.shape[:-1]), jnp.float32)
        slope = slopes(method)(model, obs, utilities, views)
        assert (np.asarray(slope) >= 0).all()
        assert (np.asarray(slope)[..., 0] > 0).all()  # the first agent is always present


@cache
def slopes(method: Method):
    def total(model, obs, utilities, views):
        return jitted_value(method)(model, obs, utilities, views).sum()

    return jax.jit(jax.grad(total, argnums=2))


@every_method
def test_every_method_can_learn_group_matching(name):
    """The defaults there are feed-forward with a linear mixing network; tracing shows that all shapes fit."""
    setup = config.default("group_matching", name).build()
    model = jax.eval_shape(setup.method.init, jax.random.key(0))
    batch = random_batch(setup.env.spec, 0)
    gradient = jax.eval_shape(jax.grad(lambda *rest: setup.method.loss(*rest)[0]), model, model, batch, jax.random.key(0))
    assert jax.tree.structure(gradient) == jax.tree.structure(model)
