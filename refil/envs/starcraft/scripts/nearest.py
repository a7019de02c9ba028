"""Attack the nearest enemy; healers heal the nearest damaged ally."""

from jaxtyping import PRNGKeyArray

from refil.envs.starcraft import tactics
from refil.envs.starcraft.env import StarCraft
from refil.envs.starcraft.sim.state import State


def orders(env: StarCraft, state: State, key: PRNGKeyArray) -> State:
    """Target the nearest unit, or walk to it."""
    return env.with_orders(state, tactics.attack_or_approach(env, state, tactics.distances(state)))
