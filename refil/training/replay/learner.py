"""One gradient step for any method: clipped RMSprop in PyTorch's form, and target networks copied by episodes."""

import itertools
import math
from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.tree_util import PyTreeDef
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from refil.types import Episode, Method, Model


@dataclass(frozen=True)
class Layout:
    """Where in a row of parameters each array of a network lies."""

    structure: PyTreeDef
    shapes: tuple[tuple[int, ...], ...]

    def row(self, network: Model) -> Float[Array, " parameters"]:
        """All of a network's arrays in one row."""
        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(network)])

    def network(self, row: Float[Array, "*seeds parameters"]) -> Model:
        """The network that a row holds."""
        ends = itertools.accumulate(math.prod(shape) for shape in self.shapes)
        parts = jnp.split(row, list(ends)[:-1], axis=-1)
        leaves = [part.reshape(*row.shape[:-1], *shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return jax.tree.unflatten(self.structure, leaves)


class LearnerState(eqx.Module):
    """What an update changes; `target_updated_at` is the number of episodes at the last copy of the target.

    A network's parameters lie in one row, because a GPU takes about as long for each of many small arrays as for one.
    """

    parameters: Float[Array, "*seeds parameters"]
    target_parameters: Float[Array, "*seeds parameters"]
    optimiser: PyTree
    updates: Int[Array, "*seeds"]
    target_updated_at: Int[Array, "*seeds"]
    layout: Layout = eqx.field(static=True)

    @property
    def model(self) -> Model:
        """The network that learns and plays."""
        return self.layout.network(self.parameters)

    @property
    def target(self) -> Model:
        """The network that values what follows."""
        return self.layout.network(self.target_parameters)


def clip(max_norm: float) -> optax.GradientTransformation:
    """Shrink gradients to a joint norm of at most `max_norm`, with PyTorch's small constant."""

    def update(gradients: PyTree, state: optax.EmptyState, params: PyTree = None) -> tuple[PyTree, optax.EmptyState]:
        scale = jnp.minimum(1.0, max_norm / (optax.tree.norm(gradients) + 1e-6))
        return jax.tree.map(lambda leaf: leaf * scale, gradients), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def rmsprop(lr: float, max_norm: float) -> optax.GradientTransformation:
    """The paper's optimiser: decay 0.99, and 1e-5 added outside the square root as in PyTorch."""
    return optax.chain(clip(max_norm), optax.rmsprop(lr, decay=0.99, eps=1e-5, eps_in_sqrt=False))


def begin(method: Method, optimiser: optax.GradientTransformation, key: PRNGKeyArray) -> LearnerState:
    """A learner that knows nothing yet."""
    model = method.init(key)
    return learner(model, model, optimiser)


def learner(model: Model, target: Model, optimiser: optax.GradientTransformation) -> LearnerState:
    """A learner with these networks that has learned nothing since."""
    layout = Layout(jax.tree.structure(model), tuple(leaf.shape for leaf in jax.tree.leaves(model)))
    parameters, never = layout.row(model), jnp.zeros((), jnp.int32)
    return LearnerState(parameters, layout.row(target), optimiser.init(parameters), never, never, layout)


def update(
    method: Method,
    optimiser: optax.GradientTransformation,
    learner: LearnerState,
    episodes: Episode,
    key: PRNGKeyArray,
    activations: DTypeLike = jnp.float32,
) -> tuple[LearnerState, dict[str, Float[Array, ""]]]:
    """Learn from a batch of episodes, with networks whose rows are numbers of this type."""
    row, metrics = gradient(method, learner, episodes, key, activations)
    return follow(optimiser, learner, row), metrics


def gradient(
    method: Method, learner: LearnerState, episodes: Episode, key: PRNGKeyArray, activations: DTypeLike = jnp.float32
) -> tuple[Float[Array, " parameters"], dict[str, Float[Array, ""]]]:
    """Of the loss of a batch of episodes, and what is to be said of it."""

    def loss_of(model: Model) -> tuple[Array, dict[str, Array]]:
        return method.loss(*working_in(activations, model, learner.target, episodes), key)

    (loss, metrics), by_network = jax.value_and_grad(loss_of, has_aux=True)(learner.model)
    row = learner.layout.row(by_network)
    said = metrics | {"loss": loss, "gradient_norm": optax.tree.norm(row)}
    return row, {name: value.astype(jnp.float32) for name, value in said.items()}  # one may be a count, or in bfloat16


def follow(
    optimiser: optax.GradientTransformation, learner: LearnerState, gradient: Float[Array, " parameters"]
) -> LearnerState:
    """The learner one step further down this gradient."""
    changes, state = optimiser.update(gradient, learner.optimiser)
    return replace(learner, parameters=learner.parameters + changes, optimiser=state, updates=learner.updates + 1)


def working_in(kind: DTypeLike, model: Model, target: Model, episodes: Episode) -> tuple[Model, Model, Episode]:
    """The same networks, and what they read, in numbers of this type; what they come to is in float32 whatever the type."""
    model, target = (jax.tree.map(lambda leaf: leaf.astype(kind), each) for each in (model, target))
    observations = replace(episodes.observations, entities=episodes.observations.entities.astype(kind))
    return model, target, replace(episodes, observations=observations)


def copy_target(learner: LearnerState, episodes: Int[Array, ""], every: int) -> LearnerState:
    """Copy the model to the target once `every` episodes have been played since the last copy."""
    due = episodes - learner.target_updated_at >= every
    target = jnp.where(due, learner.parameters, learner.target_parameters)
    return replace(learner, target_parameters=target, target_updated_at=jnp.where(due, episodes, learner.target_updated_at))
