"""Episodes on disk: little is kept, and nothing is lost."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import rollout
from refil.training import config
from refil.training.replay import compression
from refil.training.replay.buffer import Replay

ENVS = ["group_matching", "2s1z_vs_1s2z"]


@pytest.fixture(scope="module", params=ENVS)
def held(request):
    """An environment, and a replay of two seeds with six slots, four of them filled by random play."""
    asked = config.default(request.param, "vdn_attention")
    method = replace(asked.options.method, size=8, heads=2, memory=4)
    env_options = asked.options.env if request.param != "group_matching" else replace(asked.options.env, horizon=8)
    built = replace(asked, options=replace(asked.options, method=method, env=env_options)).build()
    keys = jax.random.split(jax.random.key(0), 2)
    models = jax.vmap(built.method.init)(keys)
    played = jax.jit(lambda: rollout.random_tasks(built.env, models, 4, jnp.array([1.0, 0.5]), keys))()
    ring = jax.tree.map(lambda leaf: jnp.pad(leaf, [(0, 0), (0, 2)] + [(0, 0)] * (leaf.ndim - 2)), played)
    return built.env, Replay(ring, jnp.array([4, 4]))


@cache
def programs(env):
    """What restores and what compares, compiled once for an environment."""
    return jax.jit(partial(compression.play_again, env)), jax.jit(compression.differing)


def differing(env, replay, trajectories):
    """How many of these episodes do not come back as those in the replay are, and whether the first is one of them."""
    play_again, differ = programs(env)
    found = differ(play_again(compression.condense(env, trajectories), replay.inserted), replay.trajectories)
    return int(found.sum()), bool(found[0, 0])


def test_episodes_played_again_are_the_same_to_the_last_bit(held):
    env, replay = held
    assert differing(env, replay, replay.trajectories) == (0, False)


def test_little_is_kept(held):
    env, replay = held
    small, large = (
        sum(leaf.nbytes for leaf in jax.tree.leaves(tree))
        for tree in (compression.condense(env, replay.trajectories), replay.trajectories)
    )
    assert small < large / (4 if env.spec.horizon == 8 else 25)


@pytest.mark.parametrize("change", ["actions", "key", "rewards"])
def test_one_that_is_not_the_same_is_noticed(held, change):
    env, replay = held
    leaf = getattr(replay.trajectories, change)
    other = replace(replay.trajectories, **{change: leaf.at[0, 0].set((leaf[0, 0] + 1) % 2)})
    assert differing(env, replay, other) == (1, True)


def test_a_state_that_is_not_the_same_is_noticed(held):
    env, replay = held
    later = jax.tree.map(lambda leaf: leaf.at[0, 0, 1].add(1) if leaf.dtype != bool else leaf, replay.trajectories.states)
    other = Replay(replace(replay.trajectories, states=later), replay.inserted)
    assert differing(env, other, replay.trajectories) == (1, True)


def test_empty_slots_stay_empty(held):
    env, replay = held
    condensed = compression.condense(env, replay.trajectories)
    restored = programs(env)[0](condensed, jnp.array([4, 1]))
    for leaf in jax.tree.leaves(restored):
        assert not np.asarray(leaf[0, 4:]).any()
        assert not np.asarray(leaf[1, 1:]).any()
    assert np.asarray(restored.valid[0, :4]).any(axis=1).all()


def test_episodes_kept_whole_take_their_places(held):
    _, replay = held
    nothing = jax.tree.map(jnp.zeros_like, replay.trajectories)
    filled = compression.put_back(
        nothing, compression.leave(replay.trajectories, jnp.array([1, 7, 7]))
    )  # seeds have six slots each
    for seed, slot in np.ndindex(2, 6):
        expected = replay.trajectories if (seed, slot) in ((0, 1), (1, 1)) else nothing
        jax.tree.map(lambda one, other, at=(seed, slot): np.testing.assert_array_equal(one[at], other[at]), filled, expected)
