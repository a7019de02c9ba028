"""Training iterations, with seeds that must not affect each other."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.training import counters
from refil.training.replay import loop
from refil.training.replay.loop import TrainState
from refil.training.setup import TrainConfig
from tests.tiny_runs import LOG_EVERY, Programs, small


@pytest.fixture(scope="module")
def programs() -> Programs:
    return Programs(small(seeds=3).build())


@pytest.fixture(scope="module")
def three(programs) -> tuple[TrainState, list[tuple[int, int]]]:
    """Three seeds after training, and when they had lines of metrics due."""
    return programs.run()


def test_there_is_one_update_per_episode_once_the_buffer_holds_a_batch(three):
    counts = three[0].counters
    np.testing.assert_array_equal(counts.updates, counts.episodes - 4)  # the first 4 episodes are less than a batch


def test_every_seed_makes_its_steps_and_then_stops(three):
    state, _ = three
    assert (state.counters.env_steps >= 200).all()
    assert (state.counters.env_steps < 200 + 2 * 6).all()
    np.testing.assert_array_equal(state.replay.num_inserted, state.counters.episodes)


def test_a_finished_seed_keeps_its_learner_and_buffer(programs, three):
    state, _ = three
    after = programs.iterate(state)
    jax.tree.map(np.testing.assert_array_equal, (after.learner, after.replay), (state.learner, state.replay))
    np.testing.assert_array_equal(after.counters.env_steps, state.counters.env_steps)


def test_a_seed_alone_learns_the_same_as_in_a_batch(three):
    state, lines = three
    alone, own_lines = Programs(small(seeds=1, seed=1).build()).run()
    second = jax.tree.map(lambda leaf: leaf[1], state)
    jax.tree.map(
        lambda ours, theirs: np.testing.assert_allclose(ours[0], theirs, rtol=1e-4, atol=1e-5),
        alone.learner.model,
        second.learner.model,
    )
    assert alone.counters.env_steps[0] == second.counters.env_steps
    assert [episodes for _, episodes in own_lines] == [episodes for seed, episodes in lines if seed == 1]


def test_seeds_differ(three):
    weight = three[0].learner.model.utility.encoder.embed.weight
    assert not np.allclose(weight[0], weight[1])


def test_the_same_run_gives_the_same_bytes(programs, three):
    again, _ = programs.run()
    jax.tree.map(np.testing.assert_array_equal, again, three[0])


@pytest.mark.slow
def test_a_run_with_more_steps_continues_where_one_with_fewer_steps_ended(programs, three):
    part, _ = Programs(small(seeds=3, steps=100).build()).run()
    assert (part.counters.env_steps < three[0].counters.env_steps).all()
    whole, _ = programs.run(part)
    jax.tree.map(np.testing.assert_array_equal, whole.learner, three[0].learner)
    jax.tree.map(np.testing.assert_array_equal, whole.replay, three[0].replay)


def test_lines_are_due_every_log_every_episodes_at_evaluations_and_at_the_end(three):
    state, lines = three
    for seed in range(3):
        mine = [episodes for number, episodes in lines if number == seed]
        assert mine[0] == 2  # the first episodes are evaluated
        assert set(range(LOG_EVERY, int(state.counters.episodes[seed]), LOG_EVERY)) <= set(mine)
        assert mine[-1] == state.counters.episodes[seed]


def test_an_iteration_is_compiled_once(programs, three):
    """Every iteration returns a state that the same program accepts; a second trace would compile for minutes on a GPU."""
    assert programs.traces == 1
    programs.run(programs.iterate(programs.init()))
    assert programs.traces == 1


def test_every_seed_may_start_from_a_given_model(programs):
    setup = programs.setup
    model = setup.method.init(jax.random.key(9))
    learner = loop.init(setup, model).learner
    for seed in range(3):
        jax.tree.map(lambda ours, theirs, s=seed: np.testing.assert_array_equal(ours[s], theirs), learner.model, model)
        jax.tree.map(lambda ours, theirs, s=seed: np.testing.assert_array_equal(ours[s], theirs), learner.target, model)


def test_epsilon_falls_linearly_to_its_final_value(programs):
    setup, train = programs.setup, TrainConfig(seeds=4)
    counts = replace(counters.init(train, []), env_steps=jnp.array([0, 2500, 5000, 10**6]))
    assert (setup.algorithm.epsilon_finish, setup.algorithm.epsilon_steps) == (0.05, 5000)
    np.testing.assert_allclose(loop.epsilon(setup, counts), [1.0, 0.525, 0.05, 0.05], atol=1e-6)


def test_the_estimate_of_memory_is_that_of_the_state_where_both_count():
    config = small(seeds=3, buffer=100)
    setup = config.build()
    state, needed = jax.eval_shape(partial(loop.init, setup)), loop.required_bytes(setup, 3)

    def num_bytes(tree) -> int:
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))

    assert 0.9 < needed["algorithm.buffer"] / num_bytes(state.replay) <= 1
    assert needed["the size of the networks"] == num_bytes(state.learner)
    doubled = small(seeds=3, buffer=100, envs=4, batch=10, eval_episodes=8)
    larger = loop.required_bytes(doubled.build(), 3)
    assert all(larger[name] == 2 * needed[name] for name in ("train.envs", "algorithm.batch", "train.eval_episodes"))
