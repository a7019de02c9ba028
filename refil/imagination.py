"""Who is imagined together: partitions of an episode's entities, and the views they make (paper, equations 2 and 3).

A partition is a function of one episode's observations and a key to `side`, an integer per entity, with a time axis of
length one where it holds for the whole episode. Entities with the same integer are imagined together.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from refil.types import Observation

Partition = Callable[[Observation, PRNGKeyArray], Int[Array, "time entities"]]


def random_sides(obs: Observation, key: PRNGKeyArray, groups: int) -> Int[Array, "1 entities"]:
    """Each entity in one of `groups` sub-groups by chance, the groups' shares drawn from Dirichlet(1, ..., 1).

    Two groups are the published rule: a share p uniform in (0, 1), then a coin with that bias per entity.
    """
    key_shares, key_entities = jax.random.split(key)
    cuts = jnp.sort(jax.random.uniform(key_shares, (groups - 1,)))  # gaps between sorted uniforms are Dirichlet(1, ..., 1)
    draws = jax.random.uniform(key_entities, (obs.group.shape[-1],))
    return (draws[:, None] > cuts).sum(axis=-1)[None]


def true_groups(obs: Observation, key: PRNGKeyArray) -> Int[Array, "time entities"]:
    """The environment's own groups: the paper's Fixed Oracle."""
    return obs.group


def random_in_groups(obs: Observation, key: PRNGKeyArray, groups: int) -> Int[Array, "time entities"]:
    """Random sub-groups of the environment's own groups: the paper's Randomized Oracle."""
    return obs.group * groups + random_sides(obs, key, groups)


def all_together(obs: Observation, key: PRNGKeyArray) -> Int[Array, "1 entities"]:
    """One group of everyone."""
    return jnp.zeros_like(obs.group[:1])


def at_first(first: Partition, later: Partition, obs: Observation, key: PRNGKeyArray) -> Int[Array, "time entities"]:
    """One partition at the first instant, another from then on; both draw from the same key."""
    start = jnp.arange(obs.group.shape[0])[:, None] == 0
    return jnp.where(start, first(obs, key), later(obs, key))


def views(
    side: Int[Array, "... entities"], seen: Bool[Array, "*batch agents entities"]
) -> Bool[Array, "2 ... agents entities"]:
    """What is seen, cut in two: within the agent's own sub-group, and across to all others."""
    agents = seen.shape[-2]
    together = side[..., :agents, None] == side[..., None, :]
    return jnp.stack([seen & together, seen & ~together])
