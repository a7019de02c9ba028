"""Shooters fire when their weapon is ready and nobody is upon them, else they step away from those who fight hand to hand."""

import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from refil.envs.combat import orders, tactics
from refil.envs.combat.battle import Battle
from refil.envs.combat.rules import LOOPS
from refil.envs.combat.world import World

MELEE = 1.0  # weapons of less range
UPON = 1.0  # edge to edge: within a step's walk of a blow
NEAR = 6.0  # edge to edge: those to step away from


def command(battle: Battle, world: World, key: PRNGKeyArray) -> World:
    """Nearest target or retreat."""
    traits, game = battle.game.table[world.kind], battle.game
    attack = tactics.go_for(battle, world, tactics.distances(world))
    melee = traits.armed & (traits.range < MELEE)
    edge = tactics.distances(world) - traits.radius[:, None] - traits.radius
    threat = game.foes & (melee & world.alive)[None]
    upon = (threat & (edge < UPON)).any(axis=1)
    near = (threat & (edge < NEAR)).any(axis=1)
    ready = world.cooldown < LOOPS / 2
    flees = ~melee & near & (upon | ~ready)
    weight = jnp.where(threat, 1.0 / jnp.maximum(edge + 1.0, 0.1) ** 2, 0.0)
    away_x = (weight * (world.x[:, None] - world.x)).sum(axis=1)
    away_y = (weight * (world.y[:, None] - world.y)).sum(axis=1)
    retreat = tactics.step_along(battle, world, away_x, away_y)
    return battle.ordered(world, jnp.where(flees[: game.allies] & (retreat != orders.STOP), retreat, attack))
