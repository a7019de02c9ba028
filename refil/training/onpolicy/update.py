"""Updates from rollouts: targets, then epochs of minibatches, and the averaged network; everything here is for one seed."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from refil import hardware, shards
from refil.learning import td
from refil.nn.layers import ParameterLayout, parameter_layout
from refil.training.onpolicy.config import OnPolicyConfig
from refil.training.setup import Setup
from refil.types import EpisodeBatch

MAX_TOGETHER = 4  # minibatches whose values are computed at once: they take no more memory than the gradient of one
Metrics = dict[str, Float[Array, "..."]]


class LearnerState(eqx.Module):
    """The state that updates change: the parameters, their average over iterations, and the optimizer's state."""

    parameters: Float[Array, "*seeds parameters"]
    average: Float[Array, "*seeds parameters"]
    optimizer: PyTree
    layout: ParameterLayout = eqx.field(static=True)

    @property
    def model(self) -> Any:
        """The network that learns and plays."""
        return self.layout.unravel(self.parameters)

    @property
    def averaged(self) -> Any:
        """The network that is evaluated and saved."""
        return self.layout.unravel(self.average)


def make_optimizer(config: OnPolicyConfig) -> optax.GradientTransformation:
    """Return the optimizer, whose steps are still to be multiplied by the learning rate."""
    rule = {"radam": optax.scale_by_radam, "adam": optax.scale_by_adam}[config.optimizer]()
    return optax.chain(optax.clip_by_global_norm(config.max_grad_norm), rule)


def init_learner(setup: Setup, model: Any) -> LearnerState:
    """Return the learner of a network before its first update."""
    layout = parameter_layout(model)
    parameters = layout.ravel(model)
    return LearnerState(parameters, parameters, make_optimizer(setup.algorithm).init(parameters), layout)


def learning_rate(config: OnPolicyConfig, progress: Float[Array, "*seeds"]) -> Float[Array, "*seeds"]:
    """Return the learning rate after this fraction of all steps."""
    return config.lr * (1.0 - progress) if config.lr_decay else jnp.full_like(progress, config.lr)


def learn(
    setup: Setup, learner: LearnerState, batch: EpisodeBatch, progress: Float[Array, ""], key: PRNGKeyArray
) -> tuple[LearnerState, Metrics]:
    """Make all updates from one rollout; return the sums of their metrics. Devices may share every minibatch."""
    config, envs, shared = setup.algorithm, setup.train.envs, shards.current.get()
    rate = learning_rate(config, progress)
    targets = frozen_targets(setup, learner, batch)
    orders = jax.vmap(lambda key: jax.random.permutation(key, envs))(jax.random.split(key, config.epochs))

    def next_update(learner: LearnerState, rows: Int[Array, " rows"]) -> tuple[LearnerState, Metrics]:
        own_targets = None if targets is None else targets[rows]
        return update(setup, learner, take_rows(batch, rows), own_targets, rate)

    minibatches = orders.reshape(config.epochs * config.minibatches, -1)
    minibatches = shared.own(minibatches, axis=1) if shared and shared.share_batches else minibatches
    learner, metrics = jax.lax.scan(next_update, learner, minibatches)
    average = config.average * learner.average + (1 - config.average) * learner.parameters
    return replace(learner, average=average), jax.tree.map(lambda leaf: leaf.sum(axis=0), metrics)


def update(
    setup: Setup,
    learner: LearnerState,
    batch: EpisodeBatch,
    targets: Float[Array, "batch time"] | None,
    rate: Float[Array, ""],
) -> tuple[LearnerState, Metrics]:
    """Make one update from a minibatch; without targets they are computed with the current network."""
    differentiated = jax.value_and_grad(partial(loss, setup), has_aux=True)
    (value, metrics), gradient = differentiated(learner.model, batch, targets)
    gradient, metrics = learner.layout.ravel(gradient), metrics | {"loss": value}
    gradient, metrics = shared.combine((gradient, metrics)) if (shared := shards.current.get()) else (gradient, metrics)
    changes, state = make_optimizer(setup.algorithm).update(gradient, learner.optimizer, learner.parameters)
    metrics |= {"gradient_norm": optax.tree.norm(gradient)}
    parameters = optax.apply_updates(learner.parameters, optax.tree.scale(-rate, changes))
    return replace(learner, parameters=parameters, optimizer=state), {n: v.astype(jnp.float32) for n, v in metrics.items()}


def loss(
    setup: Setup, model: Any, batch: EpisodeBatch, targets: Float[Array, "batch time"] | None
) -> tuple[Float[Array, ""], Metrics]:
    """Return the method's loss and metrics in the compute type."""
    model = cast(setup, model)
    return setup.method.loss(model, batch, compute_targets(setup, model, batch) if targets is None else targets)


def compute_targets(setup: Setup, model: Any, batch: EpisodeBatch) -> Float[Array, "batch time"]:
    """Return the TD(lambda) targets of a batch; a trace ends where the rollout or its episode ends."""
    return lambda_targets(setup, batch, setup.method.greedy_values(model, batch))


def lambda_targets(setup: Setup, batch: EpisodeBatch, values: Float[Array, "batch timesteps"]) -> Float[Array, "batch time"]:
    """Return the targets that follow from the greedy values of all timesteps."""
    return td.lambda_targets(batch, values[:, 1:], setup.method.discount, setup.algorithm.td_lambda)


def frozen_targets(setup: Setup, learner: LearnerState, batch: EpisodeBatch) -> Float[Array, "batch time"] | None:
    """Return the targets of a whole rollout, with values computed part by part to save memory; devices may share every part."""
    network: dict[str, Callable[[], Any]] = {"average": lambda: learner.averaged, "frozen": lambda: learner.model}
    if setup.algorithm.targets not in network:
        return None
    model = cast(setup, network[setup.algorithm.targets]())
    minibatches = setup.algorithm.minibatches
    together = max(count for count in range(1, MAX_TOGETHER + 1) if minibatches % count == 0)
    rows = jnp.arange(setup.train.envs).reshape(minibatches // together, -1)
    greedy_values = partial(jax.lax.map, lambda part: setup.method.greedy_values(model, take_rows(batch, part)))
    values = shared.divide(greedy_values, 1, rows) if (shared := shards.current.get()) else greedy_values(rows)
    return lambda_targets(setup, batch, values.reshape(-1, values.shape[-1]))


def take_rows(batch: EpisodeBatch, rows: Int[Array, " rows"]) -> EpisodeBatch:
    """Return the rollouts of some environments."""
    start = jax.tree.map(lambda leaf: leaf[:, rows], batch.start)  # its first axis is the views
    return replace(jax.tree.map(lambda leaf: leaf[rows], replace(batch, start=None)), start=start)


def cast(setup: Setup, model: Any) -> Any:
    """Return a network in the compute type."""
    return jax.tree.map(lambda leaf: leaf.astype(setup.compute_dtype), model)


def map_seeds(function: Callable[..., PyTree], *trees: PyTree) -> PyTree:
    """Apply a function to every seed: at once on a GPU, one after the other on a CPU, where that is faster."""
    if len(jax.tree.leaves(trees)[0]) == 1:  # batched products with a batch of one are slower
        result = function(*jax.tree.map(lambda leaf: leaf[0], trees))
        return jax.tree.map(lambda leaf: leaf[None], result)
    if not hardware.on_gpu():
        return jax.lax.map(lambda each: function(*each), trees)
    return jax.vmap(function)(*trees)
