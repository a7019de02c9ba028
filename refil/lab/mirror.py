"""Mirrored battles: the same battle with the sides swapped, in which a commander of allies commands the enemies."""

from dataclasses import fields, replace

import jax.numpy as jnp
from jaxtyping import Array, Int

from refil.envs.starcraft.sim.state import State

REFERENCES = ("target", "attacker", "tag")  # fields that hold slots, or tags, which are numbered by side as slots are


def mirror(state: State) -> State:
    """Return the battle with allies and enemies swapped; both sides need the same number of slots and of tags."""
    side = len(state.x) // 2

    def other(number: Int[Array, " units"]) -> Int[Array, " units"]:
        return jnp.where(number < 0, number, (number + side) % (2 * side)).astype(number.dtype)

    swapped = {name: jnp.roll(getattr(state, name), side) for name in unit_fields()}
    return replace(state, **swapped | {name: other(swapped[name]) for name in REFERENCES})


def combine(allies: State, enemies: State) -> State:
    """Return the state whose allies are those of one state and whose enemies are those of another."""
    is_enemy = jnp.arange(len(allies.x)) >= len(allies.x) // 2
    merged = {name: jnp.where(is_enemy, getattr(enemies, name), getattr(allies, name)) for name in unit_fields()}
    return replace(allies, **merged)


def unit_fields() -> list[str]:
    """Return the names of the fields that have a number per unit; stats of units do not vary in the lab."""
    return [field.name for field in fields(State) if field.name not in ("time", "multipliers")]
