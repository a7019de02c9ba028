"""What a step was worth, and whether it ended the battle."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from refil.envs.starcraft.sim.state import Game, World

KILL, WIN = 10.0, 200.0
SCALE = 20.0  # the return of a battle won against the reference army without its shields coming back

LOST, BOTH_DEAD, WON, UNDECIDED = -1, 0, 1, 2
WORDS = {LOST: "lost", BOTH_DEAD: "both dead", WON: "won", UNDECIDED: "undecided"}


def harm(before: World, after: World, game: Game, absolute: bool) -> Float[Array, ""]:
    """Health and shield the enemies lost and a bonus for each of them that fell.

    Where they recovered more than they lost this is below zero; the authors' wrapper takes the absolute value.
    """
    enemies = slice(game.allies, None)
    lost = before.health + before.shield - after.health - after.shield
    fallen = before.alive & ~after.alive
    total = lost[enemies].sum() + KILL * fallen[enemies].sum()
    return jnp.abs(total) if absolute else total


def outcome(world: World, game: Game, healers_alone_lose: bool) -> Int[Array, ""]:
    """Won, lost, both dead or undecided. A side with only healers left has lost, allies first, where that rule is on."""
    if game.allies in (0, game.units):  # a situation with one side alone has nothing to decide
        return jnp.asarray(UNDECIDED)
    ally = ~game.enemies
    fights = world.alive
    if healers_alone_lose and game.table.any("heal"):
        fights &= ~game.table[world.kind].heals
        lost, won = ~(fights & ally).any(), ~(fights & ~ally).any()
        return jnp.where(lost, LOST, jnp.where(won, WON, UNDECIDED))
    lost, won = ~(fights & ally).any(), ~(fights & ~ally).any()
    return jnp.where(lost & won, BOTH_DEAD, jnp.where(lost, LOST, jnp.where(won, WON, UNDECIDED)))


def total(raw: Float[Array, ""], outcome: Int[Array, ""], divisor: float) -> Float[Array, ""]:
    """The reward as agents get it."""
    return (raw + jnp.where(outcome == WON, WIN, 0.0)) / divisor


def ended(outcome: Int[Array, ""]) -> Bool[Array, ""]:
    """Whether the battle is over."""
    return outcome != UNDECIDED
