"""What the factored methods share: Q-learning on a joint value, and with an imagined one beside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from refil.errors import RefilError
from refil.learning import partitions, td
from refil.learning.partitions import Partition
from refil.settings import PositiveInt, UnitFloat
from refil.types import Beside, Episode, Method, Mixer, Model, Observation, Utility, Wait

ALL = slice(None)  # a joint value of all factors
Loss = tuple[Float[Array, ""], dict[str, Float[Array, ""]]]


@dataclass(frozen=True)
class ImaginedOptions:
    """The imagined value."""

    imagined_weight: UnitFloat = 0.5  # its share of the loss, the paper's lambda
    samples: PositiveInt = 1  # partitions imagined per episode and update
    groups: PositiveInt = 2  # sub-groups that entities are split into by chance


def plain(init: Callable[[PRNGKeyArray], Model], discount: float) -> Method:
    """Q-learning on a joint value."""
    return Method(init, partial(plain_loss, discount=discount))


def imagining(
    init: Callable[[PRNGKeyArray], Model], discount: float, partition: Partition, imagined: ImaginedOptions
) -> Method:
    """Q-learning on a joint value, and on an imagined one with the same target."""
    if imagined.imagined_weight == 0:
        return plain(init, discount)
    weight, groups, samples = imagined.imagined_weight, imagined.groups, imagined.samples
    loss = partial(imagined_loss, discount=discount, partition=partition, weight=weight, groups=groups, samples=samples)
    return Method(init, loss)


def plain_loss(model: Model, target: Model, episodes: Episode, key: PRNGKeyArray, discount: float) -> Loss:
    """Double Q-learning (paper, equation 2)."""
    obs = episodes.observations
    key_model, key_target = jax.random.split(key)
    reading = partial(read_both, model, target, obs, obs.full_view[None], key_target)
    q, read = unrolled(model.utility, obs, obs.visible[None], key_model, reading)
    goals = goal(target, read, q[0], episodes, discount)
    (value,) = joint_values(model.mixer, read, q, episodes, [ALL])
    metrics = td.report(value, goals, episodes.valid)
    return metrics["td_loss"], metrics


def imagined_loss(
    model: Model,
    target: Model,
    episodes: Episode,
    key: PRNGKeyArray,
    discount: float,
    partition: Partition,
    weight: float,
    groups: int,
    samples: int,
) -> Loss:
    """The same, and beside it the value imagined from within and across random groups (paper, equations 5 and 6)."""
    obs = episodes.observations
    key_sides, key_model, key_target = jax.random.split(key, 3)
    sides = partition(obs, draw_sides(episodes, groups, samples, key_sides))
    imagined_views = partitions.views(sides, obs.visible)  # [2 samples episodes time agents entities]
    views = jnp.concatenate([obs.visible[None], *imagined_views])
    mixed_views = jnp.concatenate([obs.full_view[None], *partitions.views(sides, obs.full_view)])
    reading = partial(read_both, model, target, obs, mixed_views, key_target)
    q, read = unrolled(model.utility, obs, views, key_model, reading)
    goals = goal(target, read, q[0], episodes, discount)

    made_of = [slice(0, 1), *(slice(1 + sample, None, samples) for sample in range(samples))]  # within and across of a sample
    value, *imagined = joint_values(model.mixer, read, q, episodes, made_of)
    metrics = td.report(value, goals, episodes.valid)
    imagined_loss = sum(td.squared_error(each, goals, episodes.valid) for each in imagined) / samples
    loss = (1 - weight) * metrics["td_loss"] + weight * imagined_loss
    return loss, metrics | {"imagined_loss": imagined_loss}


def draw_sides(episodes: Episode, groups: int, samples: int, key: PRNGKeyArray) -> Int[Array, "samples rows instants entities"]:
    """Fresh random sides for each episode and sample, the same at all of its instants."""
    draw = partial(partitions.random_sides, episodes.observations.group.shape[-1], groups)
    return jax.vmap(jax.vmap(draw))(jax.random.split(key, (samples, episodes.count)))[:, episodes.number]


class Read(NamedTuple):
    """What does not depend on the model's own utilities: its mixer's part, and the target's, with the utilities there."""

    own: PyTree
    targets: PyTree
    target_q: Float[Array, "episodes instants agents actions"]


def read_both(
    model: Model,
    target: Model,
    obs: Observation,
    views: Bool[Array, "factors episodes instants agents entities"],
    key: PRNGKeyArray,
    wait: Wait,
) -> Read:
    """Of all instants; the model's mixer sees them through these views, the target's as they are.

    Mixers wait until both utilities go through time, and have as long as that takes.
    """

    def read_mixers(wait_too: Wait) -> tuple[PyTree, PyTree]:
        later = replace(obs, entities=wait(wait_too(obs.entities)))
        return model.mixer.read(later, views), target.mixer.read(later, later.full_view[None])

    target_q, (own, targets) = unrolled(target.utility, obs, obs.visible[None], key, read_mixers)
    return Read(own, targets, target_q[0])


def unrolled(
    utility: Utility,
    obs: Observation,
    views: Bool[Array, "views episodes instants agents entities"],
    key: PRNGKeyArray,
    beside: Beside,
) -> tuple[Float[Array, "views episodes instants agents actions"], PyTree]:
    """What `unroll` gives, if it is what it should be: one of a user's own may not be."""
    kinds = []

    def noted(wait: Wait) -> PyTree:
        made = beside(wait)
        kinds.append(jax.tree.structure(made))
        return made

    given, shape = utility.unroll(obs, views, key, noted), (*views.shape[:-1], obs.available.shape[-1])
    name = f"unroll of {type(utility).__name__}"
    if not isinstance(given, tuple) or len(given) != 2 or [jax.tree.structure(given[1])] != kinds:
        raise RefilError(f"{name} must give a pair: utilities, and what beside gives, which it calls once")
    if jnp.shape(given[0]) != shape:
        raise RefilError(f"{name} must give utilities of shape {shape}, not {jnp.shape(given[0])}")
    return given


def valued(
    mixer: Mixer, read: PyTree, utilities: Float[Array, "factors episodes instants agents"], made_of: Sequence[slice]
) -> Float[Array, "values episodes instants"]:
    """What `values` gives, if it is what it should be."""
    given, shape = mixer.values(read, utilities, made_of), (len(made_of), *utilities.shape[1:-1])
    if jnp.shape(given) != shape:
        raise RefilError(
            f"values of {type(mixer).__name__} must have shape {shape}, one for each of made_of, not {jnp.shape(given)}"
        )
    return given


def joint_values(
    mixer: Mixer,
    read: Read,
    q: Float[Array, "factors episodes instants agents actions"],
    episodes: Episode,
    made_of: Sequence[slice],
) -> Float[Array, "values episodes time"]:
    """Joint values of what was done. The last instant, where nothing was, is valued too: fewer rows would have to be copied."""
    done = jnp.pad(episodes.actions, [(0, 0), (0, 1), (0, 0)])
    return valued(mixer, read.own, td.chosen(q, done), made_of)[:, :, :-1]


def goal(
    target: Model, read: Read, q: Float[Array, "episodes instants agents actions"], episodes: Episode, discount: float
) -> Float[Array, "episodes time"]:
    """What the joint value should be: the online network chooses the next actions, the target network values them."""
    utilities = td.chosen(read.target_q, td.greedy(q, episodes.observations.available))
    (values,) = valued(target.mixer, read.targets, utilities[None], [ALL])
    return jax.lax.stop_gradient(td.targets(episodes.rewards, episodes.terminated, values[:, 1:], discount))
