"""Rewards, and how battles end."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from refil.envs.starcraft.sim.state import Game, State

KILL_BONUS, WIN_BONUS = 10.0, 200.0
MAX_RETURN = 20.0  # return of a win against the reference army whose shields never regenerate

LOST, BOTH_DEAD, WON, UNDECIDED = -1, 0, 1, 2
RESULT_NAMES = {LOST: "lost", BOTH_DEAD: "both dead", WON: "won", UNDECIDED: "undecided"}


def damage_reward(before: State, after: State, game: Game, absolute: bool) -> Float[Array, ""]:
    """Return the health and shield that enemies lost, plus a bonus for each kill, before scaling.

    The sum is negative where enemies regenerated more than they lost; the authors' environment takes the absolute value.
    """
    enemies = slice(game.num_allies, None)
    lost = before.health + before.shield - after.health - after.shield
    killed = before.alive & ~after.alive
    total = lost[enemies].sum() + KILL_BONUS * killed[enemies].sum()
    return jnp.abs(total) if absolute else total


def battle_result(state: State, game: Game, healers_alone_lose: bool) -> Int[Array, ""]:
    """Return LOST, BOTH_DEAD, WON or UNDECIDED.

    With `healers_alone_lose`, a team with only healers left has lost; if that holds for both teams, the allies have lost.
    """
    if game.num_allies in (0, game.num_units):  # a battle of one team has no winner
        return jnp.asarray(UNDECIDED)
    ally = ~game.is_enemy
    fights = state.alive
    if healers_alone_lose and game.table.any("heal_rate"):
        fights &= ~game.stats(state).heals
        lost, won = ~(fights & ally).any(), ~(fights & ~ally).any()
        return jnp.where(lost, LOST, jnp.where(won, WON, UNDECIDED))
    lost, won = ~(fights & ally).any(), ~(fights & ~ally).any()
    return jnp.where(lost & won, BOTH_DEAD, jnp.where(lost, LOST, jnp.where(won, WON, UNDECIDED)))


def scaled_reward(raw: Float[Array, ""], result: Int[Array, ""], divisor: float) -> Float[Array, ""]:
    """Return the reward of a step, with the bonus for a win."""
    return (raw + jnp.where(result == WON, WIN_BONUS, 0.0)) / divisor


def is_over(result: Int[Array, ""]) -> Bool[Array, ""]:
    """Return whether a battle with this result has ended."""
    return result != UNDECIDED
