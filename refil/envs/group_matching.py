"""Group matching: agents on a ring of cells must meet the other members of their group (paper, section 4.1)."""

import math
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from refil.errors import RefilError
from refil.scene import Area, Circle, LegendEntry, Level, Scene
from refil.settings import PositiveInt, UnitFloat
from refil.types import Env, EnvDefaults, Observation, Outcome, Spec

STEP_COST = 0.1
MATCH_REWARD = 2.5
COLORS = ("#3b82f6", "#ef4444", "#22c55e", "#eab308", "#a855f7", "#14b8a6")  # colors of groups
CELL, OCCUPIED, MATCHED = "#334155", "#3f4f69", "#34d399"  # colors of cells and of the timeline
INSIDE, OUTSIDE, ARC, PER_ROW = 4.0, 10.5, 8, 4  # drawing: radii of the ring, edges of a cell's arc, agents in a row
ACTIONS = ("back", "stay", "forward")  # moves along the ring

DEFAULTS = EnvDefaults(
    steps=1_000_000,
    eval_every=10_000,
    eval_episodes=80,
    buffer=2000,
    epsilon_steps=5000,
    pack=(0.25, 0.5),  # trained teams need a tenth of the horizon
    size=64,
    recurrent=False,
    last_action=False,
    mixer="linear",
    own_embedding=True,  # all agents see everything
)


@dataclass(frozen=True)
class Config:
    """Options of group matching; the defaults are the paper's."""

    agents: PositiveInt = 8  # Number of agents
    cells: PositiveInt = 6  # Number of cells on the ring
    groups: PositiveInt = 2  # Number of groups that the agents are split into
    horizon: PositiveInt = 50  # Steps after which an episode is truncated
    random_actions: UnitFloat = 0.1  # Probability that an agent's action is replaced by a random one


class State(eqx.Module):
    """The cell and the group of every agent."""

    cell: Int[Array, " agents"]
    group: Int[Array, " agents"]


@dataclass(frozen=True)
class GroupMatching:
    """Group matching as pure functions. There is a single task; groups are sampled in every episode."""

    config: Config
    spec: Spec
    tasks: tuple[()] = ()
    task_names: tuple[str, ...] = ("group_matching",)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the entity features."""
        sizes = {"cell": self.config.cells, "group": self.config.groups, "agent": self.config.agents}
        return tuple(f"{name} {number}" for name, size in sizes.items() for number in range(size))

    @property
    def action_names(self) -> tuple[str, ...]:
        """The names of the actions."""
        return ACTIONS

    def reset(self, task: tuple[()], key: PRNGKeyArray) -> State:
        """Sample cells and groups: agents in random order are cut at sorted random points, so a group may be empty."""
        order_key, cut_key, cell_key = jax.random.split(key, 3)
        agents, groups = self.config.agents, self.config.groups
        cuts = jnp.sort(jax.random.randint(cut_key, (groups - 1,), 0, agents))
        rank = jax.random.permutation(order_key, agents)
        return State(
            cell=jax.random.randint(cell_key, (agents,), 0, self.config.cells),
            group=(rank[:, None] >= cuts).sum(axis=-1),
        )

    def step(self, state: State, actions: Int[Array, " agents"], key: PRNGKeyArray) -> tuple[State, Outcome]:
        """Move the agents. The reward is a step cost, plus a reward for each new match, minus one for each broken match."""
        slip_key, action_key = jax.random.split(key)
        slips = jax.random.uniform(slip_key, actions.shape) < self.config.random_actions
        actions = jnp.where(slips, jax.random.randint(action_key, actions.shape, 0, len(ACTIONS)), actions)
        after = State((state.cell + actions - 1) % self.config.cells, state.group)
        new_matches = self.num_matched(after) - self.num_matched(state)
        solved = self.num_matched(after) == self.config.groups
        return after, Outcome(-STEP_COST + MATCH_REWARD * new_matches, solved, solved)

    def num_matched(self, state: State) -> Int[Array, ""]:
        """Return how many groups are matched: all members in one cell, or no members."""
        members = state.group == jnp.arange(self.config.groups)[:, None]
        first = jnp.where(members, state.cell, self.config.cells).min(axis=-1)
        last = jnp.where(members, state.cell, -1).max(axis=-1)
        return (first >= last).sum()

    def observe(self, state: State) -> Observation:
        """Return one-hot features of cell, group and index; every agent sees all agents."""
        agents = self.config.agents
        return Observation(
            entities=self._features(state),
            present=jnp.ones((agents,), bool),
            visible=jnp.ones((agents, agents), bool),
            available=jnp.ones((agents, len(ACTIONS)), bool),
            group=state.group,
        )

    def scene(self, state: State) -> Scene:
        """Draw a ring of cells, with the agents of a cell side by side in their groups' colors."""
        cells, groups = np.asarray(state.cell), np.asarray(state.group)
        circles = [self._circle(agent, cells, int(group)) for agent, group in enumerate(groups)]
        matched = int(self.num_matched(state))
        legend = [LegendEntry(f"group {group}", COLORS[group % len(COLORS)]) for group in sorted({*groups.tolist()})]
        return Scene(
            width=24,
            height=24,
            circles=circles,
            note=f"{matched} of {self.config.groups} groups matched",
            areas=[self._cell(cell, bool((cells == cell).any())) for cell in range(self.config.cells)],
            legend=(*legend, LegendEntry("cell of the ring", CELL, None)),
            levels=(Level("groups matched", matched / self.config.groups, MATCHED),),
        )

    def _circle(self, agent: int, cells: np.ndarray, group: int) -> Circle:
        """Draw an agent: in its cell, agents fill rows of four from the outside."""
        width = 2 * math.pi / self.config.cells
        row, column = divmod(int((cells[:agent] == cells[agent]).sum()), PER_ROW)
        in_row = min(PER_ROW, int((cells == cells[agent]).sum()) - row * PER_ROW)
        angle = (int(cells[agent]) + (column - (in_row - 1) / 2) / (PER_ROW + 1)) * width
        rows = math.ceil(self.config.agents / PER_ROW)
        distance = OUTSIDE - 1 - row * min(1.5, (OUTSIDE - INSIDE - 1.5) / rows)
        return Circle(
            name=f"agent {agent}",
            x=12 + distance * math.sin(angle),
            y=12 + distance * math.cos(angle),
            radius=min(0.6, 0.45 * distance * width / (PER_ROW + 1)),
            color=COLORS[group % len(COLORS)],
            label=str(agent),
            entity=agent,
            kind=f"agent of group {group}",
            values=(("cell", int(cells[agent])), ("group", group)),
        )

    def _cell(self, cell: int, occupied: bool) -> Area:
        width = 2 * math.pi / self.config.cells
        angles = [(cell - 0.48 + 0.96 * part / ARC) * width for part in range(ARC + 1)]
        arcs = [(OUTSIDE, angle) for angle in angles] + [(INSIDE, angle) for angle in reversed(angles)]
        corners = tuple((12 + radius * math.sin(angle), 12 + radius * math.cos(angle)) for radius, angle in arcs)
        at = 12 + (INSIDE - 1) * math.sin(cell * width), 12 + (INSIDE - 1) * math.cos(cell * width)
        return Area(corners, OCCUPIED if occupied else CELL, str(cell), at)

    def _features(self, state: State) -> Float[Array, "agents features"]:
        blocks = (
            state.cell[:, None] == jnp.arange(self.config.cells),
            state.group[:, None] == jnp.arange(self.config.groups),
            jnp.eye(self.config.agents, dtype=bool),
        )
        return jnp.concatenate(blocks, axis=-1).astype(jnp.float32)


def build(config: Config) -> Env:
    """Return the environment with these options."""
    if config.groups > config.agents:
        raise RefilError(f"env.groups {config.groups} is more than env.agents {config.agents}")
    features = config.cells + config.groups + config.agents
    return GroupMatching(config, Spec(config.agents, config.agents, features, len(ACTIONS), config.horizon))
