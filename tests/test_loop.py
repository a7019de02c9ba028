"""The loop on the device, with seeds that must not notice each other."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import experiment, fold, loop
from refil.experiment import Experiment
from refil.loop import Loop, Training
from refil.settings import Refused


def small(method: str = "refil", **changes) -> Experiment:
    """A game that takes seconds."""
    default = experiment.default("group_matching", method)
    options = replace(
        default.options,
        env=replace(default.options.env, agents=3, cells=3, horizon=6),
        method=replace(default.options.method, size=8, heads=2, mixing=4),
    )
    # A batch of 5 cannot be folded, which leaves less to compile.
    fast = {"steps": 200, "batch": 5, "envs": 2, "buffer": 20, "eval_every": 60, "eval_episodes": 4, "log_every": 10}
    return replace(default, options=replace(options, **(fast | changes)))


def run(built: Loop, training: Training | None = None) -> tuple[Training, list[tuple[int, int]]]:
    """Train to the end; also which seeds had a line due, after how many episodes."""
    training = training if training is not None else jax.jit(partial(loop.begin, built))()
    advance, report = jax.jit(partial(loop.advance, built)), jax.jit(partial(loop.report, built))
    lines = []
    while (training.env_steps < built.schedule.steps).any():
        training = advance(training, jnp.int32(1000))
        due = np.asarray(loop.line_due(built, training))
        lines += [(int(seed), int(training.episodes[seed])) for seed in np.flatnonzero(due)]
        training = report(training)
    return training, lines


@pytest.fixture(scope="module")
def three() -> tuple[Training, list[tuple[int, int]]]:
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


def test_seeds_learn_in_groups_as_they_learn_alone(three, monkeypatch):
    """What a GPU does, on the CPU: groups of seeds in one product."""
    monkeypatch.setattr(loop, "group_size", lambda seeds: seeds)
    together, _ = run(small(seeds=3).build())
    assert_models_close(together, three[0])


def test_folded_batches_teach_what_unfolded_ones_do(monkeypatch):
    folded, _ = run(small(batch=8).build())
    monkeypatch.setattr(fold, "sizes", lambda batch: (batch,))
    unfolded, _ = run(small(batch=8).build())
    assert_models_close(folded, unfolded)


def assert_models_close(ours: Training, theirs: Training) -> None:
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4),
        ours.learner.model,
        theirs.learner.model,
    )


def test_the_loop_is_compiled_once():
    built = small(seeds=1).build()
    traces = []

    def counted(training, iterations):
        traces.append(1)
        return loop.advance(built, training, iterations)

    advance = jax.jit(counted)
    training = jax.jit(partial(loop.begin, built))()
    for iterations in (1, 2, 3):
        training = jax.jit(partial(loop.report, built))(advance(training, jnp.int32(iterations)))
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"steps": 5}, "less than one episode"), ({"batch": 21}, "--batch 21"), ({"envs": 21}, "--envs 21")],
)
def test_impossible_schedules_are_refused(changes, words):
    with pytest.raises(Refused, match=words):
        small(**changes).build()
