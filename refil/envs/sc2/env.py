"""Battles in the real StarCraft II, with the features, actions, rewards and ends of the simulator's task sets and armies."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from refil import hosted
from refil.envs.sc2 import client, install
from refil.envs.sc2.battles import Battles, scripted
from refil.envs.sc2.config import Config
from refil.envs.sc2.games import Games, Launch
from refil.envs.sc2.records import RACES, Race
from refil.envs.starcraft import config as simulator
from refil.envs.starcraft import env as starcraft_env
from refil.envs.starcraft.env import StarCraft, Task
from refil.envs.starcraft.scenarios import Scenario
from refil.envs.starcraft.sim.state import State
from refil.errors import RefilError
from refil.rollout import Policy
from refil.types import Env, Outcome, Trajectory
from refil.wrappers import EnvWrapper

OWN = ("games", "build", "game_seed", "timeout")  # options that the simulator does not have
ONLY_HOSTED = "the real StarCraft II cannot run inside a compiled program; train, evaluate and watch step it instead"


@dataclass(frozen=True, eq=False)
class StarCraft2(EnvWrapper):
    """The simulator's tasks, observations and rewards, played in the game."""

    env: StarCraft
    battles: Battles

    @property
    def games(self) -> Games:
        """The games that it is played in."""
        return self.battles.games

    def hosted_rollout(
        self, env: Env, policy: Policy, policy_state: PyTree, tasks: Int[Array, "seeds envs"], keys: Array
    ) -> Trajectory:
        """Play one episode of each task in the game."""
        return hosted.rollout(self.battles, env, policy, policy_state, tasks, keys)

    def check_ready(self) -> None:
        """Raise if the game is not installed."""
        install.protocol()
        self.games.launch(0)

    def reset(self, task: Task, key: PRNGKeyArray) -> State:
        """Return the shapes of a first state while tracing, and raise otherwise."""
        return _only_shapes(self.env.reset, task, key)

    def step(self, state: State, actions: Int[Array, " agents"], key: PRNGKeyArray) -> tuple[State, Outcome]:
        """Return the shapes of a step while tracing, and raise otherwise."""
        return _only_shapes(self.env.step, state, actions, key)


def with_script(env: StarCraft2, script: Callable[..., State]) -> StarCraft2:
    """Return the environment with allies that follow a script and ignore actions; it uses the same games."""
    return replace(env, battles=Battles(env.env, env.games, scripted(env.env, script)))


def build(scenario: Scenario, config: Config, launch: Launch | None = None) -> StarCraft2:
    """Return the environment of a scenario; `launch` returns games other than those of the installed StarCraft II."""
    if scenario.vary:
        raise RefilError(f"the real game's units have fixed stats; {', '.join(scenario.vary)} vary in the simulator only")
    shared = {each.name: getattr(config, each.name) for each in fields(config) if each.name not in OWN}
    env = starcraft_env.build(scenario, simulator.Config(**shared))
    return StarCraft2(env, Battles(env, Games(launch or partial(_launch, config, races(env)), config.games)))


def races(env: StarCraft) -> tuple[Race, Race]:
    """Return the race of each team's units in all tasks, or Random where they have several."""
    teams, names = (env.armies[:, : env.game.num_allies], env.armies[:, env.game.num_allies :]), env.game.table.names
    found: list[set[Race]] = [{RACES[names[unit_type]] for unit_type in np.unique(team[team >= 0])} for team in teams]
    return _only(found[0]), _only(found[1])


def _only(races: set[Race]) -> Race:
    return next(iter(races)) if len(races) == 1 else "Random"


def _launch(config: Config, races: tuple[Race, Race], number: int) -> client.GameClient:
    timeouts = client.Timeouts.of_requests(config.timeout)
    return client.GameClient(install.find(config.build), config.game_seed + number, timeouts, races)


def _only_shapes(function: Callable[..., PyTree], *arguments: Any) -> PyTree:
    if not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(arguments)):
        raise RefilError(ONLY_HOSTED)

    def refuse(*_: Any) -> PyTree:
        raise RefilError(ONLY_HOSTED)

    shapes = jax.eval_shape(function, *arguments)
    return jax.pure_callback(refuse, shapes, *arguments, vmap_method="broadcast_all")


DEFAULTS = starcraft_env.DEFAULTS
