"""Episodes stepped with NumPy arrays, and the observations of single agents."""

import jax.numpy as jnp
import numpy as np
import pytest

from refil import environment
from refil.adapters import episodes
from refil.errors import RefilError
from refil.types import Observation
from tests import tiny_envs

COUNTING = environment.Environment(tiny_envs.build(tiny_envs.Config()), "counting")


def observation(alive: list[bool]) -> Observation:
    """Two agents and a third entity; the first agent sees the third entity, the second one sees nobody else."""
    return Observation(
        entities=jnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        present=jnp.ones(3, bool),
        visible=jnp.array([[True, False, True], [False, True, False]]),
        available=jnp.ones((2, 2), bool),
        alive=jnp.array(alive),
    )


def test_agents_see_themselves_and_visible_entities():
    vectors = episodes.agent_vectors(observation([True, True, True]))
    assert vectors.tolist() == [[1, 2, 1, 2, 0, 0, 5, 6], [3, 4, 0, 0, 3, 4, 0, 0]]


def test_dead_agents_see_nothing():
    vectors = episodes.agent_vectors(observation([True, False, True]))
    assert not vectors[1].any()
    assert vectors[0].any()


def test_unavailable_actions_are_replaced_by_the_first_available_one():
    available = jnp.array([[False, True, True], [True, True, False], [False, False, True], [False, True, False]])
    assert episodes.replace_unavailable(jnp.array([2, 2, 99, -1]), available).tolist() == [2, 0, 2, 1]


def test_the_same_seed_and_actions_give_the_same_episodes():
    played = []
    for _ in range(2):
        one = episodes.Episodes(COUNTING)
        one.seed(4)
        views = [one.reset() for _ in range(6)]
        played.append([np.asarray(view.obs.present).tolist() for view in views])
    assert played[0] == played[1]
    assert len({str(present) for present in played[0]}) == 2  # several tasks


def test_tasks_are_chosen_by_name_or_number():
    one = episodes.Episodes(COUNTING)
    for task in ("2 steps", 1):
        one.reset(task)
        assert not one.step(np.array([0, 0])).terminated
        assert one.step(np.array([1, 1])).terminated
    with pytest.raises(RefilError, match="unknown task '2 step'"):
        one.reset("2 step")


def test_options_need_the_name_of_an_environment():
    with pytest.raises(RefilError, match="options horizon need the name"):
        episodes.environment(COUNTING, {"horizon": 3})
    assert episodes.environment("group_matching", {"horizon": 3}).spec.horizon == 3
