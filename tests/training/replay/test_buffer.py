"""The ring of episodes."""

import jax
import jax.numpy as jnp
import numpy as np

from refil.training.replay import buffer
from refil.training.replay.buffer import Replay
from refil.types import Trajectory


def trajectories(numbers) -> Trajectory:
    """Episodes told apart by their reward."""
    numbers = jnp.asarray(numbers, jnp.float32)
    flags = jnp.zeros((len(numbers), 1), bool)
    nothing = jnp.zeros(len(numbers), jnp.int32)
    return Trajectory(
        (),
        jnp.zeros((len(numbers), 1, 1), jnp.int32),
        numbers[:, None],
        flags,
        flags,
        flags[:, 0],
        nothing,
        jnp.zeros((len(numbers), 2), jnp.uint32),
    )


def held(ring: Replay) -> list[float]:
    return np.asarray(ring.trajectories.rewards[:, 0]).tolist()


def empty() -> Replay:
    return Replay(trajectories([0, 0, 0, 0, 0]), jnp.zeros((), jnp.int32))


def test_the_oldest_episodes_make_room():
    ring = empty()
    for numbers in ([1, 2, 3], [4, 5, 6]):
        ring = buffer.insert(ring, trajectories(numbers), jnp.asarray(True))
    assert held(ring) == [6, 2, 3, 4, 5]
    assert ring.inserted == 6


def test_unwanted_episodes_leave_no_trace():
    ring = buffer.insert(empty(), trajectories([1, 2, 3]), jnp.asarray(True))
    same = buffer.insert(ring, trajectories([7, 8, 9]), jnp.asarray(False))
    assert held(same) == held(ring)
    assert same.inserted == ring.inserted


def test_a_batch_has_no_episode_twice_and_none_that_was_never_stored():
    ring = buffer.insert(empty(), trajectories([1, 2, 3]), jnp.asarray(True))
    slots = jax.vmap(lambda key: buffer.draw(ring, 2, key))(jax.random.split(jax.random.key(0), 3000))
    slots = np.asarray(slots)
    assert (slots[:, 0] != slots[:, 1]).all()
    np.testing.assert_allclose(np.bincount(slots.reshape(-1), minlength=5) / 3000, [2 / 3, 2 / 3, 2 / 3, 0, 0], atol=0.04)


def test_take_returns_the_episodes_of_the_slots():
    ring = buffer.insert(empty(), trajectories([1, 2, 3]), jnp.asarray(True))
    np.testing.assert_array_equal(buffer.take(ring, jnp.array([2, 0])).rewards[:, 0], [3, 1])
