"""One game loop: choose targets, walk, shoot, mend, recover, all units at once.

On a GPU this very code becomes a kernel; `tick_kernel.py` says what it has to do without for that.
"""

from dataclasses import replace
from functools import reduce
from operator import or_

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from refil.envs.starcraft.sim import motion, targeting
from refil.envs.starcraft.sim.rules import JITTER, QUIET
from refil.envs.starcraft.sim.state import NOBODY, Game, World, in_turn, length, of, over_batch, row
from refil.envs.starcraft.sim.unit import Shots, Traits

UNROLLED = 64  # shots that are written out one after another, but for kernels


def tick(world: World, traits: Traits, jitter: Float[Array, "units *batch"], game: Game) -> World:
    """The next loop; `jitter`, from 0 to 1, says where between the least and the most the time to reload lies."""
    world = aim(world, traits, game)
    world = walk(world, traits, game)
    world, harm = shoot(world, traits, jitter, game)
    world = mend(world, traits, game) if game.table.any("heal") else world
    return recover(world, traits, harm, game)


def aim(world: World, traits: Traits, game: Game) -> World:
    """Everyone has a target, or none; one whose target died stands idle, its weapon ready."""
    target = targeting.retarget(world, traits, game)
    lost = (world.target >= 0) & (target < 0) & ~world.roams
    return replace(world, target=target, going=world.going & ~lost)


def walk(world: World, traits: Traits, game: Game) -> World:
    """Who has a target out of reach goes there, who has none goes to its goal, all others hold their place."""
    aims = world.target >= 0
    target_x, target_y, edge = targeting.way_to(world.target, world, traits, game)
    way_x = jnp.where(aims, target_x, world.goal_x - world.x)
    way_y = jnp.where(aims, target_y, world.goal_y - world.y)
    way = length(way_x, way_y)
    walking = world.alive & (traits.speed > 0) & jnp.where(aims, edge > traits.range, world.going & (way > 1e-4))

    pace, stride = world.pace, traits.speed
    if game.table.any("heal") and game.rules.healers_follow:
        stride = jnp.where(world.roams & ~aims, targeting.speed_beside_friends(world, traits, game), stride)
    if game.table.any("acceleration") and game.rules.acceleration:
        faster = jnp.where(traits.acceleration > 0, pace + traits.acceleration, traits.speed)
        pace = jnp.where(walking, jnp.minimum(faster, traits.speed), 0.0)
        stride = jnp.where(traits.acceleration > 0, (world.pace + pace) / 2, stride)
    stride = jnp.where(walking, jnp.minimum(stride, way), 0.0) / jnp.maximum(way, 1e-6)

    return replace(motion.walk(world, traits, (way_x * stride, way_y * stride), game), pace=pace)


def shoot(
    world: World, traits: Traits, jitter: Float[Array, "units *batch"], game: Game
) -> tuple[World, Bool[Array, "units *batch"]]:
    """All shots of this loop hit at the same moment; also says who was hurt."""
    cooldown = jnp.maximum(world.cooldown - 1.0, 0.0)
    ready = world.alive & traits.armed & (world.target >= 0) & (cooldown <= 0)
    fires = ready & (targeting.way_to(world.target, world, traits, game)[2] <= traits.range)
    victims = hurt_by(world, traits, game) & fires[:, None] & world.alive[None]
    power = traits.damage[:, None] + jnp.where(
        (traits.bonus_against[:, None] & traits.attributes[None]) != 0, traits.bonus[:, None], 0.0
    )
    world, harm = struck(world, traits, jnp.where(victims, power, 0.0), game)
    health = world.health
    if game.table.any("dies_attacking"):
        health = jnp.where(fires & (traits.dies_attacking > 0), 0.0, health)
    period = traits.period
    if game.rules.jitter:  # scaled here: outside a kernel a GPU would not round it the same way in every program
        period = period + (JITTER[0] + (JITTER[1] - JITTER[0]) * jitter)
    return replace(world, health=health, cooldown=jnp.where(fires, period, cooldown)), harm


def hurt_by(world: World, traits: Traits, game: Game) -> Bool[Array, "units units *batch"]:
    """[shooter, victim]: whom a shot of each unit would hurt, in its kind's way."""
    aim_x, aim_y, _ = targeting.way_to(world.target, world, traits, game)
    shots = Shots(
        target=world.target,
        aim_x=aim_x,
        aim_y=aim_y,
        offset_x=world.x[None] - world.x[:, None],
        offset_y=world.y[None] - world.y[:, None],
        radius=traits.radius,
        hittable=targeting.hittable(traits.along(0), traits.along(1), game),
    )
    if len(game.table.effects) == 1:
        return next(iter(game.table.effects))(shots)
    hurt = jnp.zeros_like(shots.hittable)
    for effect, kinds in game.table.effects.items():
        shoots_so = reduce(or_, [world.kind == kind for kind in kinds])
        hurt |= shoots_so[:, None] & effect(shots)
    return hurt


def struck(
    world: World, traits: Traits, power: Float[Array, "units units *batch"], game: Game
) -> tuple[World, Bool[Array, "units *batch"]]:
    """Everyone after blows of this [shooter, victim] power, one after another, and who was hurt.

    The shield takes what it can; what is left of a blow meets health, lessened by armour but never to nothing.
    """
    most = max(unit.strikes for unit in game.table.units)

    def shot(now: tuple[Array, Array, Array], number: Int[Array, ""] | int) -> tuple[Array, Array, Array]:
        health, shield, attacker = now
        blows, strikes = row(power, number, game), row(traits.strikes, number, game)
        for strike in range(most):
            blow = jnp.where(strikes > strike, blows, 0.0)
            through = blow - jnp.minimum(blow, shield)
            shield = shield - jnp.minimum(blow, shield)
            health -= jnp.where(through > 0, jnp.maximum(through - traits.armour, game.rules.least_damage), 0.0)
        return health, shield, jnp.where(blows > 0, jnp.asarray(number, attacker.dtype), attacker)

    now = world.health, world.shield, world.attacker
    if game.units > UNROLLED:
        now = jax.lax.fori_loop(0, game.units, lambda number, now: shot(now, number), now, unroll=UNROLLED)
    else:
        now = in_turn(shot, now, [(number,) for number in range(game.units)], game)
    health, shield, attacker = now
    after = replace(world, health=jnp.maximum(health, 0.0), shield=shield, attacker=attacker)
    return after, power.max(axis=0) > 0


def mend(world: World, traits: Traits, game: Game) -> World:
    """Healers in reach of their target mend it, if it survived; each pays for what it gave."""
    mendable = targeting.can_mend(world.target, traits, game)
    near = targeting.way_to(world.target, world, traits, game)[2] <= traits.range
    missing = of(traits.health - world.health, world.target, game)
    able = jnp.minimum(traits.heal, world.energy / jnp.maximum(traits.heal_cost, 1e-6))
    given = jnp.where(world.alive & mendable & near & of(world.alive, world.target, game), jnp.minimum(able, missing), 0.0)
    slots = over_batch(jnp.arange(len(world.x)), world.x)
    gained = jnp.where(world.target[:, None] == slots[None], given[:, None], 0.0).sum(axis=0)
    return replace(
        world,
        health=jnp.minimum(world.health + gained, traits.health),
        energy=world.energy - given * traits.heal_cost,
    )


def recover(world: World, traits: Traits, harm: Bool[Array, "units *batch"], game: Game) -> World:
    """Shields come back to those left in peace, energy and some health to all; the dead want nothing any more."""
    quiet = jnp.where(harm, 0, jnp.minimum(world.quiet + 1, QUIET + 1)).astype(world.quiet.dtype)
    back = jnp.where(quiet > QUIET, traits.shield_regained, 0.0)
    shield = jnp.minimum(world.shield + back, traits.shield)
    energy = jnp.minimum(world.energy + traits.energy_regained, traits.energy_most)
    health = world.health
    if game.table.any("health_regained"):
        health = jnp.minimum(health + jnp.where(health > 0, traits.health_regained, 0.0), traits.health)
    alive = world.alive
    return replace(
        world,
        health=health,
        quiet=quiet,
        shield=jnp.where(alive, shield, 0.0),
        energy=jnp.where(alive, energy, 0.0),
        cooldown=jnp.where(alive, world.cooldown, 0.0),
        target=jnp.where(alive, world.target, NOBODY).astype(world.target.dtype),
        going=world.going & alive,
    )
