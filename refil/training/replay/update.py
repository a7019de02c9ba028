"""All seeds learn from what has been played: batches are drawn and folded, and seeds of like need learn side by side."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from refil import rollout
from refil.training.replay import buffer, packing
from refil.training.replay import learner as learn
from refil.training.replay.buffer import Replay
from refil.training.replay.learner import LearnerState
from refil.training.replay.packing import Places, Size
from refil.training.setup import LEARN, Loop, derive_keys
from refil.types import Trajectory

TOGETHER = 8  # updates at most whose batches are drawn and given places in one go
Metrics = dict[str, Float[Array, "..."]]  # for each seed, or for one


def improve(
    loop: Loop,
    seed: Int[Array, " seeds"],
    learner: LearnerState,
    metrics: Metrics,
    ring: Replay,
    episodes: Int[Array, " seeds"],
    ready: Bool[Array, " seeds"],
) -> tuple[LearnerState, Metrics]:
    """One update for each episode just played, their metrics added to those given; seeds not ready keep what they have."""
    updates = loop.schedule.envs
    keys = jax.vmap(lambda key: jax.random.split(key, (updates, 2)))(derive_keys(seed, LEARN, episodes))
    together = max(number for number in range(1, TOGETHER + 1) if updates % number == 0)

    def some(so_far: tuple[LearnerState, Metrics], now: tuple[Array, Array]) -> tuple[tuple[LearnerState, Metrics], None]:
        keys, number = now
        return improve_some(loop, *so_far, ring, episodes + number, keys, ready), None

    in_turn = jnp.moveaxis(keys.reshape(len(seed), -1, together, 2), 1, 0), jnp.arange(0, updates, together)
    return jax.lax.scan(some, (learner, metrics), in_turn)[0]


def improve_some(
    loop: Loop,
    learner: LearnerState,
    metrics: Metrics,
    ring: Replay,
    episodes: Int[Array, " seeds"],
    keys: Key[Array, "seeds updates 2"],
    ready: Bool[Array, " seeds"],
) -> tuple[LearnerState, Metrics]:
    """Some updates, each of batches folded as far as they can be."""
    batch = loop.schedule.batch
    draw = jax.vmap(jax.vmap(buffer.draw, in_axes=(None, None, 0)), in_axes=(0, None, 0))
    batches = jax.vmap(jax.vmap(buffer.take, in_axes=(None, 0)))(ring, draw(ring, batch, keys[:, :, 0]))

    places = jax.vmap(jax.vmap(packing.arrange))(batches.valid)
    fitting = jnp.stack([*(packing.fits(places, size) for size in sizes(loop)), jnp.ones(keys.shape[:2], bool)])
    choice = jnp.where(ready[:, None], 1 + jnp.argmax(fitting, axis=0), 0)  # 0: nothing to learn

    def step(so_far: tuple[LearnerState, Metrics], now: PyTree) -> tuple[tuple[LearnerState, Metrics], None]:
        *of_update, number = now
        return improve_once(loop, *so_far, *of_update, episodes + number, ready), None

    in_turn = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), (choice, batches, places, keys[:, :, 1]))
    return jax.lax.scan(step, (learner, metrics), (*in_turn, jnp.arange(keys.shape[1])))[0]


def improve_once(
    loop: Loop,
    learner: LearnerState,
    metrics: Metrics,
    choice: Int[Array, " seeds"],
    batch: Trajectory,
    places: Places,
    keys: Key[Array, " seeds"],
    episodes: Int[Array, " seeds"],
    ready: Bool[Array, " seeds"],
) -> tuple[LearnerState, Metrics]:
    """One update of every seed.

    How far a seed's batch can be folded differs as widely as what seeds have learned. So seeds come in groups of
    about equal need, and a group in which no seed is ready costs nothing. The gradient alone depends on how a batch is
    folded: what follows from it is worked out once for all, and nothing else has to be copied out of a branch.
    """
    together = group_size(len(ready))
    nothing = {name: jnp.zeros(together) for name in metrics}
    branches = [partial(idle, nothing), *(partial(gradients, loop, size) for size in (*sizes(loop), None))]

    def of_group(group: PyTree) -> tuple[Array, Metrics]:
        return jax.lax.switch(group[0].max(), branches, *group[1:])

    seeds = choice, learner, batch, places, keys
    if together == len(ready):
        gradient, found = of_group(seeds)
    else:
        order = jnp.argsort(choice)
        groups = jax.tree.map(lambda leaf: leaf[order].reshape(-1, together, *leaf.shape[1:]), seeds)
        by_group = jax.lax.map(of_group, groups)
        gradient, found = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[jnp.argsort(order)], by_group)

    after = follow_all(loop, learner, gradient, episodes), jax.tree.map(jnp.add, metrics, found)
    return jax.tree.map(partial(rollout.keep, ready), after, (learner, metrics))


def group_size(seeds: int) -> int:
    """How many seeds learn side by side: on a CPU one, where products with a seed axis are slower; else at most 8."""
    if jax.default_backend() == "cpu":
        return 1
    return max(size for size in range(1, 9) if seeds % size == 0)


def idle(nothing: Metrics, learner: LearnerState, *rest: PyTree) -> tuple[Float[Array, "seeds parameters"], Metrics]:
    """No gradient."""
    return jnp.zeros_like(learner.parameters), nothing


def gradients(
    loop: Loop,
    size: Size | None,
    learner: LearnerState,
    batch: Trajectory,
    places: Places,
    keys: Key[Array, " seeds"],
) -> tuple[Float[Array, "seeds parameters"], Metrics]:
    """Those of a group of seeds, from a batch each, folded onto this size or not at all."""

    def gradient(learner: LearnerState, batch: Trajectory, places: Places, key: PRNGKeyArray) -> tuple[Array, Metrics]:
        episodes = rollout.recall(loop.env, batch, places, size)
        return learn.gradient(loop.method, learner, episodes, key, loop.activations)

    over_seeds = for_one if len(keys) == 1 else jax.vmap
    return over_seeds(gradient)(learner, batch, places, keys)


def sizes(loop: Loop) -> tuple[Size, ...]:
    """What batches may be folded onto."""
    return packing.sizes(loop.schedule.batch, loop.env.spec.horizon, loop.schedule.fold)


def follow_all(
    loop: Loop, learner: LearnerState, gradient: Float[Array, "seeds parameters"], episodes: Int[Array, " seeds"]
) -> LearnerState:
    """Every seed one step further, its target copied where that is due."""

    def one(learner: LearnerState, gradient: Array, episodes: Array) -> LearnerState:
        return learn.copy_target(learn.follow(loop.optimiser, learner, gradient), episodes, loop.schedule.target_every)

    return jax.vmap(one)(learner, gradient, episodes)


def for_one(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """What vmap does, for an axis of length one: a batched product with one in the batch costs more than a plain one."""

    def applied(*arguments: PyTree) -> PyTree:
        result = function(*jax.tree.map(lambda leaf: leaf[0], arguments))
        return jax.tree.map(lambda leaf: leaf[None], result)

    return applied
