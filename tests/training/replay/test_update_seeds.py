"""Updates of several seeds: how seeds are grouped and batches are packed changes nothing that is learned."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.nn import attention, gru
from refil.rollout import derive_keys
from refil.training import config, devices
from refil.training.replay import buffer, loop, update
from refil.training.replay.loop import TrainState
from refil.training.setup import LEARN, Setup
from tests.tiny_runs import run, small

SIX = {"seeds": 2, "envs": 6, "batch": 8, "steps": 150}  # six updates after every round of episodes


@pytest.fixture(autouse=True)
def full_precision():
    """On a GPU, matrix products would otherwise be rounded to TF32."""
    with jax.default_matmul_precision("highest"):
        yield


@pytest.fixture(scope="module")
def reference() -> TrainState:
    """Two seeds, each by itself as on a CPU, with padded batches."""
    return run(small(**SIX).build())[0]


@pytest.mark.slow
def test_seeds_learn_the_same_in_groups(reference, monkeypatch):
    """On a GPU, groups of seeds share their matrix products."""
    monkeypatch.setattr(update, "_group_size", lambda seeds: seeds)
    assert_models_close(run(small(**SIX).build())[0], reference)


@pytest.mark.slow
def test_packed_updates_equal_padded_ones(reference):
    assert_models_close(run(small(**SIX, pack=(0.25, 0.5)).build())[0], reference)


@pytest.mark.slow
def test_updates_in_smaller_chunks_are_the_same(reference, monkeypatch):
    """Six updates in two chunks of three, in the same order."""
    monkeypatch.setattr(update, "CHUNK", 4)
    chunked, _ = run(small(**SIX).build())
    np.testing.assert_array_equal(chunked.counters.updates, reference.counters.updates)
    np.testing.assert_array_equal(chunked.learner.target_updated_at, reference.learner.target_updated_at)
    assert_models_close(chunked, reference)


def assert_models_close(ours: TrainState, theirs: TrainState) -> None:
    close = partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4)
    jax.tree.map(close, ours.learner.model, theirs.learner.model)


def run_updates(setup: Setup, state: TrainState, replay: buffer.ReplayBuffer, ready) -> tuple:
    counts = state.counters
    keys = derive_keys(counts.seed, LEARN, counts.episodes)
    return jax.jit(partial(update.run_updates, setup))(
        state.learner, counts.metrics, replay, counts.episodes, jnp.asarray(ready), keys
    )


@pytest.mark.parametrize("short", [True, False])
def test_a_batch_is_packed_into_the_smallest_size_that_fits(short, monkeypatch):
    setup = small(batch=8, pack=(0.5, 0.9)).build()

    def gradients(setup, size, learner, *inputs):
        timesteps = 8 * 7 if size is None else size.timesteps
        return jnp.zeros_like(learner.parameters), {name: jnp.full(1, float(timesteps)) for name in state.counters.metrics}

    monkeypatch.setattr(update, "seed_gradients", gradients)
    state = jax.jit(partial(loop.init, setup))()
    trajectories = state.replay.trajectories
    valid = jnp.zeros_like(trajectories.valid).at[:, :, : 2 if short else 6].set(True)  # 24 or 56 of 56 timesteps
    full = replace(state.replay, trajectories=replace(trajectories, valid=valid), num_inserted=state.replay.num_inserted + 20)
    _, metrics = run_updates(setup, state, full, [True])
    assert metrics["loss"][0] == 2 * (8 * 4 if short else 8 * 7)  # the sum over two updates


def cheap_gradient(setup, learner, batch, key):
    """Stand in for the gradient: any sum over valid steps is the same padded and packed."""
    total = jnp.where(batch.valid, batch.rewards, 0.0).sum()
    return learner.parameters + total, {"loss": total}


@pytest.fixture(scope="module")
def four_seeds() -> tuple[Setup, TrainState, buffer.ReplayBuffer]:
    """Four seeds with full buffers; every other seed has short episodes, which can be packed."""
    setup = small(seeds=4, batch=8, pack=(0.5,)).build()
    state = jax.jit(partial(loop.init, setup))()
    played = jax.jit(partial(loop.play, setup))(state)
    trajectories = jax.tree.map(lambda leaf: jnp.tile(leaf, (1, 10, *[1] * (leaf.ndim - 2))), played)
    lengths = jnp.array([6, 2, 6, 2])[:, None, None]
    valid = trajectories.valid & (jnp.arange(trajectories.valid.shape[-1]) < lengths)
    rewards = jax.random.normal(jax.random.key(0), trajectories.rewards.shape)
    trajectories = replace(trajectories, valid=valid, rewards=rewards)
    return setup, state, replace(state.replay, trajectories=trajectories, num_inserted=state.replay.num_inserted + 20)


@pytest.mark.parametrize("cheap", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["cheap gradient", "gradient"])
def test_seeds_that_pack_differently_learn_in_groups_as_they_do_alone(four_seeds, cheap, monkeypatch):
    """Groups of two; one seed is not ready."""
    setup, state, replay = four_seeds
    if cheap:
        monkeypatch.setattr(update, "gradient", cheap_gradient)
        state = replace(state, counters=replace(state.counters, metrics={"loss": jnp.zeros(4)}))
    assert_groups_learn_as_alone(setup, state, replay, monkeypatch)


@pytest.mark.slow
def test_recurrent_seeds_that_pack_differently_learn_in_groups_as_they_do_alone(four_seeds, monkeypatch):
    setup = small(seeds=4, batch=8, pack=(0.5,)).with_options({}, {"recurrent": True}).build()
    assert_groups_learn_as_alone(setup, jax.jit(partial(loop.init, setup))(), four_seeds[2], monkeypatch)


def assert_groups_learn_as_alone(setup, state, replay, monkeypatch) -> None:
    results = []
    for size in (1, 2):
        monkeypatch.setattr(update, "_group_size", lambda seeds, size=size: size)
        results.append(run_updates(setup, state, replay, [True, True, False, True]))
    (alone, alone_metrics), (by_two, metrics) = results
    changed = (np.asarray(by_two.parameters) != np.asarray(state.learner.parameters)).any(axis=1)
    np.testing.assert_array_equal(changed, [True, True, False, True])
    assert metrics["loss"][2] == 0
    np.testing.assert_allclose(by_two.parameters, alone.parameters, rtol=1e-3, atol=1e-4)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-3), metrics, alone_metrics)


def test_the_gradient_of_a_single_seed_is_that_of_a_batch_of_seeds(four_seeds, monkeypatch):
    monkeypatch.setattr(update, "gradient", cheap_gradient)
    setup, state, replay = four_seeds
    batches = jax.tree.map(lambda leaf: leaf[:, :8], replay.trajectories)
    inputs = state.learner, batches, jax.vmap(buffer.first_fit)(batches.valid), jax.random.split(jax.random.key(0), 4)
    together = update.seed_gradients(setup, None, *inputs)
    one = update.seed_gradients(setup, None, *jax.tree.map(lambda leaf: leaf[1:2], inputs))
    jax.tree.map(lambda ours, theirs: np.testing.assert_allclose(ours, theirs[1:2], rtol=1e-6), one, together)


def starcraft_setup() -> Setup:
    return config.default("3-8sz", "refil").with_options(envs=8, batch=8, buffer=8, pack=(0.55,)).build()


@pytest.mark.gpu
def test_on_a_gpu_kernels_that_overlap_compute_the_same():
    setup, ends = starcraft_setup(), []
    for jit in (jax.jit, devices.jit):
        state = jax.jit(partial(loop.init, setup))()
        iterate = jit(partial(loop.iterate, setup))
        for _ in range(3):
            state = iterate(state)
        ends.append(state)
    assert devices.supported_options()
    assert_models_close(*ends)
    np.testing.assert_array_equal(ends[0].counters.env_steps, ends[1].counters.env_steps)


@pytest.mark.gpu
def test_on_a_gpu_an_update_with_kernels_is_the_one_without(monkeypatch):
    setup = starcraft_setup()
    state = jax.jit(partial(loop.init, setup))()
    batch = jax.jit(partial(loop.play, setup))(state)
    batch = replace(batch, valid=batch.valid & (jnp.arange(batch.valid.shape[-1]) < 60))  # which can be packed
    plans, keys = jax.vmap(buffer.first_fit)(batch.valid), jax.random.split(jax.random.key(0), 1)
    (size,) = update._sizes(setup)
    assert buffer.fits(plans, size).all()

    def gradient(size):
        return jax.jit(partial(update.seed_gradients, setup, size))(state.learner, batch, plans, keys)[0]

    fast = gradient(size), gradient(None)
    for module in (gru, attention):
        monkeypatch.setattr(module, "on_gpu", lambda: False)
    plain = gradient(None)
    for each in fast:
        assert float(jnp.linalg.norm(each - plain) / jnp.linalg.norm(plain)) < 1e-4
