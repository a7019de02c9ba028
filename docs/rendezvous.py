"""Rendezvous: two to four agents on a ring have to meet; how many there are changes from episode to episode."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from refil.settings import Count
from refil.types import Defaults, Env, Observation, Outcome, Spec

MOST = 4  # agents
DEFAULTS = Defaults(steps=20_000, buffer=1000, epsilon_steps=5000, eval_every=2000, eval_episodes=80, recurrent=False, size=32)


@dataclass(frozen=True)
class Config:
    """Options, which become --env.cells and --env.horizon."""

    cells: Count = 5  # places on the ring
    horizon: Count = 10  # steps after which an episode is cut off


class State(eqx.Module):
    """Where everyone is, and how many they are."""

    cell: Int[Array, " agents"]
    team: Int[Array, ""]


@dataclass(frozen=True)
class Rendezvous:
    """The world as pure functions of one state; batches, seeds and time are added elsewhere."""

    config: Config
    spec: Spec
    tasks: Int[Array, " tasks"]  # one row per task: here, the size of the team
    task_names: tuple[str, ...] = ("2 agents", "3 agents", "4 agents")

    def reset(self, task: Int[Array, ""], key: PRNGKeyArray) -> State:
        """Everyone somewhere."""
        return State(jax.random.randint(key, (MOST,), 0, self.config.cells), task)

    def step(self, state: State, actions: Int[Array, " agents"], key: PRNGKeyArray) -> tuple[State, Outcome]:
        """Go back, stay or go on; a step costs a little, a meeting pays."""
        moved = State((state.cell + actions - 1) % self.config.cells, state.team)
        there = jnp.arange(MOST) < state.team
        met = jnp.where(there, moved.cell, moved.cell[0]).ptp() == 0
        return moved, Outcome(jnp.where(met, 1.0, -0.05), met, met)

    def observe(self, state: State) -> Observation:
        """Everyone sees everyone who is there; slots of absent agents are empty and can only stay."""
        there = jnp.arange(MOST) < state.team
        features = jax.nn.one_hot(state.cell, self.config.cells)
        stay = jnp.arange(3) == 1
        return Observation(
            entities=jnp.where(there[:, None], features, 0.0),
            present=there,
            alive=there,
            visible=there[:, None] & there[None, :],
            available=there[:, None] | stay,
            group=jnp.zeros((MOST,), jnp.int32),
        )


def build(config: Config) -> Env:
    """The world of these sizes."""
    spec = Spec(agents=MOST, entities=MOST, features=config.cells, actions=3, horizon=config.horizon)
    return Rendezvous(config, spec, tasks=jnp.array([2, 3, 4]))
