"""Beacon: two to four agents walk to a beacon on a line; the size of the team changes from episode to episode."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from refil.settings import PositiveInt
from refil.types import Env, EnvDefaults, Observation, Outcome, Spec

MAX_AGENTS = 4
DEFAULTS = EnvDefaults(steps=20_000, buffer=1000, epsilon_steps=5000, eval_every=2000, recurrent=False, size=32)  # optional


@dataclass(frozen=True)
class Config:
    """Options of the environment: `--env.cells` and `--env.horizon` on the command line."""

    cells: PositiveInt = 5  # Cells on the line
    horizon: PositiveInt = 8  # Steps after which an episode is truncated


class State(eqx.Module):
    """The cell of every entity, the beacon last, and the number of agents."""

    cell: Int[Array, " entities"]
    team_size: Int[Array, ""]

    @property
    def present(self) -> Bool[Array, " entities"]:
        """Whether each slot holds an entity; the last one is the beacon."""
        slot = jnp.arange(MAX_AGENTS + 1)
        return (slot < self.team_size) | (slot == MAX_AGENTS)

    @property
    def arrived(self) -> Int[Array, ""]:
        """The number of agents at the beacon."""
        return (self.present[:MAX_AGENTS] & (self.cell[:MAX_AGENTS] == self.cell[MAX_AGENTS])).sum()


@dataclass(frozen=True)
class Beacon:
    """The environment as pure functions of one state; the framework adds batches, seeds and time."""

    config: Config
    spec: Spec
    tasks: Int[np.ndarray, " tasks"]  # one row per task: here the size of the team
    task_names: tuple[str, ...] = ("2 agents", "3 agents", "4 agents")
    action_names: tuple[str, ...] = ("left", "stay", "right")  # optional, as are names of features

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the entity features."""
        return (*(f"cell {number}" for number in range(self.config.cells)), "is beacon")

    def reset(self, task: Int[Array, ""], key: PRNGKeyArray) -> State:
        """Place everyone randomly."""
        return State(jax.random.randint(key, (MAX_AGENTS + 1,), 0, self.config.cells), task)

    def step(self, state: State, actions: Int[Array, " agents"], key: PRNGKeyArray) -> tuple[State, Outcome]:
        """Move left, stay or move right. Every step costs 0.1; every arrival pays 1."""
        moved = jnp.clip(state.cell[:MAX_AGENTS] + actions - 1, 0, self.config.cells - 1)
        after = State(jnp.append(moved, state.cell[MAX_AGENTS]), state.team_size)
        solved = after.arrived == state.team_size
        return after, Outcome(reward=-0.1 + 1.0 * (after.arrived - state.arrived), terminated=solved, won=solved)

    def observe(self, state: State) -> Observation:
        """Everyone sees everyone who is present; slots of absent agents are zero and can only stay."""
        present, agents = state.present, state.present[:MAX_AGENTS]
        is_beacon = jnp.arange(MAX_AGENTS + 1)[:, None] == MAX_AGENTS
        features = jnp.append(jax.nn.one_hot(state.cell, self.config.cells), is_beacon, axis=1)
        return Observation(
            entities=jnp.where(present[:, None], features, 0.0),
            present=present,
            visible=agents[:, None] & present[None, :],
            available=agents[:, None] | (jnp.arange(3) == 1),
        )


def build(config: Config) -> Env:
    """Return the environment."""
    spec = Spec(agents=MAX_AGENTS, entities=MAX_AGENTS + 1, features=config.cells + 1, actions=3, horizon=config.horizon)
    return Beacon(config, spec, tasks=np.array([2, 3, 4]))
