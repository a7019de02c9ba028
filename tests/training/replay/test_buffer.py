"""The replay buffer, and packing: it changes where timesteps lie, never what is learned from them."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import rollout
from refil.nn.kernels import overlap
from refil.training import config
from refil.training.replay import buffer
from refil.training.replay.buffer import PackSize, ReplayBuffer
from refil.types import Trajectory
from tests.tiny_methods import METHODS, RECURRENT, marked_slow, q_values, small


def trajectories(numbers) -> Trajectory:
    """Return episodes that differ in their reward."""
    numbers = jnp.asarray(numbers, jnp.float32)
    flags = jnp.zeros((len(numbers), 1), bool)
    zeros = jnp.zeros(len(numbers), jnp.int32)
    actions, words = jnp.zeros((len(numbers), 1, 1), jnp.int32), jnp.zeros((len(numbers), 2), jnp.uint32)
    return Trajectory((), actions, numbers[:, None], flags, flags, flags[:, 0], zeros, words)


def rewards_in(ring: ReplayBuffer) -> list[float]:
    return np.asarray(ring.trajectories.rewards[:, 0]).tolist()


def filled(*rounds) -> ReplayBuffer:
    """Return a buffer of five slots after these insertions."""
    ring = ReplayBuffer(trajectories([0, 0, 0, 0, 0]), jnp.zeros((), jnp.int32))
    for numbers in rounds:
        ring = buffer.insert(ring, trajectories(numbers), jnp.asarray(True))
    return ring


def test_new_episodes_replace_the_oldest():
    ring = filled([1, 2, 3], [4, 5, 6])
    assert rewards_in(ring) == [6, 2, 3, 4, 5]
    assert ring.num_inserted == 6


def test_unwanted_episodes_change_nothing():
    ring = filled([1, 2, 3])
    same = buffer.insert(ring, trajectories([7, 8, 9]), jnp.asarray(False))
    assert rewards_in(same) == rewards_in(ring)
    assert same.num_inserted == ring.num_inserted


def test_sampled_episodes_are_distinct_uniform_and_never_from_empty_slots():
    ring = filled([1, 2, 3])
    slots = jax.vmap(lambda key: buffer.sample_indices(ring, 2, key))(jax.random.split(jax.random.key(0), 3000))
    slots = np.asarray(slots)
    assert (slots[:, 0] != slots[:, 1]).all()
    np.testing.assert_allclose(np.bincount(slots.reshape(-1), minlength=5) / 3000, [2 / 3, 2 / 3, 2 / 3, 0, 0], atol=0.04)


def test_take_episodes_returns_the_episodes_in_the_slots():
    np.testing.assert_array_equal(buffer.take_episodes(filled([1, 2, 3]), jnp.array([2, 0])).rewards[:, 0], [3, 1])


SMALL, LARGE = PackSize(100, 4), PackSize(208, 10)
HORIZON, BATCH = 24, 16


@cache
def setup_of(recurrent: bool):
    options = {"size": 8, "heads": 2, "memory": 4, "mixing": 4, "recurrent": recurrent, "last_action": True}
    return (
        config.default("group_matching", "refil").with_options({"agents": 3, "cells": 2, "horizon": HORIZON}, options).build()
    )


@pytest.fixture(scope="module")
def batch() -> Trajectory:
    """Sixteen short episodes of random play."""
    env, keys = setup_of(True).env, jax.random.split(jax.random.key(1), 1)
    tasks = jnp.zeros((1, BATCH), jnp.int32)
    played = jax.jit(lambda: rollout.rollout(env, rollout.random_policy, (), tasks, keys))()
    played = jax.tree.map(lambda leaf: leaf[0], played)
    assert buffer.fits(buffer.first_fit(played.valid), SMALL)
    return played


@cache
def loss_and_gradient(recurrent: bool, size: PackSize | None, overlapped: bool):
    """Return a compiled program for one packed size."""
    setup = setup_of(recurrent)

    def loss(model, trajectories, plan):
        return setup.method.loss(model, model, buffer.rebuild_batch(setup.env, trajectories, plan, size), jax.random.key(2))[0]

    return jax.jit(jax.value_and_grad(loss))


@pytest.mark.parametrize(
    ("recurrent", "size", "overlapped"),
    [
        (True, SMALL, False),
        pytest.param(True, SMALL, True, marks=pytest.mark.slow),
        (False, SMALL, False),
        pytest.param(True, LARGE, True, marks=pytest.mark.slow),
        pytest.param(False, LARGE, True, marks=pytest.mark.slow),
    ],
)
def test_a_packed_batch_has_the_same_loss_and_gradient(batch, recurrent, size, overlapped, monkeypatch):
    model = setup_of(recurrent).method.init(jax.random.key(0))
    long = replace(batch, valid=batch.valid.at[3].set(True))  # one episode fills a row of time
    for episodes in (batch, long):
        plan = buffer.first_fit(episodes.valid)
        assert buffer.fits(plan, size)
        padded = loss_and_gradient(recurrent, None, False)(model, episodes, plan)
        monkeypatch.setattr(overlap, "on_gpu", lambda: overlapped)
        packed = loss_and_gradient(recurrent, size, overlapped)(model, episodes, plan)
        monkeypatch.undo()
        jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-6), packed, padded)


@pytest.fixture(scope="module")
def layouts(batch):
    """The same episodes padded and packed, and the timesteps of each."""
    plan = buffer.first_fit(batch.valid)
    padded, packed = (buffer.rebuild_batch(setup_of(True).env, batch, plan, size) for size in (None, SMALL))
    return padded, packed, np.asarray(plan.length)


def assert_same_q_values(model, layouts):
    padded, packed, lengths = layouts
    alone, together = (np.asarray(q_values(model, each)) for each in (padded, packed))
    in_a_row = np.concatenate([episode[:length] for episode, length in zip(alone, lengths, strict=True)])
    np.testing.assert_allclose(together[0, : len(in_a_row)], in_a_row, rtol=1e-4, atol=1e-6)
    return together


@pytest.mark.parametrize("name", marked_slow([(name,) for name in METHODS], fast=("refil",)))
def test_utilities_remember_nothing_of_the_episode_before(layouts, name):
    method = small(name, RECURRENT, setup_of(True).env.spec)
    assert_same_q_values(jax.jit(method.init)(jax.random.key(4)), layouts)


def test_what_networks_sample_does_not_depend_on_packing(layouts):
    model = small("roma", RECURRENT, setup_of(True).env.spec, sample_roles=True).init(jax.random.key(4))
    together = assert_same_q_values(model, layouts)
    mean_roles = replace(model, utility=replace(model.utility, sample_roles=False))
    assert not np.allclose(together, q_values(mean_roles, layouts[1]))


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_every_step_is_packed_once(batch, size):
    packed, episode_id, is_first, index = buffer.pack(batch, buffer.first_fit(batch.valid), size)
    assert packed.valid.shape == (1, size.timesteps - 1)
    assert packed.valid.sum() == batch.valid.sum()
    assert is_first.sum() == BATCH
    for episode in range(BATCH):
        here = np.asarray(episode_id[:, :-1] == episode) & np.asarray(packed.valid)
        np.testing.assert_array_equal(np.asarray(packed.rewards)[here], batch.rewards[episode][batch.valid[episode]])
        np.testing.assert_array_equal(np.asarray(packed.actions)[here], batch.actions[episode][batch.valid[episode]])
    used = np.asarray(index.position)[np.asarray(index.position) < size.rows * (HORIZON + 1)]
    assert len(set(used)) == len(used) == batch.valid.sum() + BATCH


@pytest.mark.parametrize(
    ("lengths", "rows", "fit"),
    [
        ([24] * 16, 8, False),  # 25 timesteps each, 25 in a row
        ([24] * 16, 16, True),
        ([11] * 16, 8, True),  # 12 timesteps, two episodes in a row
        ([12] * 16, 8, False),
        ([24, 24, *[2] * 14], 4, True),  # two rows for the long episodes, two for 42 timesteps of short ones
        ([24, 24, 24, *[2] * 13], 4, False),
    ],
)
def test_episodes_fit_if_their_timesteps_and_rows_do(lengths, rows, fit):
    plan = buffer.first_fit(jnp.arange(HORIZON) < jnp.asarray(lengths)[:, None])
    timesteps = sum(lengths) + BATCH
    assert buffer.fits(plan, PackSize(timesteps, rows)) == fit
    assert not buffer.fits(plan, PackSize(timesteps - 1, rows))
    positions = {
        (int(row), int(start) + t)
        for row, start, length in zip(plan.row, plan.start, plan.length, strict=True)
        for t in range(length)
    }
    assert len(positions) == timesteps
    assert all(0 <= timestep <= HORIZON for _, timestep in positions)


def test_packed_sizes_are_whole_timesteps_per_episode_and_smaller_than_the_padded_size():
    assert buffer.pack_sizes(32, 150, (0.625, 0.45)) == ((32 * 68, 16), (32 * 95, 28))
    assert buffer.pack_sizes(5, 9, (0.5, 0.45)) == ((25, 4),)
    assert buffer.pack_sizes(2, 3, (0.0, 0.6, 1.0)) == ((4, 2), (6, 2))
    assert buffer.pack_sizes(1, 150, (0.005,)) == ((2, 1),)  # no episode has fewer timesteps
    assert buffer.pack_sizes(7, 150, ()) == ()
