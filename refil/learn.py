"""One gradient step for any method: clipped RMSprop in PyTorch's form, and target networks copied by episodes."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from refil.types import Episode, Method, Model


class Learner(eqx.Module):
    """What an update changes; `copied_at` is the number of episodes at the last copy of the target."""

    model: Model
    target: Model
    optimiser: PyTree
    updates: Int[Array, "*seeds"]
    copied_at: Int[Array, "*seeds"]


def clip(max_norm: float) -> optax.GradientTransformation:
    """Shrink gradients to a joint norm of at most `max_norm`, with PyTorch's small constant."""

    def update(gradients: PyTree, state: optax.EmptyState, params: PyTree = None) -> tuple[PyTree, optax.EmptyState]:
        scale = jnp.minimum(1.0, max_norm / (optax.tree.norm(gradients) + 1e-6))
        return jax.tree.map(lambda leaf: leaf * scale, gradients), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def rmsprop(lr: float, max_norm: float) -> optax.GradientTransformation:
    """The paper's optimiser: decay 0.99, and 1e-5 added outside the square root as in PyTorch."""
    return optax.chain(clip(max_norm), optax.rmsprop(lr, decay=0.99, eps=1e-5, eps_in_sqrt=False))


def begin(method: Method, optimiser: optax.GradientTransformation, key: PRNGKeyArray) -> Learner:
    """A learner that knows nothing yet."""
    model = method.init(key)
    never = jnp.zeros((), jnp.int32)
    return Learner(model, model, optimiser.init(model), never, never)


def update(
    method: Method,
    optimiser: optax.GradientTransformation,
    learner: Learner,
    episodes: Episode,
    key: PRNGKeyArray,
    activations: DTypeLike = jnp.float32,
) -> tuple[Learner, dict[str, Float[Array, ""]]]:
    """Learn from a batch of episodes, with networks whose rows are numbers of this type."""

    def loss_of(model: Model) -> tuple[Array, dict[str, Array]]:
        return method.loss(*working_in(activations, (model, learner.target, episodes)), key)

    (loss, metrics), gradients = jax.value_and_grad(loss_of, has_aux=True)(learner.model)
    changes, state = optimiser.update(gradients, learner.optimiser)
    model = optax.apply_updates(learner.model, changes)
    metrics = metrics | {"loss": loss, "gradient_norm": optax.tree.norm(gradients)}
    return Learner(model, learner.target, state, learner.updates + 1, learner.copied_at), metrics


def working_in(kind: DTypeLike, parts: tuple[Model, Model, Episode]) -> tuple[Model, Model, Episode]:
    """The same networks, and what they read, in numbers of this type; what they come to is in float32 whatever the type."""
    model, target, episodes = parts
    model, target = (jax.tree.map(lambda leaf: leaf.astype(kind), each) for each in (model, target))
    observations = replace(episodes.observations, entities=episodes.observations.entities.astype(kind))
    return model, target, replace(episodes, observations=observations)


def copy_target(learner: Learner, episodes: Int[Array, ""], every: int) -> Learner:
    """Copy the model to the target once `every` episodes have been played since the last copy."""
    due = episodes - learner.copied_at >= every
    target = jax.tree.map(lambda new, old: jnp.where(due, new, old), learner.model, learner.target)
    return Learner(learner.model, target, learner.optimiser, learner.updates, jnp.where(due, episodes, learner.copied_at))
