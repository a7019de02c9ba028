"""Beacon: two to four agents walk to a beacon on a line; how many there are changes from episode to episode."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from refil.settings import PositiveInt
from refil.types import Defaults, Env, Observation, Outcome, Spec

MOST = 4  # agents
DEFAULTS = Defaults(steps=20_000, buffer=1000, epsilon_steps=5000, eval_every=2000, eval_episodes=80, recurrent=False, size=32)


@dataclass(frozen=True)
class Config:
    """Options, which become --env.cells and --env.horizon."""

    cells: PositiveInt = 5  # places on the line
    horizon: PositiveInt = 8  # steps after which an episode is cut off


class State(eqx.Module):
    """Where everyone is, the beacon last, and how many agents there are."""

    cell: Int[Array, " entities"]
    team: Int[Array, ""]

    @property
    def there(self) -> Array:
        """Which slots hold someone; the beacon always does."""
        slot = jnp.arange(MOST + 1)
        return (slot < self.team) | (slot == MOST)

    @property
    def arrived(self) -> Int[Array, ""]:
        """How many agents stand at the beacon."""
        return (self.there[:MOST] & (self.cell[:MOST] == self.cell[MOST])).sum()


@dataclass(frozen=True)
class Beacon:
    """The world as pure functions of one state; batches, seeds and time are added elsewhere."""

    config: Config
    spec: Spec
    tasks: Int[Array, " tasks"]  # one row per task: here, the size of the team
    task_names: tuple[str, ...] = ("2 agents", "3 agents", "4 agents")

    def reset(self, task: Int[Array, ""], key: PRNGKeyArray) -> State:
        """Everyone somewhere."""
        return State(jax.random.randint(key, (MOST + 1,), 0, self.config.cells), task)

    def step(self, state: State, actions: Int[Array, " agents"], key: PRNGKeyArray) -> tuple[State, Outcome]:
        """Go left, stay or go right; time costs a little, and whoever arrives is paid for."""
        moved = jnp.clip(state.cell[:MOST] + actions - 1, 0, self.config.cells - 1)
        moved = State(jnp.append(moved, state.cell[MOST]), state.team)
        all_there = moved.arrived == state.team
        return moved, Outcome(-0.1 + 1.0 * (moved.arrived - state.arrived), all_there, all_there)

    def observe(self, state: State) -> Observation:
        """Everyone sees everyone who is there; slots of absent agents are empty and can only stay."""
        there, agents = state.there, state.there[:MOST]
        features = jnp.append(jax.nn.one_hot(state.cell, self.config.cells), jnp.arange(MOST + 1)[:, None] == MOST, axis=1)
        return Observation(
            entities=jnp.where(there[:, None], features, 0.0),
            present=there,
            alive=there,
            visible=agents[:, None] & there[None, :],
            available=agents[:, None] | (jnp.arange(3) == 1),
            group=jnp.zeros((MOST + 1,), jnp.int32),
        )


def build(config: Config) -> Env:
    """The world of these sizes."""
    spec = Spec(agents=MOST, entities=MOST + 1, features=config.cells + 1, actions=3, horizon=config.horizon)
    return Beacon(config, spec, tasks=jnp.array([2, 3, 4]))
