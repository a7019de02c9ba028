"""Group matching, with numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.envs.group_matching import Config, State, build
from refil.errors import RefilError

NO_SLIPS = Config(agents=4, cells=5, groups=2, random_actions=0.0)
BACK, STAY, FORWARD = 0, 1, 2


def step(cells, groups, actions, config=NO_SLIPS):
    env = build(config)
    state = State(jnp.array(cells), jnp.array(groups))
    return env.step(state, jnp.array(actions), jax.random.key(0))


def test_agents_move_on_a_ring():
    state, _ = step([0, 4, 2, 2], [0, 0, 1, 1], [BACK, FORWARD, STAY, FORWARD])
    assert state.cell.tolist() == [4, 0, 2, 3]


def test_a_new_match_pays_and_the_episode_continues():
    _, outcome = step([0, 1, 2, 4], [0, 0, 1, 1], [FORWARD, STAY, STAY, STAY])
    np.testing.assert_allclose(outcome.reward, -0.1 + 2.5)
    assert not outcome.terminated


def test_a_broken_match_costs_what_it_paid():
    _, outcome = step([0, 0, 2, 4], [0, 0, 1, 1], [FORWARD, STAY, STAY, STAY])
    np.testing.assert_allclose(outcome.reward, -0.1 - 2.5)


def test_matching_all_groups_wins_and_ends_the_episode():
    _, outcome = step([0, 0, 2, 3], [0, 0, 1, 1], [STAY, STAY, FORWARD, STAY])
    np.testing.assert_allclose(outcome.reward, -0.1 + 2.5)
    assert outcome.terminated
    assert outcome.won


def test_an_empty_group_and_a_single_agent_are_matched_from_the_start():
    _, outcome = step([0, 1, 2, 3], [1, 1, 1, 1], [STAY] * 4)
    np.testing.assert_allclose(outcome.reward, -0.1)
    _, outcome = step([0, 1, 1, 0], [0, 1, 1, 1], [STAY, STAY, STAY, FORWARD])
    assert outcome.won  # the group of one agent is always matched, so that only the other one was missing
    np.testing.assert_allclose(outcome.reward, -0.1 + 2.5)


def test_features_are_cell_group_and_index():
    env = build(Config(agents=3, cells=2, groups=2))
    row = env.observe(State(jnp.array([1, 0, 0]), jnp.array([0, 1, 1]))).entities[0]
    assert row.tolist() == [0, 1, 1, 0, 1, 0, 0]


def resets(config: Config, count: int = 40_000) -> State:
    env = build(config)
    return jax.jit(jax.vmap(lambda key: env.reset((), key)))(jax.random.split(jax.random.key(0), count))


def test_groups_are_matched_in_the_first_state_as_often_as_in_the_authors_game():
    env, states = build(Config()), resets(Config(), 200_000)
    matched = np.bincount(jax.vmap(env.num_matched)(states), minlength=3) / 200_000
    np.testing.assert_allclose(matched, [0.575, 0.425, 2e-5], atol=0.004)


def test_every_size_of_the_first_group_is_equally_likely():
    sizes = np.asarray((resets(Config()).group == 0).sum(axis=1))
    np.testing.assert_allclose(np.bincount(sizes, minlength=9) / len(sizes), [*[1 / 8] * 8, 0], atol=0.01)


@pytest.mark.parametrize("groups", [1, 3, 4])
def test_any_number_of_groups_is_sampled(groups):
    group = np.asarray(resets(Config(agents=4, groups=groups), 4000).group)
    assert group.min() >= 0
    assert group.max() == groups - 1
    members = (group[:, :, None] == np.arange(groups)).any(axis=0).any(axis=0)
    assert members.all()


def test_actions_are_replaced_at_the_given_rate():
    env = build(Config(random_actions=0.3))
    state = State(jnp.zeros(8, jnp.int32), jnp.zeros(8, jnp.int32))
    moved = jax.vmap(lambda key: env.step(state, jnp.full(8, STAY), key)[0].cell != 0)(
        jax.random.split(jax.random.key(1), 4000)
    )
    np.testing.assert_allclose(np.asarray(moved).mean(), 0.3 * 2 / 3, atol=0.01)


def test_more_groups_than_agents_raise():
    with pytest.raises(RefilError, match=r"env.groups 5 is more than env.agents 4"):
        build(Config(agents=4, groups=5))


def test_features_and_actions_have_names():
    env = build(Config(agents=2, cells=2, groups=1))
    assert env.feature_names == ("cell 0", "cell 1", "group 0", "agent 0", "agent 1")
    assert env.action_names == ("back", "stay", "forward")
    assert (len(env.feature_names), len(env.action_names)) == (env.spec.features, env.spec.actions)
