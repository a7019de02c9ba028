"""Episodes on disk: little is kept, and nothing is lost."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import collect, condense, experiment
from refil.replay import Replay

ENVS = ["group_matching", "2s1z_vs_1s2z"]


@pytest.fixture(scope="module", params=ENVS)
def held(request):
    """An environment, and a replay of two seeds with six slots, four of them filled by random play."""
    asked = experiment.default(request.param, "vdn_attention")
    method = replace(asked.options.method, size=8, heads=2, memory=4)
    env_options = asked.options.env if request.param != "group_matching" else replace(asked.options.env, horizon=8)
    built = replace(asked, options=replace(asked.options, method=method, env=env_options)).build()
    keys = jax.random.split(jax.random.key(0), 2)
    models = jax.vmap(built.method.init)(keys)
    played = jax.jit(lambda: collect.random_tasks(built.env, models, 4, jnp.array([1.0, 0.5]), keys))()
    ring = jax.tree.map(lambda leaf: jnp.pad(leaf, [(0, 0), (0, 2)] + [(0, 0)] * (leaf.ndim - 2)), played)
    return built.env, Replay(ring, jnp.array([4, 4]))


@cache
def programs(env):
    """What restores and what compares, compiled once for an environment."""
    return jax.jit(partial(condense.restore, env)), jax.jit(condense.same)


def comes_back(env, replay, recordings):
    """Whether these episodes come back as those in the replay are."""
    restore, same = programs(env)
    return bool(same(restore(condense.condense(env, recordings), replay.inserted), replay.recordings))


def test_episodes_played_again_are_the_same_to_the_last_bit(held):
    env, replay = held
    assert comes_back(env, replay, replay.recordings)


def test_little_is_kept(held):
    env, replay = held
    small, large = (
        sum(leaf.nbytes for leaf in jax.tree.leaves(tree))
        for tree in (condense.condense(env, replay.recordings), replay.recordings)
    )
    assert small < large / (4 if env.spec.horizon == 8 else 25)


@pytest.mark.parametrize("change", ["actions", "key", "rewards"])
def test_one_that_is_not_the_same_is_noticed(held, change):
    env, replay = held
    leaf = getattr(replay.recordings, change)
    other = replace(replay.recordings, **{change: leaf.at[0, 0].set((leaf[0, 0] + 1) % 2)})
    assert not comes_back(env, replay, other)


def test_a_state_that_is_not_the_same_is_noticed(held):
    env, replay = held
    later = jax.tree.map(lambda leaf: leaf.at[0, 0, 1].add(1) if leaf.dtype != bool else leaf, replay.recordings.states)
    assert not comes_back(env, Replay(replace(replay.recordings, states=later), replay.inserted), replay.recordings)


def test_empty_slots_stay_empty(held):
    env, replay = held
    condensed = condense.condense(env, replay.recordings)
    restored = jax.jit(lambda condensed: condense.restore(env, condensed, jnp.array([4, 1])))(condensed)
    for leaf in jax.tree.leaves(restored):
        assert not np.asarray(leaf[0, 4:]).any()
        assert not np.asarray(leaf[1, 1:]).any()
    assert np.asarray(restored.valid[0, :4]).any(axis=1).all()
