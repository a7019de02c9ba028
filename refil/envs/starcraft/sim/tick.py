"""One game tick: choose targets, walk, attack, heal and regenerate, for all units at once.

On a GPU the same code is compiled into a kernel; `kernel.py` lists what it must not use for that.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from refil import hardware
from refil.envs.starcraft.sim import motion, targeting
from refil.envs.starcraft.sim.rules import COOLDOWN_JITTER, SHIELD_DELAY
from refil.envs.starcraft.sim.state import NOBODY, Game, State, add_batch_axes, at_target, norm, take_unit, update_if
from refil.envs.starcraft.sim.unit import Shots, UnitStats
from refil.kernels.gather import take_rows

MAX_UNROLLED = 64  # attackers whose damage is applied in an unrolled loop on a GPU
CPU_UNROLLED = 4  # attackers of an iteration of that loop on a CPU
Slots = Int[Array, " units *batch"] | Int[Array, ""] | int


def tick(state: State, stats: UnitStats, jitter: Float[Array, " units *batch"], game: Game) -> State:
    """Simulate one tick; `jitter`, from 0 to 1, is where a unit's cooldown lies in the range of `COOLDOWN_JITTER`."""
    state = update_targets(state, stats, game)
    state = walk(state, stats, game)
    state, was_hit = attack(state, stats, jitter, game)
    state = heal(state, stats, game) if game.table.any("heal_rate") else state
    return regenerate(state, stats, was_hit, game)


def update_targets(state: State, stats: UnitStats, game: Game) -> State:
    """Set every unit's target; a unit whose target died stops, ready to fire."""
    target = targeting.retarget(state, stats, game)
    lost = (state.target >= 0) & (target < 0) & ~state.attack_moving
    return replace(state, target=target, moving=state.moving & ~lost)


def walk(state: State, stats: UnitStats, game: Game) -> State:
    """Walk to targets out of range, or without a target to the goal; all other units stand."""
    has_target = state.target >= 0
    target_x, target_y, edge = targeting.offset_to(state.target, state, stats, game)
    offset_x = jnp.where(has_target, target_x, state.goal_x - state.x)
    offset_y = jnp.where(has_target, target_y, state.goal_y - state.y)
    distance = norm(offset_x, offset_y)
    walks = state.alive & (stats.speed > 0) & jnp.where(has_target, edge > stats.range, state.moving & (distance > 1e-4))

    current_speed, length = state.current_speed, stats.speed
    if game.table.any("heal_rate") and game.rules.healers_follow:
        length = jnp.where(state.attack_moving & ~has_target, targeting.escort_speed(state, stats, game), length)
    if game.table.any("acceleration") and game.rules.acceleration:
        faster = jnp.where(stats.acceleration > 0, current_speed + stats.acceleration, stats.speed)
        current_speed = jnp.where(walks, jnp.minimum(faster, stats.speed), 0.0)
        length = jnp.where(stats.acceleration > 0, (state.current_speed + current_speed) / 2, length)
    scale = jnp.where(walks, jnp.minimum(length, distance), 0.0) / jnp.maximum(distance, 1e-6)

    return replace(motion.walk(state, stats, (offset_x * scale, offset_y * scale), game), current_speed=current_speed)


def attack(
    state: State, stats: UnitStats, jitter: Float[Array, " units *batch"], game: Game
) -> tuple[State, Bool[Array, " units *batch"]]:
    """Fire all weapons that are ready, simultaneously, and return also which units were hit."""
    cooldown = jnp.maximum(state.cooldown - 1.0, 0.0)
    ready = state.alive & stats.armed & (state.target >= 0) & (cooldown <= 0)
    fires = ready & (targeting.offset_to(state.target, state, stats, game)[2] <= stats.range)
    state, was_hit = hit_victims(state, stats, fires, game)
    health = state.health
    if game.table.any("dies_attacking"):
        health = jnp.where(fires & (stats.dies_attacking > 0), 0.0, health)
    period = stats.attack_period
    if game.rules.jitter:  # scaled here: outside a kernel a GPU would not round it the same way in every program
        period = period + (COOLDOWN_JITTER[0] + (COOLDOWN_JITTER[1] - COOLDOWN_JITTER[0]) * jitter)
    return replace(state, health=health, cooldown=jnp.where(fires, period, cooldown)), was_hit


def hit_victims(
    state: State, stats: UnitStats, fires: Bool[Array, " units *batch"], game: Game
) -> tuple[State, Bool[Array, " units *batch"]]:
    """Damage the victims of the weapons that fire, and return also which units were hit.

    Kernels skip this in the many ticks in which none of their weapons fires.
    """

    def hit() -> tuple[Array, ...]:
        after, was_hit = apply_damage(state, stats, damage_matrix(state, stats, fires, game), game)
        return after.health, after.shield, after.attacker, was_hit

    nobody_hit = state.health, state.shield, state.attacker, jnp.zeros_like(fires)
    health, shield, attacker, was_hit = update_if(fires.sum() > 0, nobody_hit, hit) if game.in_kernel else hit()
    return replace(state, health=health, shield=shield, attacker=attacker), was_hit


def damage_matrix(
    state: State, stats: UnitStats, fires: Bool[Array, " units *batch"], game: Game
) -> Float[Array, "units units *batch"]:
    """Return the damage of each hit, [attacker, victim]."""
    victims = victim_mask(state, stats, game) & fires[:, None] & state.alive[None]
    damage = stats.damage[:, None]
    if game.table.any("bonus_damage"):
        has_bonus = (stats.bonus_against[:, None] & stats.attributes[None]) != 0
        damage = damage + jnp.where(has_bonus, stats.bonus_damage[:, None], 0.0)
    return jnp.where(victims, damage, 0.0)


def victim_mask(state: State, stats: UnitStats, game: Game) -> Bool[Array, "units units *batch"]:
    """Return a mask [attacker, victim] of the units that an attack would damage, by the effect of the attacker's type."""
    aim_x, aim_y, _ = targeting.offset_to(state.target, state, stats, game)
    shots = Shots(
        target=state.target,
        aim_x=aim_x,
        aim_y=aim_y,
        offset_x=state.x[None] - state.x[:, None],
        offset_y=state.y[None] - state.y[:, None],
        radius=stats.radius,
        attackable=targeting.attackable(stats.along(0), stats.along(1), game),
    )
    if len(game.table.effects) == 1:
        return next(iter(game.table.effects))(shots)
    victims = jnp.zeros_like(shots.attackable)
    for effect, unit_types in game.table.effects.items():
        # Not `==`: Triton 3.6 would merge it with the same comparison before the loop over ticks, and fail to compile.
        has_effect = reduce(or_, [jnp.abs(state.unit_type - unit_type) < 1 for unit_type in unit_types])
        victims |= has_effect[:, None] & effect(shots)
    return victims


def apply_damage(
    state: State, stats: UnitStats, damage: Float[Array, "units units *batch"], game: Game
) -> tuple[State, Bool[Array, " units *batch"]]:
    """Apply hits of this [attacker, victim] damage one after another, and return also which units were hit.

    Shields absorb what they can; the rest of a hit reduces health, less armor but at least by the rules' `min_damage`.
    """
    max_hits = max(unit.hits_per_attack for unit in game.table.units)

    def apply_attack(carry: tuple[Array, ...], slot: Slots, hit_damage: Array, hits: Array) -> tuple[Array, ...]:
        health, shield, attacker = carry
        for number in range(max_hits):
            hit = jnp.where(hits > number, hit_damage, 0.0)
            through = hit - jnp.minimum(hit, shield)
            shield = shield - jnp.minimum(hit, shield)
            health -= jnp.where(through > 0, jnp.maximum(through - stats.armor, game.rules.min_damage), 0.0)
        return health, shield, jnp.where(hit_damage > 0, jnp.asarray(slot, attacker.dtype), attacker)

    apply_all = _apply_by_victim if game.in_kernel else _apply_by_attacker
    carry = apply_all(apply_attack, (state.health, state.shield, state.attacker), damage, stats.hits_per_attack, game)
    health, shield, attacker = carry
    after = replace(state, health=jnp.maximum(health, 0.0), shield=shield, attacker=attacker)
    return after, damage.max(axis=0) > 0


def _apply_by_attacker(function: Callable[..., Any], carry: Any, damage: Array, hits: Array, game: Game) -> Any:
    """Apply `carry = function(carry, attacker, damage, hits)` for every attacker, each to all victims.

    The loop is unrolled on a GPU, so that XLA makes one pass over the battles. On a CPU XLA would then compute all attacks
    again for every array that depends on them.
    """

    def one_attacker(carry: Any, slot: Slots) -> Any:
        return function(carry, slot, take_unit(damage, slot), take_unit(hits, slot))

    if hardware.on_gpu() and game.num_units <= MAX_UNROLLED:
        return reduce(one_attacker, range(game.num_units), carry)
    unroll = MAX_UNROLLED if hardware.on_gpu() else CPU_UNROLLED
    return jax.lax.fori_loop(0, game.num_units, lambda slot, carry: one_attacker(carry, slot), carry, unroll=unroll)


def _apply_by_victim(function: Callable[..., Any], carry: Any, damage: Array, hits: Array, game: Game) -> Any:
    """Do the same inside a kernel: every victim takes its own attackers in turn, which are few, since weapons fire rarely.

    A victim that has no attacker left takes no damage, which changes nothing.
    """
    slots = add_batch_axes(jnp.arange(game.num_units)[:, None], hits)
    attackers = jnp.where(damage > 0, slots, game.num_units)

    def next_attacker(_: Array, now: tuple[Array, Any]) -> tuple[Array, Any]:
        last, carry = now
        slot = jnp.where(attackers > last[None], attackers, game.num_units).min(axis=0)
        hit_damage = jnp.where(slots == slot[None], damage, 0.0).sum(axis=0)
        return slot, function(carry, slot, hit_damage, take_rows(hits, jnp.minimum(slot, game.num_units - 1)))

    most = (damage > 0).sum(axis=0).max(axis=0).max(axis=0)
    return jax.lax.fori_loop(0, most, next_attacker, (jnp.full_like(hits, -1), carry))[1]


def heal(state: State, stats: UnitStats, game: Game) -> State:
    """Heal the targets of healers in range that survived the attacks; healers pay with energy."""
    can_heal = targeting.can_heal(state.target, stats, game)
    near = targeting.offset_to(state.target, state, stats, game)[2] <= stats.range
    missing = at_target(stats.max_health - state.health, state.target, game)
    affordable = jnp.minimum(stats.heal_rate, state.energy / jnp.maximum(stats.heal_cost, 1e-6))
    heals = state.alive & can_heal & near & at_target(state.alive, state.target, game)
    given = jnp.where(heals, jnp.minimum(affordable, missing), 0.0)
    slots = add_batch_axes(jnp.arange(len(state.x)), state.x)
    received = jnp.where(state.target[:, None] == slots[None], given[:, None], 0.0).sum(axis=0)
    return replace(
        state,
        health=jnp.minimum(state.health + received, stats.max_health),
        energy=state.energy - given * stats.heal_cost,
    )


def regenerate(state: State, stats: UnitStats, was_hit: Bool[Array, " units *batch"], game: Game) -> State:
    """Regenerate energy and health, and the shields of units not hit for a while; clear the state of dead units."""
    hit_ticks = jnp.where(was_hit, 0, jnp.minimum(state.ticks_since_hit + 1, SHIELD_DELAY + 1))
    hit_ticks = hit_ticks.astype(state.ticks_since_hit.dtype)
    shield_regen = jnp.where(hit_ticks > SHIELD_DELAY, stats.shield_regen, 0.0)
    shield = jnp.minimum(state.shield + shield_regen, stats.max_shield)
    energy = jnp.minimum(state.energy + stats.energy_regen, stats.max_energy)
    health = state.health
    if game.table.any("health_regen"):
        health = jnp.minimum(health + jnp.where(health > 0, stats.health_regen, 0.0), stats.max_health)
    alive = state.alive
    return replace(
        state,
        health=health,
        ticks_since_hit=hit_ticks,
        shield=jnp.where(alive, shield, 0.0),
        energy=jnp.where(alive, energy, 0.0),
        cooldown=jnp.where(alive, state.cooldown, 0.0),
        target=jnp.where(alive, state.target, NOBODY).astype(state.target.dtype),
        moving=state.moving & alive,
    )
