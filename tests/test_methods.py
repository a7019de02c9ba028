"""What every method guarantees, for all methods in the package; sizes, masks and partitions are random."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refil import plugins
from refil.checks import methods
from refil.checks.batches import permuted, random_order
from refil.checks.methods import as_replay_method
from refil.training import config
from tests.tiny_methods import (
    BOTH,
    CASES,
    FEED_FORWARD,
    METHODS,
    RECURRENT,
    as_floats,
    assert_trees_close,
    built,
    every_case,
    every_method,
    marked_slow,
    q_values,
    random_batch,
    subject,
    two_models,
)

seeds = st.integers(0, 10_000)
few = settings(max_examples=8, deadline=None)


def sizes(name: str, kind: str) -> list[int]:
    """Return numbers of entities to try a method with."""
    return [2, 5] if name in BOTH and (name, kind) != ("refil", RECURRENT) else [5]


@pytest.mark.parametrize(("name", "kind"), marked_slow(CASES, fast=("refil", "qmix_updet")))
@few
@given(seed=seeds, size=st.integers(0, 1))
def test_permuting_entities_permutes_utilities_and_leaves_the_joint_value(name, kind, seed, size):
    methods.permuting_entities_permutes_utilities(subject(name, kind, sizes(name, kind)[size % len(sizes(name, kind))]), seed)


# Methods with an imagined value sample the group of each entity by its position.
WITHOUT_PARTITIONS = [case for case in CASES if not hasattr(plugins.load("refil.methods", case[0]).Config, "imagined_weight")]


@pytest.mark.parametrize(("name", "kind"), marked_slow(WITHOUT_PARTITIONS))
@few
@given(seed=seeds)
def test_permuting_entities_leaves_the_loss(name, kind, seed):
    methods.loss_is_permutation_invariant(subject(name, kind), seed)


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
    methods.padding_has_no_effect(subject(name, kind, sizes(name, kind)[size % len(sizes(name, kind))]), seed)


@every_case
def test_actions_of_absent_agents_change_nothing(name, kind):
    methods.absent_agents_get_no_credit(subject(name, kind), 1)


@pytest.mark.parametrize(("name", "kind"), marked_slow(CASES, fast=("qtran",)))  # tests/training/replay packs those of REFIL
def test_packing_changes_neither_loss_nor_gradient(name, kind):
    methods.packed_equals_padded(subject(name, kind), 5)


COMMUNICATING = [name for name in METHODS if getattr(plugins.load("refil.methods", name), "COMMUNICATES", False)]


@pytest.mark.parametrize(("name", "kind"), marked_slow([case for case in CASES if case[0] not in COMMUNICATING]))
@few
@given(seed=seeds)
def test_an_invisible_entity_cannot_change_the_utility_of_an_agent(name, kind, seed):
    methods.invisible_entities_have_no_effect(subject(name, kind), seed)


@pytest.mark.parametrize(("name", "kind"), marked_slow([case for case in CASES if case[1] == FEED_FORWARD]))
def test_a_visible_entity_changes_the_utility_of_an_agent(name, kind):
    model, batch = subject(name, kind).models(0)[0], subject(name, kind).batch(0)
    obs = batch.observations
    changed = replace(obs, entities=obs.entities.at[:, :, 1].add(5.0))
    q, other = (q_values(model, replace(batch, observations=each)) for each in (obs, changed))
    seen = np.asarray(obs.visible[..., 1] & obs.present[..., 1, None])
    assert seen.any()
    assert not np.allclose(q[seen], other[seen], atol=1e-9)


@pytest.mark.parametrize(("name", "kind"), marked_slow([case for case in CASES if case[0] not in ("qtran", "iql_attention")]))
@few
@given(seed=seeds)
def test_the_joint_value_never_falls_when_a_utility_rises(name, kind, seed):
    methods.mixing_is_monotonic(subject(name, kind), seed)


@every_method
def test_every_method_fits_group_matching(name):
    """The defaults there are feed-forward with a linear mixing network; tracing shows that all shapes fit."""
    setup = config.default("group_matching", name).build()
    method = as_replay_method(setup.method)
    model = jax.eval_shape(method.init, jax.random.key(0))
    batch = random_batch(setup.env.spec, 0)
    gradient = jax.eval_shape(jax.grad(lambda *rest: method.loss(*rest)[0]), model, model, batch, jax.random.key(0))
    assert jax.tree.structure(gradient) == jax.tree.structure(model)
