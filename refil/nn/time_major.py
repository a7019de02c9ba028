"""Instants in the order of time, for what remembers, and back to where they lie."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from refil.types import Turns


def time_first(turns: Turns | None, leaf: Array, behind: int) -> Array:
    """What is known of these instants with time as its first axis; `behind` is the number of axes that follow time's.

    Instants on a line are shared out among rows of time; a row's instants that nothing lies on are zero.
    """
    axis = leaf.ndim - behind - 1
    if turns is None:
        return jnp.moveaxis(leaf, axis, 0)
    in_turn = move(jnp.moveaxis(leaf, axis, 0).squeeze(axis), *places(turns.turn[0], turns.rows * turns.instants)[::-1])
    in_turn = in_turn.reshape(turns.instants, turns.rows, *in_turn.shape[1:])
    return jnp.moveaxis(in_turn, 1, axis)


def as_it_was(turns: Turns | None, leaf: Array, behind: int) -> Array:
    """What `time_first` was done to, `behind` being the same."""
    axis = leaf.ndim - behind - 1
    if turns is None:
        return jnp.moveaxis(leaf, 0, axis)
    in_turn = jnp.moveaxis(leaf, axis, 1)
    in_turn = in_turn.reshape(turns.instants * turns.rows, *in_turn.shape[2:])
    rows = move(in_turn, *places(turns.turn[0], len(in_turn)))
    return jnp.expand_dims(jnp.moveaxis(rows, 0, axis - 1), axis - 1)


def places(turn: Int[Array, " instants"], turns: int) -> tuple[Int[Array, " instants"], Int[Array, " turns"]]:
    """Each instant's turn, and each turn's instant; a number too large where there is none."""
    instants = jnp.full((turns,), len(turn)).at[turn].set(jnp.arange(len(turn)), mode="drop")
    return turn, instants


@jax.custom_vjp
def move(rows: Array, source: Int[Array, " to"], back: Int[Array, " from"]) -> Array:
    """The rows that `source` names, zero where there is no such row; `back` names where each row then is, for the gradient.

    Else the gradient would be added up place by place, in no order.
    """
    return jnp.take(rows, source, axis=0, mode="fill", fill_value=0)


move.defvjp(
    lambda rows, source, back: (move(rows, source, back), (source, back)),
    lambda kept, gradient: (move(gradient, *kept[::-1]), None, None),
)
