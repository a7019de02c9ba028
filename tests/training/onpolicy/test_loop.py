"""On-policy iterations, with seeds that must not affect each other, and a small game that is learned."""

from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

import refil
from refil.errors import RefilError
from refil.training.onpolicy import loop
from tests.tiny_streams import small


class Programs:
    """The compiled programs of a setup."""

    def __init__(self, setup) -> None:
        self.setup = setup
        self.init, self.iterate = (jax.jit(partial(each, setup)) for each in (loop.init, loop.iterate))

    def run(self, iterations: int = 3, state=None):
        state = self.init() if state is None else state
        for _ in range(iterations):
            state = self.iterate(state)
        return state


@pytest.fixture(scope="module")
def programs() -> Programs:
    return Programs(small(seeds=2).build())


@pytest.fixture(scope="module")
def two(programs):
    return programs.run()


def test_counters_count_steps_episodes_and_updates(two):
    counts = two.counters
    np.testing.assert_array_equal(counts.env_steps, 3 * 8 * 6)
    np.testing.assert_array_equal(counts.updates, 3 * 2 * 2)
    assert (counts.episodes > 3 * 8).all()  # episodes last four steps at most
    assert (counts.episodes <= 3 * 8 * 6).all()


def test_the_same_run_gives_the_same_bytes_and_can_continue(programs, two):
    jax.tree.map(np.testing.assert_array_equal, programs.run(2, programs.run(1)), two)


def test_a_seed_alone_learns_the_same_as_in_a_batch(two):
    alone = Programs(small(seeds=1, seed=1).build()).run()
    second = jax.tree.map(lambda leaf: leaf[1:], two)
    np.testing.assert_array_equal(alone.counters.episodes, second.counters.episodes)
    np.testing.assert_allclose(alone.learner.parameters, second.learner.parameters, rtol=1e-4, atol=1e-5)


def test_training_with_donated_buffers_learns_the_same(programs, two):
    """As the trainer calls it: playing must not return a buffer that learning overwrites."""
    play = jax.jit(partial(loop.play, programs.setup))
    learn = jax.jit(partial(loop.learn, programs.setup), donate_argnums=0)
    state = programs.init()
    for _ in range(3):
        state = learn(state, play(state))
    np.testing.assert_allclose(state.learner.parameters, two.learner.parameters, rtol=1e-4, atol=1e-5)


def test_epsilon_is_annealed_over_its_fraction_of_all_steps(programs, two):
    setup = programs.setup  # 5 % of 400 steps
    np.testing.assert_allclose(loop.epsilon(setup, programs.init().counters), 1.0)
    np.testing.assert_allclose(loop.epsilon(setup, two.counters), 0.05)


def test_sizes_that_contradict_each_other_are_refused():
    with pytest.raises(RefilError, match=r"train.envs 8 is not a multiple of algorithm.minibatches 3"):
        small(minibatches=3).build()
    with pytest.raises(RefilError, match=r"algorithm.rollout 6 is not a multiple of algorithm.reset_every 4"):
        small(reset_every=4).build()


def test_memory_is_needed_for_long_rollouts_as_well_as_for_many_environments():
    needed, longer, more = (loop.required_bytes(small(**each).build(), 1) for each in ({}, {"rollout": 600}, {"envs": 800}))
    name = "train.envs or algorithm.rollout"
    assert more[name] == 100 * needed[name]
    assert longer[name] > 50 * needed[name]
    assert longer["the size of the networks"] == needed["the size of the networks"]


def test_a_run_is_saved_resumed_and_loaded(tmp_path):
    config = {"steps": 200, "envs": 8, "rollout": 6, "reset_every": 2, "minibatches": 2, "epochs": 1, "log_every": 5}
    options = {"size": 8, "heads": 2, "mixing": 4}
    config |= {"eval_episodes": 4, "eval_every": 100}
    game = {"agents": 3, "cells": 3, "horizon": 6}
    call = partial(refil.train, "group_matching", "refil_pqn", env_options=game, method_options=options, **config)
    whole = call(out=tmp_path / "whole")
    stops = iter([False, False, True])
    part = call(out=tmp_path / "part", should_stop=lambda: next(stops))
    assert not part.finished
    resumed = call(out=tmp_path / "part", resume=True)
    jax.tree.map(np.testing.assert_array_equal, whole.teams[0].model, resumed.teams[0].model)
    lines = [[{k: v for k, v in line.items() if k != "seconds"} for line in run.metrics] for run in (whole, resumed)]
    assert lines[0] == lines[1]
    team = refil.load(tmp_path / "whole")
    assert 0 <= refil.evaluate(team, episodes=4).win_rate <= 1


@pytest.mark.slow
def test_a_small_game_is_learned():
    run = refil.train(
        str(Path(refil.__file__).parent / "examples" / "beacon.py"),
        "vdn_pqn",
        method_options={"size": 32, "heads": 2, "memory": 32},
        **{"steps": 60_000, "envs": 64, "rollout": 16, "minibatches": 4, "lr": 1e-3, "eval_every": 15_000},
    )
    rates = [line["win_rate"] for line in run.metrics if "win_rate" in line]
    assert rates[0] < 0.1
    assert rates[-1] > 0.4


@pytest.mark.slow
def test_group_matching_is_learned():
    run = refil.train(
        "group_matching",
        "refil_pqn",
        env_options={"agents": 3, "cells": 5, "horizon": 8},
        **{"steps": 12_000, "envs": 16, "rollout": 8, "minibatches": 2, "eval_every": 4000},
    )
    rates = [line["win_rate"] for line in run.metrics if "win_rate" in line]
    assert rates[0] < 0.6
    assert rates[-1] > 0.8
