"""Random batches, and changes of them."""

import jax
import numpy as np
import pytest

from refil.checks import batches
from refil.checks.methods import SPEC
from refil.training import contracts
from refil.types import Spec


def test_a_recorded_environment_keeps_its_contract():
    contracts.check_env(batches.RecordedEnv(SPEC), "recorded")


@pytest.mark.parametrize("seed", range(20))
def test_an_order_keeps_agents_in_front_and_differs_from_that_of_the_slots(seed):
    agents, order = batches.random_order(SPEC, seed)
    assert sorted(agents) == [0, 1, 2]
    assert sorted(order) == [0, 1, 2, 3, 4]
    assert order[:3].tolist() == agents.tolist()
    assert order.tolist() != [0, 1, 2, 3, 4]


def test_a_single_agent_has_a_single_order():
    assert batches.random_order(Spec(1, 1, 2, 2, 4), 0)[1].tolist() == [0]


def test_some_episodes_of_a_packed_batch_share_a_row():
    padded, packed, lengths = batches.layouts(SPEC, 5)
    assert packed.pack_index.rows < len(lengths)
    assert packed.valid.sum() == padded.valid.sum() == lengths.sum() - len(lengths)


def test_garbage_is_only_where_nothing_is_valid():
    """Timesteps up to the last one of an episode, which no step follows, keep all that is present, seen and done."""
    batch = batches.random_batch(SPEC, 0)
    worse = batches.with_garbage(batch, 0)
    valid, present = np.asarray(batch.valid), np.asarray(batch.observations.present)
    assert not valid.all()
    for name in ("rewards", "actions", "terminated"):
        np.testing.assert_array_equal(getattr(worse, name)[valid], getattr(batch, name)[valid])
    reached = np.pad(valid, [(0, 0), (1, 0)], constant_values=True)
    here = present & reached[..., None]
    np.testing.assert_array_equal(worse.observations.entities[here], batch.observations.entities[here])
    np.testing.assert_array_equal(worse.observations.visible[reached], batch.observations.visible[reached])
    assert (worse.observations.entities[~here] != batch.observations.entities[~here]).all()
    assert (worse.rewards[~valid] == -1e7).all()
    assert worse.terminated[~valid].all()


def test_only_absent_agents_get_other_actions():
    batch = batches.random_batch(SPEC, 1)
    other = batches.with_other_absent_actions(batch, SPEC.actions)
    changed = np.asarray(other.actions != batch.actions)
    np.testing.assert_array_equal(changed, ~np.asarray(batch.observations.agent_present)[:, :-1])
    assert other.observations.available.any(axis=-1).all()


@pytest.mark.parametrize("situation", batches.EDGE_CASES)
def test_strange_situations_keep_shapes(situation):
    batch = batches.random_batch(SPEC, 1)
    other = batches.edge_case(batch, situation)
    assert jax.tree.map(np.shape, other) == jax.tree.map(np.shape, batch)
