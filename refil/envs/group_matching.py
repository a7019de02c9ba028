"""Group matching: agents on a ring of cells must gather with their group, not knowing who matters (paper, section 4.1)."""

import math
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from refil.errors import RefilError
from refil.scene import Circle, Line, Scene
from refil.settings import PositiveInt, UnitFloat
from refil.types import Env, EnvDefaults, Observation, Outcome, Spec

STEP_COST = 0.1
MATCH_REWARD = 2.5
COLOURS = ("#3b82f6", "#ef4444", "#22c55e", "#eab308", "#a855f7", "#14b8a6")  # of groups
ACTIONS = 3  # one cell back, stay, one cell on

DEFAULTS = EnvDefaults(
    steps=1_000_000,
    buffer=2000,
    epsilon_steps=5000,
    eval_every=10_000,
    eval_episodes=80,
    recurrent=False,
    mixer="linear",
    size=64,
    last_action=False,
    pack=(0.25, 0.5),  # a team that has learned needs a tenth of the steps
)


@dataclass(frozen=True)
class Config:
    """Sizes of the game; the defaults are the paper's."""

    agents: PositiveInt = 8  # how many agents there are
    cells: PositiveInt = 6  # places on the ring
    groups: PositiveInt = 2  # groups that the agents are split into
    horizon: PositiveInt = 50  # steps after which an episode is cut off
    random_actions: UnitFloat = 0.1  # chance that an agent's action is replaced by a random one


class State(eqx.Module):
    """Where every agent is, and with whom it belongs."""

    cell: Int[Array, " agents"]
    group: Int[Array, " agents"]


@dataclass(frozen=True)
class GroupMatching:
    """The game as pure functions; it has a single task, groups are drawn anew in every episode."""

    config: Config
    spec: Spec
    tasks: tuple[()] = ()
    task_names: tuple[str, ...] = ("group_matching",)

    def reset(self, task: tuple[()], key: PRNGKeyArray) -> State:
        """Groups are the pieces of a shuffled row of agents between sorted cuts: one may be empty or a single agent."""
        key_order, key_cuts, key_cells = jax.random.split(key, 3)
        agents, groups = self.config.agents, self.config.groups
        cuts = jnp.sort(jax.random.randint(key_cuts, (groups - 1,), 0, agents))
        place = jax.random.permutation(key_order, agents)
        return State(
            cell=jax.random.randint(key_cells, (agents,), 0, self.config.cells),
            group=(place[:, None] >= cuts).sum(axis=-1),
        )

    def step(self, state: State, actions: Int[Array, " agents"], key: PRNGKeyArray) -> tuple[State, Outcome]:
        """Move, then pay for time and for each group that came together (or take it back where one broke)."""
        key_slip, key_action = jax.random.split(key)
        slips = jax.random.uniform(key_slip, actions.shape) < self.config.random_actions
        actions = jnp.where(slips, jax.random.randint(key_action, actions.shape, 0, ACTIONS), actions)
        moved = State((state.cell + actions - 1) % self.config.cells, state.group)
        gained = self.matched(moved) - self.matched(state)
        solved = self.matched(moved) == self.config.groups
        return moved, Outcome(-STEP_COST + MATCH_REWARD * gained, solved, solved)

    def matched(self, state: State) -> Int[Array, ""]:
        """How many groups stand in one cell; an empty group does."""
        members = state.group == jnp.arange(self.config.groups)[:, None]
        first = jnp.where(members, state.cell, self.config.cells).min(axis=-1)
        last = jnp.where(members, state.cell, -1).max(axis=-1)
        return (first >= last).sum()

    def observe(self, state: State) -> Observation:
        """Everyone sees everyone: cell, group and index, all one-hot."""
        agents = self.config.agents
        everyone = jnp.ones((agents,), bool)
        return Observation(
            entities=self.features(state),
            present=everyone,
            alive=everyone,
            visible=jnp.ones((agents, agents), bool),
            available=jnp.ones((agents, ACTIONS), bool),
            group=state.group,
        )

    def scene(self, state: State) -> Scene:
        """Cells are places on a ring; who stands in one place stands side by side, in its group's colour."""
        cells, circles = np.asarray(state.cell), []
        for agent, (cell, group) in enumerate(zip(cells, np.asarray(state.group), strict=True)):
            angle = 2 * math.pi * int(cell) / self.config.cells
            reach = 3.0 + 0.9 * int((cells[:agent] == cell).sum())
            place = 12 + reach * math.sin(angle), 12 + reach * math.cos(angle)
            circles.append(Circle(f"agent {agent}", *place, 0.4, COLOURS[int(group) % len(COLOURS)], str(agent)))
        marks = [2 * math.pi * cell / self.config.cells for cell in range(self.config.cells)]
        lines = [Line(12, 12, 12 + 2.4 * math.sin(mark), 12 + 2.4 * math.cos(mark), "#475569") for mark in marks]
        return Scene(24, 24, circles, lines, f"{int(self.matched(state))} of {self.config.groups} groups together")

    def features(self, state: State) -> Float[Array, "agents features"]:
        """One row per agent."""
        blocks = (
            state.cell[:, None] == jnp.arange(self.config.cells),
            state.group[:, None] == jnp.arange(self.config.groups),
            jnp.eye(self.config.agents, dtype=bool),
        )
        return jnp.concatenate(blocks, axis=-1).astype(jnp.float32)


def build(config: Config) -> Env:
    """The game of these sizes."""
    if config.groups > config.agents:
        raise RefilError(f"--env.groups {config.groups} is more than --env.agents {config.agents}")
    features = config.cells + config.groups + config.agents
    return GroupMatching(config, Spec(config.agents, config.agents, features, ACTIONS, config.horizon))
