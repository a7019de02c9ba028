"""Compact checkpoints: little is stored, and nothing is lost."""

from dataclasses import replace
from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.plugins import load
from refil.rollout import random_policy, rollout_random_tasks
from refil.training.replay import compression
from refil.training.replay.buffer import ReplayBuffer
from refil.training.replay.compression import ReplayCompressor
from tests.slow import all_but

ENVS = [("group_matching", {"horizon": 8}), ("2s1z_vs_1s2z", {}), ("2s1z_vs_1s2z", {"vary": ("health", "speed"), "draws": 2})]


@pytest.fixture(scope="module", params=all_but((ENVS[0],), ENVS), ids=lambda env: env[0])
def filled(request):
    """An environment, and a buffer of two seeds with six slots, four of them filled by random play."""
    name, options = request.param
    module = load("refil.envs", name)
    env = module.build(replace(module.Config(), **options))
    keys = jax.random.split(jax.random.key(0), 2)
    played = jax.jit(lambda: rollout_random_tasks(env, random_policy, (), 4, keys))()
    ring = jax.tree.map(lambda leaf: jnp.pad(leaf, [(0, 0), (0, 2)] + [(0, 0)] * (leaf.ndim - 2)), played)
    return env, ReplayBuffer(ring, jnp.array([4, 4]))


@cache
def programs(env):
    """Return the compiled programs that restore and compare."""
    return jax.jit(partial(compression.decompress, env)), jax.jit(compression.mismatched)


def mismatched(env, replay, trajectories) -> tuple[int, bool]:
    """Return how many of these episodes come back differently from those in the buffer, and whether the first one does."""
    decompress, differ = programs(env)
    found = differ(decompress(compression.compress(env, trajectories), replay.num_inserted), replay.trajectories)
    return int(found.sum()), bool(found[0, 0])


def test_episodes_are_simulated_again_to_the_last_bit(filled):
    env, replay = filled
    assert mismatched(env, replay, replay.trajectories) == (0, False)


def test_compressed_episodes_are_small(filled):
    env, replay = filled
    small, large = (
        sum(leaf.nbytes for leaf in jax.tree.leaves(tree))
        for tree in (compression.compress(env, replay.trajectories), replay.trajectories)
    )
    assert small < large / (4 if env.spec.horizon == 8 else 25)


@pytest.mark.parametrize("change", ["actions", "key", "rewards"])
def test_an_episode_that_comes_back_differently_is_noticed(filled, change):
    env, replay = filled
    leaf = getattr(replay.trajectories, change)
    other = replace(replay.trajectories, **{change: leaf.at[0, 0].set((leaf[0, 0] + 1) % 2)})
    assert mismatched(env, replay, other) == (1, True)


def with_another_state(replay: ReplayBuffer) -> ReplayBuffer:
    """Change the second state of the first episode."""
    states = jax.tree.map(lambda leaf: leaf.at[0, 0, 1].add(1) if leaf.dtype != bool else leaf, replay.trajectories.states)
    return ReplayBuffer(replace(replay.trajectories, states=states), replay.num_inserted)


def test_a_state_that_comes_back_differently_is_noticed(filled):
    env, replay = filled
    assert mismatched(env, with_another_state(replay), replay.trajectories) == (1, True)


def test_empty_slots_stay_empty(filled):
    env, replay = filled
    compressed = compression.compress(env, replay.trajectories)
    restored = programs(env)[0](compressed, jnp.array([4, 1]))
    for leaf in jax.tree.leaves(restored):
        assert not np.asarray(leaf[0, 4:]).any()
        assert not np.asarray(leaf[1, 1:]).any()
    assert np.asarray(restored.valid[0, :4]).any(axis=1).all()


def test_uncompressed_episodes_return_to_their_slots(filled):
    _, replay = filled
    zeros = jax.tree.map(jnp.zeros_like, replay.trajectories)
    uncompressed = compression.take_slots(replay.trajectories, jnp.array([1, 7, 7]))  # seeds have six slots each
    restored = compression.set_slots(zeros, uncompressed)
    for seed, slot in np.ndindex(2, 6):
        expected = replay.trajectories if (seed, slot) in ((0, 1), (1, 1)) else zeros
        jax.tree.map(lambda one, other, at=(seed, slot): np.testing.assert_array_equal(one[at], other[at]), restored, expected)


class State(eqx.Module):
    """A training state with a buffer."""

    replay: ReplayBuffer


@pytest.mark.parametrize("filled", ENVS[:1], indirect=True, ids=lambda env: env[0])
def test_a_state_comes_back_with_the_episodes_that_cannot_be_simulated_again(filled):
    env, replay = filled
    compressor = ReplayCompressor(env)
    for buffer, expected in ((replay, 0), (with_another_state(replay), compression.SLOT_MULTIPLE)):
        state = State(buffer)
        compressed, uncompressed = compressor.compress(state)
        assert uncompressed == expected
        shapes = compressor.shapes(jax.eval_shape(lambda state=state: state), uncompressed)
        assert jax.tree.structure(shapes) == jax.tree.structure(compressed)
        assert [leaf.shape for leaf in jax.tree.leaves(shapes)] == [leaf.shape for leaf in jax.tree.leaves(compressed)]
        jax.tree.map(np.testing.assert_array_equal, compressor.decompress(compressed), state)
