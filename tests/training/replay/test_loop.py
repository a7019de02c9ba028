"""The loop on the device, with seeds that must not notice each other."""

from functools import partial

import jax
import numpy as np
import pytest

from refil.training.replay import loop
from refil.training.replay.loop import TrainState
from tests.tiny_runs import run, small


@pytest.fixture(scope="module")
def three() -> tuple[TrainState, list[tuple[int, int]]]:
    return run(small(seeds=3).build())


def test_one_update_per_episode_once_there_is_a_batch(three):
    training, _ = three
    np.testing.assert_array_equal(training.learner.updates, training.episodes - 4)  # the first 4 were too few to learn from


def test_every_seed_does_its_steps_and_then_stands_still(three):
    training, _ = three
    assert (training.env_steps >= 200).all()
    assert (training.env_steps < 200 + 2 * 6).all()
    np.testing.assert_array_equal(training.replay.inserted, training.episodes)


def test_a_seed_alone_follows_the_same_seed_in_company(three):
    training, lines = three
    alone, own_lines = run(small(seeds=1, seed=1).build())
    second = jax.tree.map(lambda leaf: leaf[1], training)
    jax.tree.map(
        lambda ours, theirs: np.testing.assert_allclose(ours[0], theirs, rtol=1e-4, atol=1e-5),
        alone.learner.model,
        second.learner.model,
    )
    assert alone.env_steps[0] == second.env_steps
    assert [episodes for _, episodes in own_lines] == [episodes for seed, episodes in lines if seed == 1]


def test_seeds_differ(three):
    first, second = (jax.tree.leaves(three[0].learner.model.utility.encode.embed)[0][seed] for seed in (0, 1))
    assert not np.allclose(first, second)


def test_the_same_experiment_gives_the_same_bytes(three):
    again, _ = run(small(seeds=3).build())
    jax.tree.map(np.testing.assert_array_equal, again, three[0])


def test_more_steps_go_on_where_fewer_ended():
    built = small(seeds=2, steps=300).build()
    straight, _ = run(built)
    part, _ = run(small(seeds=2, steps=150).build())
    whole, _ = run(built, part)
    jax.tree.map(np.testing.assert_array_equal, whole.learner, straight.learner)
    jax.tree.map(np.testing.assert_array_equal, whole.replay, straight.replay)


def test_lines_come_every_so_many_episodes_at_evaluations_and_at_the_end(three):
    training, lines = three
    for seed in range(3):
        mine = [episodes for number, episodes in lines if number == seed]
        assert mine[0] == 2  # evaluated at once
        assert set(range(10, int(training.episodes[seed]), 10)) <= set(mine)
        assert mine[-1] == training.episodes[seed]


def test_an_iteration_is_compiled_once():
    built = small(seeds=2).build()
    before = jax.eval_shape(partial(loop.begin, built))
    assert loop.shapes_played(built, before) == jax.eval_shape(partial(loop.play_on, built), before)
    after = jax.eval_shape(partial(loop.iterate, built), before)
    assert jax.eval_shape(partial(loop.report, built), after) == before  # so that it can begin again
