"""Who is imagined together: partitions of the entities, and the views they make (paper, equations 3 and 4).

Each episode gets random sides; a partition makes of them, and of what is there at an instant, the `side` that counts: an
integer per entity, and entities with the same integer are imagined together.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from refil.types import Observation

Sides = Int[Array, "... entities"]
Partition = Callable[[Observation, Sides], Sides]


def random_sides(entities: int, groups: int, key: PRNGKeyArray) -> Int[Array, " entities"]:
    """Each entity in one of `groups` sub-groups by chance, the groups' shares drawn from Dirichlet(1, ..., 1).

    Two groups are the published rule: a share p uniform in (0, 1), then a coin with that bias per entity.
    """
    key_shares, key_entities = jax.random.split(key)
    cuts = jnp.sort(jax.random.uniform(key_shares, (groups - 1,)))  # gaps between sorted uniforms are Dirichlet(1, ..., 1)
    return (jax.random.uniform(key_entities, (entities, 1)) > cuts).sum(axis=-1)


def as_drawn(obs: Observation, drawn: Sides) -> Sides:
    """The random sides themselves: REFIL."""
    return drawn


def true_groups(obs: Observation, drawn: Sides) -> Sides:
    """The environment's own groups: the paper's Fixed Oracle."""
    return jnp.broadcast_to(obs.group, drawn.shape)


def random_in_groups(obs: Observation, drawn: Sides) -> Sides:
    """Random sub-groups of the environment's own groups: the paper's Randomized Oracle."""
    return drawn * (1 + obs.group.max()) + obs.group


def all_together(obs: Observation, drawn: Sides) -> Sides:
    """One group of everyone."""
    return jnp.zeros_like(drawn)


def at_first(first: Partition, later: Partition, obs: Observation, drawn: Sides) -> Sides:
    """One partition at the first instant of an episode, another from then on."""
    return jnp.where(obs.is_first[..., None], first(obs, drawn), later(obs, drawn))


def views(side: Sides, seen: Bool[Array, "*batch agents entities"]) -> Bool[Array, "2 ... agents entities"]:
    """What is seen, cut in two: within the agent's own sub-group, and across to all others."""
    agents = seen.shape[-2]
    together = side[..., :agents, None] == side[..., None, :]
    return jnp.stack([seen & together, seen & ~together])
