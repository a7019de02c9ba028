"""Q-learning on a joint value, and REFIL's version with a second, imagined value (paper, sections 2 and 3).

REFIL splits the entities of each episode into random groups. Every agent's utility then has two factors, computed from the
entities within its own group and from those across to other groups. The mixing network combines both into the imagined value.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from refil.errors import RefilError
from refil.learning import td
from refil.learning.td import Loss
from refil.nn.utilities import Barrier, unroll_overlapped
from refil.rollout import greedy
from refil.settings import PositiveInt, UnitFloat
from refil.types import EpisodeBatch, Method, Mixer, Model, Observation

GroupIds = Int[Array, "... entities"]  # entities with the same number are in the same group
Partition = Callable[[Observation, GroupIds], GroupIds]  # turns random groups into the groups that count at each timestep
ALL_FACTORS = slice(None)


@dataclass(frozen=True)
class ImaginedOptions:
    """Options of the imagined value."""

    imagined_weight: UnitFloat = 0.5  # Weight of the imagined loss (the paper's lambda); the joint loss has the rest
    samples: PositiveInt = 1  # Random partitions per episode and update
    groups: PositiveInt = 2  # Groups in a random partition


def q_learning(init: Callable[[PRNGKeyArray], Model], discount: float) -> Method:
    """Return a method that learns a joint value by double Q-learning."""
    return Method(init, partial(q_learning_loss, discount=discount), shareable=True)


def factorized_q_learning(
    init: Callable[[PRNGKeyArray], Model], discount: float, partition: Partition, options: ImaginedOptions
) -> Method:
    """Return a method that learns a joint value and an imagined one from the same targets."""
    if options.imagined_weight == 0:
        return q_learning(init, discount)
    loss = partial(factorized_loss, discount=discount, partition=partition, options=options)
    return Method(init, loss, shareable=True)


def q_learning_loss(model: Model, target: Model, batch: EpisodeBatch, key: PRNGKeyArray, discount: float) -> Loss:
    """Return the loss of double Q-learning (paper, equation 2)."""
    obs = batch.observations
    q, inputs = unroll_both(model, target, batch, obs.visible[None], obs.full_view[None], jax.random.split(key))
    td_targets = joint_targets(target, inputs, q[0], batch, discount)
    (value,) = joint_values(model.mixer, inputs.context, q, batch, [ALL_FACTORS])
    return td.loss(value, td_targets, batch.valid)


def factorized_loss(
    model: Model,
    target: Model,
    batch: EpisodeBatch,
    key: PRNGKeyArray,
    discount: float,
    partition: Partition,
    options: ImaginedOptions,
) -> Loss:
    """Return the weighted sum of the joint and the imagined loss (paper, equations 5 and 6)."""
    obs, samples = batch.observations, options.samples
    key_groups, *keys = jax.random.split(key, 3)
    group_ids = partition(obs, sample_partitions(batch, options.groups, samples, key_groups))
    visible = jnp.concatenate([obs.visible[None], *views(group_ids, obs.visible)])
    full = jnp.concatenate([obs.full_view[None], *views(group_ids, obs.full_view)])
    q, inputs = unroll_both(model, target, batch, visible, full, keys)
    td_targets = joint_targets(target, inputs, q[0], batch, discount)

    factor_slices = [slice(0, 1), *(slice(1 + sample, None, samples) for sample in range(samples))]  # joint; within and across
    value, *imagined = joint_values(model.mixer, inputs.context, q, batch, factor_slices)
    joint_loss, metrics = td.loss(value, td_targets, batch.valid)
    imagined_loss = jnp.asarray(sum(td.squared_error(each, td_targets, batch.valid) for each in imagined)) / samples
    loss = (1 - options.imagined_weight) * joint_loss + options.imagined_weight * imagined_loss
    return loss, metrics | {"imagined_loss": imagined_loss}


class TargetInputs(NamedTuple):
    """Inputs of the loss besides the model's own Q-values: both mixers' contexts and the target network's Q-values."""

    context: PyTree
    target_context: PyTree
    target_q: Float[Array, "batch timesteps agents actions"]


def unroll_both(
    model: Model,
    target: Model,
    batch: EpisodeBatch,
    visible: Bool[Array, "factors batch timesteps agents entities"],
    full: Bool[Array, "factors batch timesteps agents entities"],
    keys: Any,
) -> tuple[Float[Array, "factors batch timesteps agents actions"], TargetInputs]:
    """Run both utilities and both mixers' contexts; the contexts are computed while the recurrent scans run."""
    others = partial(target_inputs, model, target, batch, full, keys[1])
    q, _, inputs = unroll_overlapped(model.utility, batch, visible, keys[0], others)
    return q, inputs


def target_inputs(
    model: Model,
    target: Model,
    batch: EpisodeBatch,
    full: Bool[Array, "factors batch timesteps agents entities"],
    key: PRNGKeyArray,
    barrier: Barrier,
) -> TargetInputs:
    """Run the target network while the model's recurrent scan runs, and compute both contexts while both scans run."""
    obs = batch.observations

    def contexts(second_barrier: Barrier) -> tuple[PyTree, PyTree]:
        later = replace(obs, entities=barrier(second_barrier(obs.entities)))
        return model.mixer.context(later, full), target.mixer.context(later, later.full_view[None])

    target_q, _, (context, target_context) = unroll_overlapped(target.utility, batch, obs.visible[None], key, contexts)
    return TargetInputs(context, target_context, target_q[0])


def joint_values(
    mixer: Mixer,
    context: tuple[PyTree, PyTree],
    q: Float[Array, "factors batch timesteps agents actions"],
    batch: EpisodeBatch,
    factor_slices: Sequence[slice],
) -> list[Float[Array, "batch time"]]:
    """Return joint values of the actions taken, one per slice of factors.

    The last timestep, which has no action, is valued too: leaving it out first would copy every array.
    """
    actions = jnp.pad(batch.actions, [(0, 0), (0, 1), (0, 0)])
    utilities = td.action_values(q, actions)
    return [mix(mixer, context, utilities, factors)[:, :-1] for factors in factor_slices]


def joint_targets(
    target: Model,
    inputs: TargetInputs,
    q: Float[Array, "batch timesteps agents actions"],
    batch: EpisodeBatch,
    discount: float,
) -> Float[Array, "batch time"]:
    """Return the TD targets of the joint value: the model chooses the next actions, the target model values them."""
    utilities = td.action_values(inputs.target_q, greedy(q, batch.observations.available))
    next_values = mix(target.mixer, inputs.target_context, utilities[None], ALL_FACTORS)[:, 1:]
    return td.targets(batch.rewards, batch.terminated, next_values, discount)


def mix(
    mixer: Mixer, context: tuple[PyTree, PyTree], utilities: Float[Array, "factors *batch agents"], factors: slice
) -> Float[Array, "*batch"]:
    """Return the joint value of some factors, and refuse a mixer that returns anything else."""
    per_factor, shared = context
    if any(len(leaf) != len(utilities) for leaf in jax.tree.leaves(per_factor)):
        name, factors_axis = type(mixer).__name__, f"arrays whose first axis is the {len(utilities)} factors"
        raise RefilError(f"context of {name} must return a pair: {factors_axis}, and arrays that all factors share")
    value = mixer.value(jax.tree.map(lambda leaf: leaf[factors], per_factor), shared, utilities[factors])
    expected = utilities.shape[1:-1]
    if jnp.shape(value) != expected:
        raise RefilError(f"value of {type(mixer).__name__} must return [*batch] = {expected}, not {jnp.shape(value)}")
    return value


def sample_partitions(
    batch: EpisodeBatch, groups: int, samples: int, key: PRNGKeyArray
) -> Int[Array, "samples batch timesteps entities"]:
    """Sample partitions for each episode; they stay the same at all of its timesteps."""
    sample = partial(random_partition, batch.observations.present.shape[-1], groups)
    return jax.vmap(jax.vmap(sample))(jax.random.split(key, (samples, batch.num_episodes)))[:, batch.episode_id]


def random_partition(entities: int, groups: int, key: PRNGKeyArray) -> Int[Array, " entities"]:
    """Assign each entity to one of `groups` groups, whose probabilities are drawn from Dirichlet(1, ..., 1).

    Two groups are the published rule: draw p uniformly from (0, 1), then flip a coin with that bias per entity.
    """
    key_probabilities, key_entities = jax.random.split(key)
    cuts = jnp.sort(jax.random.uniform(key_probabilities, (groups - 1,)))  # gaps of sorted uniforms are Dirichlet(1, ..., 1)
    return (jax.random.uniform(key_entities, (entities, 1)) > cuts).sum(axis=-1)


def use_random(obs: Observation, random: GroupIds) -> GroupIds:
    """Use the random groups themselves: REFIL."""
    return random


def true_groups(obs: Observation, random: GroupIds) -> GroupIds:
    """Use the environment's true groups: the paper's Fixed Oracle."""
    assert obs.group is not None
    return jnp.broadcast_to(obs.group, random.shape)


def random_in_groups(obs: Observation, random: GroupIds) -> GroupIds:
    """Split the environment's true groups randomly: the paper's Randomized Oracle."""
    assert obs.group is not None
    return random * (1 + obs.group.max()) + obs.group


def single_group(obs: Observation, random: GroupIds) -> GroupIds:
    """Put all entities into one group."""
    return jnp.zeros_like(random)


def switch_after_first_step(first: Partition, later: Partition, obs: Observation, random: GroupIds) -> GroupIds:
    """Use one partition at the first timestep of an episode and another one from then on."""
    assert obs.is_first is not None
    return jnp.where(obs.is_first[..., None], first(obs, random), later(obs, random))


def views(group_ids: GroupIds, visible: Bool[Array, "*batch agents entities"]) -> Bool[Array, "2 ... agents entities"]:
    """Split what is visible into two views: within the agent's own group, and across to all others (equations 3 and 4)."""
    agents = visible.shape[-2]
    same_group = group_ids[..., :agents, None] == group_ids[..., None, :]
    return jnp.stack([visible & same_group, visible & ~same_group])
