"""Tiny environments whose numbers can be worked out by hand."""

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Int

from refil.types import Env, Observation, Outcome, Spec


@dataclass(frozen=True)
class Config:
    """Options of the counting environment."""

    horizon: int = 4


class State(eqx.Module):
    """The steps made, and the length of this task."""

    time: Int[Array, ""]
    length: Int[Array, ""]


@dataclass(frozen=True)
class Counting:
    """Two agents and a third entity; a task terminates after its length (or is truncated), and each step pays its number.

    The second agent is absent in tasks of odd length. Only action 1 is available at odd timesteps.
    """

    spec: Spec
    tasks: tuple[int, ...] = (1, 2, 3, 9)
    task_names: tuple[str, ...] = ("1 step", "2 steps", "3 steps", "never")

    def reset(self, task, key) -> State:
        return State(jnp.zeros((), jnp.int32), jnp.asarray(task, jnp.int32))

    def step(self, state, actions, key) -> tuple[State, Outcome]:
        time = state.time + 1
        over = time >= state.length
        return State(time, state.length), Outcome(time.astype(jnp.float32), over, over & (actions[0] == 1))

    def observe(self, state) -> Observation:
        present = jnp.array([True, False, True]) | (state.length % 2 == 0)
        features = jnp.stack([jnp.full((3,), state.time), jnp.arange(3)], axis=-1).astype(jnp.float32)
        odd = state.time % 2 == 1
        return Observation(
            entities=jnp.where(present[:, None], features, 0.0),
            present=present,
            visible=present[:2, None] & present[None, :],
            available=jnp.stack([jnp.array([~odd, True])] * 2),
        )


def build(config: Config) -> Env:
    return Counting(Spec(agents=2, entities=3, features=2, actions=2, horizon=config.horizon), jnp.array([1, 2, 3, 9]))
