"""When lines of metrics and evaluations are due."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from refil.training import counters
from refil.training.setup import TrainConfig

TRAIN = TrainConfig(steps=100, seeds=4, seed=7, eval_every=30)
LOG_EVERY = 10


def counts_of(**changes) -> counters.Counters:
    arrays = {name: jnp.asarray(values) for name, values in changes.items()}
    return replace(counters.init(TRAIN, ["loss"]), **arrays)


def test_every_seed_starts_at_zero_with_its_own_number():
    counts = counters.init(TRAIN, ["loss", "td_loss"])
    np.testing.assert_array_equal(counts.seed, [7, 8, 9, 10])
    for name in ("episodes", "env_steps", "updates", "next_eval", "logged_at", "updates_since_log"):
        np.testing.assert_array_equal(getattr(counts, name), [0, 0, 0, 0])
    assert set(counts.metrics) == {"loss", "td_loss"}


def test_the_first_seed_may_be_an_argument_of_a_program_that_all_seeds_share():
    lowered = [
        jax.jit(lambda first, train=train: counters.init(train, ["loss"], first)).lower(jnp.int32(train.seed))
        for train in (TRAIN, replace(TRAIN, seed=3))
    ]
    assert lowered[0].as_text() == lowered[1].as_text()
    np.testing.assert_array_equal(lowered[0].compile()(jnp.int32(7)).seed, counters.init(TRAIN, ["loss"]).seed)


def test_seeds_run_until_they_have_made_their_steps():
    np.testing.assert_array_equal(counters.running(TRAIN, counts_of(env_steps=[0, 99, 100, 120])), [True, True, False, False])


def test_an_evaluation_is_due_after_the_first_episodes_at_its_time_and_at_the_end():
    counts = counts_of(episodes=[8, 16, 16, 24], logged_at=[0, 8, 8, 8], env_steps=[9, 20, 41, 100], next_eval=[0, 40, 40, 130])
    np.testing.assert_array_equal(counters.eval_due(TRAIN, counts), [True, False, True, True])


def test_nothing_is_due_twice():
    counts = counts_of(episodes=[8, 8, 8, 8], logged_at=[8, 8, 8, 8], env_steps=[9, 50, 100, 120], next_eval=[0, 40, 40, 40])
    assert not counters.eval_due(TRAIN, counts).any()
    assert not counters.log_due(TRAIN, LOG_EVERY, counts).any()


def test_a_line_is_due_every_log_every_episodes_and_with_every_evaluation():
    counts = counts_of(episodes=[9, 10, 19, 19], logged_at=[8, 8, 12, 12], env_steps=[5, 5, 5, 50], next_eval=[40, 40, 40, 40])
    np.testing.assert_array_equal(counters.log_due(TRAIN, LOG_EVERY, counts), [False, True, False, True])


def test_what_was_logged_is_reset_and_the_next_evaluation_is_scheduled():
    counts = counts_of(
        episodes=[9, 10, 19, 19],
        logged_at=[8, 8, 12, 12],
        env_steps=[5, 5, 5, 50],
        next_eval=[40, 40, 40, 40],
        updates_since_log=[1, 2, 3, 4],
    )
    counts = replace(counts, metrics={"loss": jnp.array([1.0, 2.0, 3.0, 4.0])})
    after = counters.mark_logged(TRAIN, LOG_EVERY, counts)
    np.testing.assert_array_equal(after.logged_at, [8, 10, 12, 19])
    np.testing.assert_array_equal(after.next_eval, [40, 40, 40, 80])  # only the last seed was evaluated
    np.testing.assert_array_equal(after.updates_since_log, [1, 0, 3, 0])
    np.testing.assert_array_equal(after.metrics["loss"], [1, 0, 3, 0])
    assert not counters.log_due(TRAIN, LOG_EVERY, after).any()
    np.testing.assert_array_equal(after.env_steps, counts.env_steps)
