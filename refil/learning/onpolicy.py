"""Losses of on-policy Q-learning: joint values and REFIL's imagined values, regressed on given targets."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from refil.learning import losses, td
from refil.learning.losses import ALL_FACTORS
from refil.learning.td import Loss
from refil.nn.utilities import Barrier, unroll_overlapped
from refil.rollout import greedy
from refil.settings import PositiveInt, UnitFloat
from refil.types import EpisodeBatch, Model

Views = Callable[[Bool[Array, "*batch agents entities"], Int[Array, "*batch entities"]], Bool[Array, "..."]]


@dataclass(frozen=True)
class OnPolicyMethod:
    """A method that `refil.training.onpolicy` trains; its file exports `ALGORITHM = "onpolicy"`.

    `views(visible, groups)` returns what the utility sees while playing and learning: first what is visible, then any imagined
    views of a random partition of the entities into `num_groups` groups. Each view has a memory of its own.
    `greedy_values(model, batch)` returns the joint value of the best actions at every timestep, from which the algorithm
    computes targets. `loss(model, batch, targets)` returns the loss and the metrics; `shareable` is as in `refil.types.Method`.
    """

    init: Callable[[PRNGKeyArray], Any]
    views: Views
    greedy_values: Callable[[Any, EpisodeBatch], Float[Array, "batch timesteps"]]
    loss: Callable[[Any, EpisodeBatch, Float[Array, "batch time"]], Loss]
    discount: float
    num_groups: int = 2
    shareable: bool = False


@dataclass(frozen=True)
class OnPolicyOptions:
    """Options of the loss."""

    imagined_weight: UnitFloat = 0.5  # Weight of the imagined loss (the paper's lambda); the joint loss has the rest
    groups: PositiveInt = 2  # Groups in a random partition


def on_policy_q_learning(init: Callable[[PRNGKeyArray], Model], discount: float, options: OnPolicyOptions) -> OnPolicyMethod:
    """Return a method that learns a joint value, and an imagined one unless its weight is zero."""
    views = partition_views if options.imagined_weight else visible_view
    loss = partial(on_policy_loss, views=views, imagined_weight=options.imagined_weight)
    return OnPolicyMethod(init, views, greedy_values, loss, discount, options.groups, shareable=True)


def visible_view(visible: Bool[Array, "*batch agents entities"], groups: Int[Array, "*batch entities"]) -> Array:
    """Return what is visible as the only view."""
    return visible[None]


def partition_views(visible: Bool[Array, "*batch agents entities"], groups: Int[Array, "*batch entities"]) -> Array:
    """Return three views: what is visible, the part of it within the agent's own group, and the part across groups."""
    return jnp.concatenate([visible[None], losses.views(groups, visible)])


def greedy_values(model: Model, batch: EpisodeBatch) -> Float[Array, "batch timesteps"]:
    """Return the joint value of the best available actions at every timestep."""
    obs = batch.observations
    first_view = replace(batch, start=jax.tree.map(lambda leaf: leaf[:1], batch.start))
    q, context = _unroll(model, first_view, obs.visible[None], obs.full_view[None])
    utilities = td.action_values(q[0], greedy(q[0], obs.available))
    return losses.mix(model.mixer, context, utilities[None], ALL_FACTORS)


def on_policy_loss(
    model: Model, batch: EpisodeBatch, targets: Float[Array, "batch time"], views: Views, imagined_weight: float
) -> Loss:
    """Return the weighted sum of the joint and the imagined squared error."""
    obs = batch.observations
    assert batch.groups is not None
    q, context = _unroll(model, batch, views(obs.visible, batch.groups), views(obs.full_view, batch.groups))
    factor_slices = [slice(0, 1), *([slice(1, None)] if imagined_weight else [])]
    value, *imagined = losses.joint_values(model.mixer, context, q, batch, factor_slices)
    joint_loss, metrics = td.loss(value, targets, batch.valid)
    if not imagined_weight:
        return joint_loss, metrics
    imagined_loss = td.squared_error(imagined[0], targets, batch.valid)
    loss = (1 - imagined_weight) * joint_loss + imagined_weight * imagined_loss
    return loss, metrics | {"imagined_loss": imagined_loss}


def _unroll(model: Model, batch: EpisodeBatch, visible: Array, full: Array) -> tuple[Array, Any]:
    """Return Q-values through all views, and the mixing network's context, computed while the recurrent scan runs."""
    obs = batch.observations

    def context(barrier: Barrier) -> PyTree:
        return model.mixer.context(replace(obs, entities=barrier(obs.entities)), full)

    q, _, found = unroll_overlapped(model.utility, batch, visible, None, context)
    return q, found
