"""How seeds are grouped and batches are folded changes nothing that is learned."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn.kernels import attention, gru
from refil.training import config, devices
from refil.training.replay import loop, packing, update
from refil.training.replay.loop import TrainState
from tests.tiny_runs import run, small


@pytest.fixture(scope="module")
def alone() -> TrainState:
    """Three seeds, each by itself, as on a CPU."""
    return run(small(seeds=3).build())[0]


def test_seeds_learn_in_groups_as_they_learn_alone(alone, monkeypatch):
    """What a GPU does, on the CPU: groups of seeds in one product."""
    monkeypatch.setattr(update, "group_size", lambda seeds: seeds)
    together, _ = run(small(seeds=3).build())
    assert_models_close(together, alone)


def test_folded_batches_teach_what_unfolded_ones_do():
    folded, _ = run(small(batch=8, fold=(0.25, 0.5, 0.625)).build())
    unfolded, _ = run(small(batch=8, fold=()).build())
    assert_models_close(folded, unfolded)


@pytest.mark.parametrize("short", [True, False])
def test_a_batch_is_folded_as_far_as_it_can_be(short, monkeypatch):
    """Folded in any other way, what is learned would be no number."""
    built, worked_out = small(batch=8, fold=(0.5,)).build(), update.gradients

    def gradients(loop, size, *rest):
        row, said = worked_out(loop, size, *rest)
        return (row if (size is not None) == short else jnp.nan * row), said

    monkeypatch.setattr(update, "gradients", gradients)
    training = jax.jit(partial(loop.begin, built))()
    trajectories = training.replay.trajectories
    valid = jnp.zeros_like(trajectories.valid).at[:, :, : 2 if short else 6].set(True)  # 24 instants of 40, or 56
    full = replace(training.replay, trajectories=replace(trajectories, valid=valid), inserted=training.replay.inserted + 20)
    ready = jnp.ones(1, bool)
    learner, _ = update.improve(built, training.seed, training.learner, training.metrics, full, training.episodes, ready)
    assert int(learner.updates[0]) == 2
    assert bool(jnp.isfinite(learner.parameters).all())


@pytest.mark.parametrize("recurrent", [False, True])
def test_groups_of_seeds_that_fold_differently_learn_as_each_does_alone(recurrent, monkeypatch):
    """Four seeds, two at once, one of them not ready, and episodes of which only some seeds' can be folded."""
    asked = small(seeds=4, batch=8, fold=(0.5,))
    built = replace(asked, options=replace(asked.options, method=replace(asked.options.method, recurrent=recurrent))).build()
    training = jax.jit(partial(loop.begin, built))()
    played = jax.jit(partial(loop.play, built))(training.learner, jax.random.split(jax.random.key(1), 4), jnp.ones(4))
    trajectories = jax.tree.map(lambda leaf: jnp.tile(leaf, (1, 10, *[1] * (leaf.ndim - 2))), played)
    lengths = jnp.array([6, 2, 6, 2])[:, None, None]
    trajectories = replace(trajectories, valid=trajectories.valid & (jnp.arange(trajectories.valid.shape[-1]) < lengths))
    full = replace(training.replay, trajectories=trajectories, inserted=training.replay.inserted + 20)
    ready = jnp.array([True, True, False, True])
    given = training.seed, training.learner, training.metrics, full, training.episodes, ready
    alone, by_two = [], []
    for size, ends in ((1, alone), (2, by_two)):
        monkeypatch.setattr(update, "group_size", lambda seeds, size=size: size)
        ends += jax.jit(partial(update.improve, built))(*given)
    np.testing.assert_array_equal(by_two[0].updates, [2, 2, 0, 2])
    np.testing.assert_array_equal(by_two[0].parameters[2], training.learner.parameters[2])
    np.testing.assert_allclose(by_two[0].parameters, alone[0].parameters, rtol=1e-3, atol=1e-4)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-3), by_two[1], alone[1])


def test_many_updates_are_some_and_then_some(monkeypatch):
    """With a number of environments that leaves no round parts; the order of updates is the same."""
    together, _ = run(small(envs=6, batch=8).build())
    monkeypatch.setattr(update, "TOGETHER", 4)
    in_parts, _ = run(small(envs=6, batch=8).build())
    np.testing.assert_array_equal(in_parts.learner.updates, together.learner.updates)
    np.testing.assert_array_equal(in_parts.learner.target_updated_at, together.learner.target_updated_at)
    assert_models_close(in_parts, together)


def assert_models_close(ours: TrainState, theirs: TrainState) -> None:
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4),
        ours.learner.model,
        theirs.learner.model,
    )


@pytest.mark.gpu
def test_on_a_gpu_kernels_that_overlap_compute_the_same():
    asked = config.default("3-8sz", "refil")
    asked = replace(asked, options=replace(asked.options, envs=8, batch=8, buffer=8, fold=(0.55,)))
    ends = []
    for jit in (jax.jit, devices.jit):
        training = jax.jit(partial(loop.begin, asked.build()))()
        iterate = jit(partial(loop.iterate, asked.build()))
        for _ in range(3):
            training = iterate(training)
        ends.append(training)
    assert devices.known_options()
    assert_models_close(*ends)
    np.testing.assert_array_equal(ends[0].env_steps, ends[1].env_steps)


@pytest.mark.gpu
def test_on_a_gpu_an_update_with_kernels_is_the_plain_one(monkeypatch):
    asked = config.default("3-8sz", "refil")
    built = replace(asked, options=replace(asked.options, envs=8, batch=8, buffer=8, fold=(0.55,))).build()
    training = jax.jit(partial(loop.begin, built))()
    batch = jax.jit(partial(loop.play_on, built))(training)
    batch = replace(batch, valid=batch.valid & (jnp.arange(batch.valid.shape[-1]) < 60))  # which can be folded
    places, keys = jax.vmap(packing.arrange)(batch.valid), jax.random.split(jax.random.key(0), 1)
    (size,) = update.sizes(built)
    assert packing.fits(places, size).all()

    def gradient(size):
        return jax.jit(partial(update.gradients, built, size))(training.learner, batch, places, keys)[0]

    fast = gradient(size), gradient(None)
    for module in (gru, attention):
        monkeypatch.setattr(module, "available", lambda: False)
    plain = gradient(None)
    for each in fast:
        assert float(jnp.linalg.norm(each - plain) / jnp.linalg.norm(plain)) < 1e-4


def test_groups_are_equal_and_not_too_large(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert [update.group_size(seeds) for seeds in (1, 5, 7, 12, 24, 11)] == [1, 5, 7, 6, 8, 1]


def test_one_in_a_batch_is_done_as_one():
    def double(tree):
        return jax.tree.map(lambda leaf: 2 * leaf, tree)

    tree = {"a": jnp.ones((1, 3)), "b": jnp.ones(1)}
    jax.tree.map(np.testing.assert_array_equal, update.for_one(double)(tree), jax.vmap(double)(tree))
