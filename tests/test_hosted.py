"""Episodes of environments that compiled programs cannot play."""

import logging
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import hosted
from refil.envs import group_matching
from refil.hosted import LostError
from refil.rollout import is_hosted, random_policy, reset_envs, rollout
from refil.training import devices
from refil.wrappers import EnvWrapper, MaskDead

GAME = group_matching.build(group_matching.Config(agents=3, cells=3, horizon=6))


@dataclass
class Host:
    """Plays group matching outside of compiled programs; loses the episodes of `losses`, one set per call of `reset`."""

    capacity: int = 100
    losses: list[set[int]] = field(default_factory=list)
    resets: list[int] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    stepped: list[list[int]] = field(default_factory=list)

    def reset(self, tasks, keys, wanted):
        self.resets.append(int(wanted.sum()))
        self.lost = self.losses.pop(0) if self.losses else set()
        states = reset_envs(GAME, jnp.asarray(tasks)[None], jax.random.wrap_key_data(jnp.asarray(keys))[None])
        return jax.tree.map(lambda leaf: np.asarray(leaf[0]), states)

    def step(self, states, actions, keys, running):
        self.stepped.append(np.flatnonzero(running).tolist())
        given = jax.tree.map(jnp.asarray, (states, actions)), jax.random.wrap_key_data(jnp.asarray(keys))
        after, outcome = jax.vmap(GAME.step)(*given[0], given[1])
        lost = {number: RuntimeError("it fell over") for number in self.lost if running[number]}
        return jax.tree.map(np.asarray, after), jax.tree.map(np.asarray, outcome), lost


@dataclass(frozen=True, eq=False)
class Hosted(EnvWrapper):
    """Group matching, played by a host."""

    host: Host = field(default_factory=Host)

    def hosted_rollout(self, env, policy, policy_state, tasks, keys):
        return hosted.rollout(self.host, env, policy, policy_state, tasks, keys)


TASKS = jnp.zeros((2, 5), jnp.int32)
KEYS = jax.random.split(jax.random.key(3), 2)


@pytest.fixture(scope="module")
def compiled():
    return jax.jit(lambda keys: rollout(GAME, random_policy, (), TASKS, keys))(KEYS)


def equal(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)
    assert jax.tree.map(lambda leaf: leaf.dtype, one) == jax.tree.map(lambda leaf: leaf.dtype, other)


def test_a_host_plays_the_same_trajectories_as_a_compiled_program(compiled):
    env = Hosted(GAME)
    equal(rollout(env, random_policy, (), TASKS, KEYS), compiled)
    assert env.host.resets == [10]


def test_episodes_that_are_over_are_not_stepped(compiled):
    env = Hosted(GAME)
    rollout(env, random_policy, (), TASKS, KEYS)
    length = np.asarray(compiled.valid).sum(axis=-1).reshape(-1)
    assert [len(now) for now in env.host.stepped] == [(length > time).sum() for time in range(length.max())]


def test_more_episodes_than_the_capacity_are_played_in_turns(compiled):
    env = Hosted(GAME, Host(capacity=4))  # of two seeds, two episodes each at once
    equal(rollout(env, random_policy, (), TASKS, KEYS), compiled)
    assert env.host.resets == [4, 4, 2]


@pytest.mark.parametrize(("seeds", "capacity"), [(2, 1), (5, 3)])
def test_no_more_episodes_than_the_capacity_are_played_at_once_however_many_seeds(seeds, capacity):
    tasks, keys = jnp.zeros((seeds, 2), jnp.int32), jax.random.split(jax.random.key(4), seeds)
    env = Hosted(GAME, Host(capacity=capacity))
    played = rollout(env, random_policy, (), tasks, keys)
    equal(played, jax.jit(lambda keys: rollout(GAME, random_policy, (), tasks, keys))(keys))
    assert max(env.host.resets) == capacity
    assert sum(env.host.resets) == 2 * seeds
    for stepped in env.host.stepped:
        assert len({number // capacity for number in stepped}) == 1


def test_progress_is_reported_by_episodes():
    texts = []
    with hosted.reporting_to(texts.append):
        rollout(Hosted(GAME, Host(capacity=4, losses=[{0}])), random_policy, (), TASKS, KEYS)
    assert texts[-1] == "playing: 10 of 10 episodes are over"
    counts = [int(text.split()[1]) for text in texts]
    assert counts == sorted(set(counts))
    rollout(Hosted(GAME), random_policy, (), TASKS, KEYS)
    assert texts[-1] == "playing: 10 of 10 episodes are over"


def test_a_lost_episode_is_played_again_with_a_message(compiled, caplog):
    env = Hosted(GAME, Host(losses=[{2, 7}, {7}]))
    with caplog.at_level(logging.WARNING):
        equal(rollout(env, random_policy, (), TASKS, KEYS), compiled)
    assert env.host.resets == [10, 2, 1]
    assert [record.getMessage() for record in caplog.records] == ["An episode was lost and is played again: it fell over"] * 3


def test_an_episode_that_is_always_lost_is_an_error():
    with pytest.raises(LostError, match="lost 3 times in a row, the last time because it fell over"):
        rollout(Hosted(GAME, Host(losses=[{0}] * 3)), random_policy, (), TASKS, KEYS)


def test_wrappers_apply_to_hosted_environments():
    env = MaskDead(Hosted(GAME))
    assert is_hosted(env)
    assert not is_hosted(GAME)
    assert rollout(env, random_policy, (), TASKS, KEYS).valid.any()


def test_tracing_asks_only_for_shapes(compiled):
    env = Hosted(GAME)
    traced = jax.eval_shape(lambda tasks, keys: rollout(env, random_policy, (), tasks, keys), TASKS, KEYS)
    assert jax.tree.map(jnp.shape, traced) == jax.tree.map(jnp.shape, compiled)
    assert env.host.resets == []


def test_functions_that_play_in_a_hosted_environment_are_not_compiled():
    function = devices.program(Hosted(GAME), lambda value: type(value))
    assert function(3) is int
    assert function.lower(3).compile()(3) is int
