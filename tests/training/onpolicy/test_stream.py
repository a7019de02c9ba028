"""Streams of episodes: where episodes end and start, and what the utility remembers."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn.utilities import unroll_overlapped
from refil.training import config
from refil.training.onpolicy import loop, stream
from tests.tiny_streams import small

LENGTHS = np.array([1, 2, 3, 4])  # of the tasks: the last one never terminates and is truncated by the horizon


@pytest.fixture(scope="module")
def setup():
    return small(rollout=12, seeds=2).build()


@pytest.fixture(scope="module")
def played(setup):
    """Two rollouts in a row: the state before the second one starts in the middle of episodes."""
    state = jax.jit(partial(loop.init, setup))()
    play = jax.jit(partial(loop.play, setup))
    first = play(state)
    middle = loop.TrainState(state.counters, state.learner, first.stream)
    return middle, play(middle)


def ends(batch) -> np.ndarray:
    return np.asarray(batch.terminated | ~batch.valid)


def test_an_episode_follows_each_end(played):
    batch = played[1].batch
    is_first = np.asarray(batch.observations.is_first)
    np.testing.assert_array_equal(is_first[:, :, 1:], ends(batch))
    np.testing.assert_array_equal(played[1].ended, ends(batch).sum(axis=(1, 2)))


def test_episodes_have_the_lengths_of_their_tasks(played):
    batch = played[1].batch
    time = np.asarray(batch.observations.entities)[:, :, :-1, 0, 0]  # the first feature counts timesteps
    assert set(time[np.asarray(batch.terminated)].tolist()) == {0.0, 1.0, 2.0}
    assert set(time[~np.asarray(batch.valid)].tolist()) == {3.0}


def test_tasks_are_sampled_uniformly():
    setup = small(envs=4096, minibatches=2).build()
    starts = jax.jit(partial(stream.new_episodes, setup))(jnp.zeros((1, 4)), jax.random.key(0)[None])
    counts = np.bincount(np.asarray(starts.env_states.length)[0], minlength=10)[[1, 2, 3, 9]]
    np.testing.assert_allclose(counts / 4096, 0.25, atol=0.03)


def test_win_rates_count_the_episodes_that_ended_in_a_rollout(setup):
    state = jax.jit(partial(loop.init, setup))()
    after, batch, _ = jax.jit(partial(stream.rollout, setup))(
        state.learner.model, jnp.ones(2), state.stream, jax.random.split(jax.random.key(1))
    )
    # A task of length n is won if the first agent's n-th action is 1; only that one is available at odd timesteps.
    time, actions = np.asarray(batch.observations.entities)[:, :, :-1, 0, 0], np.asarray(batch.actions)[..., 0]
    for seed in range(2):
        for task, length in enumerate(LENGTHS[:3]):
            over = np.asarray(batch.terminated)[seed] & (time[seed] == length - 1)
            kept, won = 0.99 ** over.sum(), (over & (actions[seed] == 1)).sum()
            np.testing.assert_allclose(after.win_rates[seed, task], (1 - kept) * won / over.sum(), rtol=1e-4)
    np.testing.assert_array_equal(after.win_rates[:, 3], 0.0)  # it never terminates
    np.testing.assert_array_less(0.0, after.win_rates[:, 1])


def test_the_last_action_is_none_at_the_first_timestep_and_the_one_taken_later(played):
    batch = played[1].batch
    obs, is_first = batch.observations, np.asarray(batch.observations.is_first)
    assert (np.asarray(obs.last_action)[is_first] == -1).all()
    follows = ~is_first[:, :, 1:]
    np.testing.assert_array_equal(np.asarray(obs.last_action)[:, :, 1:][follows], np.asarray(batch.actions)[follows])


def test_groups_change_only_with_episodes(played):
    batch = played[1].batch
    same = (np.asarray(batch.groups)[:, :, 1:] == np.asarray(batch.groups)[:, :, :-1]).all(axis=-1)
    assert same[~ends(batch)].all()
    assert not same.all()


def test_only_available_actions_are_taken(played):
    batch = played[1].batch
    taken = jnp.take_along_axis(batch.observations.available[:, :, :-1], batch.actions[..., None], axis=-1)
    assert taken.all()


def test_episodes_of_a_seed_have_different_numbers(played):
    batch = played[1].batch
    ids, is_first = np.asarray(batch.episode_id), np.asarray(batch.observations.is_first)
    starts = is_first.copy()
    starts[:, :, 0] = True  # an episode in progress counts as well
    for seed in range(len(ids)):
        assert len(set(ids[seed][starts[seed]].tolist())) == starts[seed].sum()
    np.testing.assert_array_equal(np.diff(ids, axis=-1) != 0, is_first[:, :, 1:])


def test_recomputed_memories_of_every_view_equal_those_while_playing(setup, played):
    state, rollout = played
    assert not np.asarray(rollout.batch.observations.is_first)[:, :, 0].all()
    assert np.abs(state.stream.memory).max() > 0.01
    model, batch = jax.tree.map(lambda leaf: leaf[0], (state.learner.model, loop.batch_to_learn(state, rollout)))
    views = setup.method.views(batch.observations.visible, batch.groups)
    assert len(views) == 3
    features = jax.jit(lambda model: unroll_overlapped(model.utility, batch, views, None, lambda barrier: None)[1])(model)
    after_rollout = rollout.stream.memory[0]  # after the last step taken
    np.testing.assert_allclose(features[:, :, -2], after_rollout, atol=1e-5)


def test_a_method_without_imagined_views_keeps_one_memory():
    setup = small("qmix_pqn").build()
    state = jax.eval_shape(partial(loop.init, setup))
    assert state.stream.memory.shape == (1, 1, 8, 2, 4)


def test_every_draw_of_unit_stats_is_a_task_to_sample_by_learnability():
    network = {"size": 8, "heads": 2, "mixing": 4, "memory": 4}
    default = config.default("2-4m", "refil_pqn")
    chosen = default.with_options({"vary": ["damage"], "draws": 3}, network, learnability=0.5, envs=4096, minibatches=2)
    often = jnp.zeros((1, 9)).at[0, 4].set(0.5)  # 3m#1; all other tasks have the least learnability
    starts = jax.jit(partial(stream.new_episodes, chosen.build()))(often, jax.random.key(0)[None])
    counts = np.bincount(np.asarray(starts.tasks)[0], minlength=9) / 4096
    # Learnability is 0.25 + 0.01 for that task and 0.01 for the other eight: 0.26 / 0.34 of one half, and 1 / 9 of the other.
    np.testing.assert_allclose(counts[4], 0.5 * 0.26 / 0.34 + 0.5 / 9, atol=0.03)
    assert (counts > 0.04).all()
    factor = np.asarray(starts.env_states.multipliers["damage"])[0]
    expected = np.asarray(chosen.build_env().multipliers["damage"])[np.asarray(starts.tasks)[0]]
    np.testing.assert_array_equal(factor, expected)
