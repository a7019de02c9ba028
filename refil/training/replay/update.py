"""Updates: gradients of batches from the replay buffer, the optimizer, and the target network, for all seeds at once."""

from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from refil import hardware, shards
from refil.nn.layers import ParameterLayout, parameter_layout
from refil.rollout import select
from refil.training.replay import buffer
from refil.training.replay.buffer import PackPlan, PackSize, ReplayBuffer
from refil.training.setup import Setup
from refil.types import EpisodeBatch, Trajectory

CHUNK = 8  # updates at most whose batches are sampled and planned together
MAX_VMAPPED = 8  # seeds at most whose gradients are computed together
Metrics = dict[str, Float[Array, "..."]]  # per seed, or of one seed


class LearnerState(eqx.Module):
    """The state that updates change. Parameters are a vector, or a pytree where the method has its own optimizer (no layout).

    `target_updated_at` is the number of episodes played when the target network was last updated.
    """

    parameters: PyTree
    target_parameters: PyTree
    optimizer: PyTree
    target_updated_at: Int[Array, "*seeds"]
    layout: ParameterLayout | None = eqx.field(static=True)

    @property
    def model(self) -> Any:
        """The network that learns and acts."""
        return self.layout.unravel(self.parameters) if self.layout else self.parameters

    @property
    def target(self) -> Any:
        """The network that values the next timestep."""
        return self.layout.unravel(self.target_parameters) if self.layout else self.target_parameters


def clip_by_norm(max_norm: float) -> optax.GradientTransformation:
    """Scale gradients down to a joint norm of at most `max_norm`, with PyTorch's small constant."""

    def update(updates: PyTree, state: PyTree, params: PyTree = None) -> tuple[PyTree, PyTree]:
        scale = jnp.minimum(1.0, max_norm / (optax.tree.norm(updates) + 1e-6))
        return jax.tree.map(lambda leaf: leaf * scale, updates), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def rmsprop(lr: float, max_grad_norm: float) -> optax.GradientTransformation:
    """Return the paper's optimizer: decay 0.99, and 1e-5 added outside the square root as in PyTorch."""
    return optax.chain(clip_by_norm(max_grad_norm), optax.rmsprop(lr, decay=0.99, eps=1e-5, eps_in_sqrt=False))


def make_optimizer(setup: Setup) -> optax.GradientTransformation:
    """Return the method's own optimizer, or the paper's."""
    make, config = setup.method.optimizer, setup.algorithm
    return make(config) if make else rmsprop(config.lr, config.max_grad_norm)


def init_learner(setup: Setup, model: Any, target: Any) -> LearnerState:
    """Return the learner of these networks before its first update."""
    layout = None if setup.method.optimizer else parameter_layout(model)
    parameters, target = (layout.ravel(each) if layout else each for each in (model, target))
    return LearnerState(parameters, target, make_optimizer(setup).init(parameters), jnp.zeros((), jnp.int32), layout)


def gradient(setup: Setup, learner: LearnerState, batch: EpisodeBatch, key: PRNGKeyArray) -> tuple[PyTree, Metrics]:
    """Return the loss gradient of one batch, shaped like the parameters, and its metrics."""

    def loss(model: Any) -> tuple[Array, Metrics]:
        return setup.method.loss(*cast(setup, model, learner.target, batch), key)

    (value, metrics), gradient = jax.value_and_grad(loss, has_aux=True)(learner.model)
    gradient, metrics = learner.layout.ravel(gradient) if learner.layout else gradient, metrics | {"loss": value}
    gradient, metrics = shared.combine((gradient, metrics)) if (shared := shards.current.get()) else (gradient, metrics)
    metrics |= {"gradient_norm": optax.tree.norm(gradient)}
    return gradient, {name: jnp.asarray(number).astype(jnp.float32) for name, number in metrics.items()}


def cast(setup: Setup, model: Any, target: Any, batch: EpisodeBatch) -> tuple[Any, Any, EpisodeBatch]:
    """Return both networks and their inputs in the compute type."""
    obs, dtype = batch.observations, setup.compute_dtype
    model, target = jax.tree.map(lambda leaf: leaf.astype(dtype), (model, target))
    return model, target, replace(batch, observations=replace(obs, entities=obs.entities.astype(dtype)))


def apply_gradient(setup: Setup, learner: LearnerState, gradient: PyTree) -> LearnerState:
    """Take one step of the optimizer."""
    changes, state = make_optimizer(setup).update(gradient, learner.optimizer, learner.parameters)
    return replace(learner, parameters=optax.apply_updates(learner.parameters, changes), optimizer=state)


def update_target(setup: Setup, learner: LearnerState, episodes: Int[Array, ""]) -> LearnerState:
    """Copy the model to the target network once enough episodes have been played, or as the method wants it."""
    due = episodes - learner.target_updated_at >= setup.algorithm.target_every
    target = jax.tree.map(partial(jnp.where, due), learner.parameters, learner.target_parameters)
    if own := setup.method.target_update:
        target = own(learner.target, learner.model, due)
        target = learner.layout.ravel(target) if learner.layout else target
    return replace(learner, target_parameters=target, target_updated_at=jnp.where(due, episodes, learner.target_updated_at))


def apply_gradients(setup: Setup, learner: LearnerState, gradients: PyTree, episodes: Int[Array, " seeds"]) -> LearnerState:
    """Take one step of every seed's optimizer, and update the target networks that are due."""

    def apply(learner: LearnerState, gradient: PyTree, episodes: Array) -> LearnerState:
        return update_target(setup, apply_gradient(setup, learner, gradient), episodes)

    return jax.vmap(apply)(learner, gradients, episodes)


def run_updates(
    setup: Setup,
    learner: LearnerState,
    metrics: Metrics,
    replay: ReplayBuffer,
    episodes: Int[Array, " seeds"],
    ready: Bool[Array, " seeds"],
    keys: Key[Array, " seeds"],
) -> tuple[LearnerState, Metrics]:
    """Make one update per episode just played and add up their metrics; seeds that are not ready keep their state."""
    keys = jax.vmap(lambda key: jax.random.split(key, (setup.train.envs, 2)))(keys)
    chunk = max(size for size in range(1, CHUNK + 1) if setup.train.envs % size == 0)

    def next_chunk(carry: tuple[LearnerState, Metrics], now: tuple[Array, Array]) -> tuple[tuple[LearnerState, Metrics], None]:
        keys, number = now
        return update_chunk(setup, carry, replay, episodes + number, keys, ready), None

    chunks = jnp.moveaxis(keys.reshape(len(ready), -1, chunk, 2), 1, 0), jnp.arange(0, setup.train.envs, chunk)
    return jax.lax.scan(next_chunk, (learner, metrics), chunks)[0]


def update_chunk(
    setup: Setup,
    carry: tuple[LearnerState, Metrics],
    replay: ReplayBuffer,
    episodes: Int[Array, " seeds"],
    keys: Key[Array, "seeds updates 2"],
    ready: Bool[Array, " seeds"],
) -> tuple[LearnerState, Metrics]:
    """Sample the batches of a few updates, choose the packed size of each, and make the updates; devices may share batches."""
    shared = shards.current.get()
    sample = jax.vmap(jax.vmap(buffer.sample_indices, in_axes=(None, None, 0)), in_axes=(0, None, 0))
    slots = sample(replay, setup.algorithm.batch, keys[:, :, 0])
    slots = shared.own(slots, axis=2) if shared and shared.share_batches else slots
    batches = jax.vmap(jax.vmap(buffer.take_episodes, in_axes=(None, 0)))(replay, slots)
    plans = jax.vmap(jax.vmap(buffer.first_fit))(batches.valid)
    fitting = jnp.stack([*(buffer.fits(plans, size) for size in _sizes(setup)), jnp.ones(keys.shape[:2], bool)])
    choice = jnp.where(ready[:, None], 1 + jnp.argmax(fitting, axis=0), 0)  # 0: no update
    choice = shared.largest(choice) if shared else choice  # programs that wait for each other must be the same

    def next_update(carry: tuple[LearnerState, Metrics], now: PyTree) -> tuple[tuple[LearnerState, Metrics], None]:
        choice, inputs, number = now
        return update_step(setup, carry, choice, inputs, episodes + number, ready), None

    by_update = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), (choice, (batches, plans, keys[:, :, 1])))
    return jax.lax.scan(next_update, carry, (*by_update, jnp.arange(keys.shape[1])))[0]


def update_step(
    setup: Setup,
    carry: tuple[LearnerState, Metrics],
    choice: Int[Array, " seeds"],
    inputs: tuple[Trajectory, PackPlan, Key[Array, " seeds"]],
    episodes: Int[Array, " seeds"],
    ready: Bool[Array, " seeds"],
) -> tuple[LearnerState, Metrics]:
    """Make one update of every seed.

    How far batches can be packed differs from seed to seed, so seeds are sorted into groups of similar sizes; a group without a
    ready seed costs nothing. Only the gradient depends on the packed size; the optimizer runs once for all seeds.
    """
    learner, metrics = carry
    group = _group_size(len(ready))
    branches = [partial(seed_gradients, setup, size) for size in (*_sizes(setup), None)]

    def no_gradients(learner: LearnerState, *inputs: PyTree) -> tuple[PyTree, Metrics]:
        return jax.tree.map(jnp.zeros_like, learner.parameters), {name: jnp.zeros(group) for name in metrics}

    def group_gradients(seeds: PyTree) -> tuple[PyTree, Metrics]:
        return jax.lax.switch(seeds[0].max(), [no_gradients, *branches], *seeds[1:])

    seeds = choice, learner, *inputs
    if group == len(ready):
        gradients, found = group_gradients(seeds)
    else:
        order = jnp.argsort(choice)
        groups = jax.tree.map(lambda leaf: leaf[order].reshape(-1, group, *leaf.shape[1:]), seeds)
        by_group = jax.lax.map(group_gradients, groups)
        gradients, found = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[jnp.argsort(order)], by_group)

    after = apply_gradients(setup, learner, gradients, episodes), jax.tree.map(jnp.add, metrics, found)
    return jax.tree.map(partial(select, ready), after, carry)


def _sizes(setup: Setup) -> tuple[PackSize, ...]:
    shared, batch = shards.current.get(), setup.algorithm.batch
    batch = batch // shared.count if shared and shared.share_batches else batch
    return buffer.pack_sizes(batch, setup.env.spec.horizon, setup.algorithm.pack)


def _group_size(seeds: int) -> int:
    """Return how many seeds' gradients are computed together: one on a CPU, where a seed axis makes products slower."""
    limit = MAX_VMAPPED if hardware.on_gpu() else 1
    return max(size for size in range(1, limit + 1) if seeds % size == 0)


def seed_gradients(
    setup: Setup,
    size: PackSize | None,
    learner: LearnerState,
    trajectories: Trajectory,
    plan: PackPlan,
    keys: Key[Array, " seeds"],
) -> tuple[PyTree, Metrics]:
    """Return the gradients of several seeds, from one batch each, in the given packed size or padded."""

    def one_seed_gradient(
        learner: LearnerState, trajectories: Trajectory, plan: PackPlan, key: PRNGKeyArray
    ) -> tuple[PyTree, Metrics]:
        return gradient(setup, learner, _renumber(buffer.rebuild_batch(setup.env, trajectories, plan, size)), key)

    seeds = learner, trajectories, plan, keys
    if len(keys) > 1:
        return jax.vmap(one_seed_gradient)(*seeds)
    one = one_seed_gradient(*jax.tree.map(lambda leaf: leaf[0], seeds))  # batched products with a batch of one are slower
    return jax.tree.map(lambda leaf: leaf[None], one)


def _renumber(batch: EpisodeBatch) -> EpisodeBatch:
    """Return a batch whose episodes have their numbers in the batch that devices share, on which random numbers depend."""
    shared = shards.current.get()
    if not shared or not shared.share_batches:
        return batch
    ids = batch.episode_id + shared.index * batch.num_episodes
    return replace(batch, episode_id=ids, num_episodes=batch.num_episodes * shared.count)
