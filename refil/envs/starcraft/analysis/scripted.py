"""Battles of scripted allies: an environment that follows a script, and statistics of its battles."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray

from refil import rollout
from refil.envs.starcraft import reward
from refil.envs.starcraft.env import StarCraft, Task
from refil.envs.starcraft.sim import tick
from refil.envs.starcraft.sim.rules import TICKS_PER_STEP
from refil.envs.starcraft.sim.state import State
from refil.types import Observation, Outcome, Spec, Trajectory

Script = Callable[[StarCraft, State, PRNGKeyArray], State]  # returns the state in which the allies have their orders


@dataclass(frozen=True, eq=False)
class ScriptedStarCraft:
    """StarCraft with scripted allies: `step` ignores the actions and gives the orders of the script."""

    env: StarCraft
    script: Script

    @property
    def spec(self) -> Spec:
        """The sizes of the environment."""
        return self.env.spec

    @property
    def tasks(self) -> Task:
        """The tasks of the environment."""
        return self.env.tasks

    @property
    def task_names(self) -> tuple[str, ...]:
        """The names of the tasks."""
        return self.env.task_names

    def reset(self, task: Task, key: PRNGKeyArray) -> State:
        """Return the initial state of a battle between the armies of a task."""
        return self.env.reset(task, key)

    def step(self, state: State, actions: Int[Array, " agents"], key: PRNGKeyArray) -> tuple[State, Outcome]:
        """Give the script's orders and simulate eight ticks."""
        _, sim_key = jax.random.split(key)
        after = self.env.advance(self.with_orders(state, key), sim_key)
        return after, self.env.outcome(state, after)

    def observe(self, state: State) -> Observation:
        """Return the observations of all agents."""
        return self.env.observe(state)

    def with_orders(self, state: State, key: PRNGKeyArray) -> State:
        """Return the state with the script's orders; `key` is that of the step."""
        script_key, _ = jax.random.split(key)
        return self.script(self.env, state, script_key)

    def ticks(self, state: State, key: PRNGKeyArray) -> State:
        """Return the states after each tick of a step, along a new first axis."""
        _, sim_key = jax.random.split(key)
        game, stats, jitter = self.env.game, self.env.game.stats(state), self.env.cooldown_jitter(sim_key)

        def one_tick(now: State, _: None) -> tuple[State, State]:
            after = tick.tick(now, stats, jitter, game)
            return after, after

        return jax.lax.scan(one_tick, self.with_orders(state, key), None, length=TICKS_PER_STEP)[1]


class BattleResults(NamedTuple):
    """The results of battles: `result` is as in `reward.RESULT_NAMES`, undecided where the time limit was reached."""

    result: Int[Array, " battles"]
    length: Int[Array, " battles"]
    returns: Float[Array, " battles"]
    first: State
    last: State


def play(env: ScriptedStarCraft, first_states: State, keys: Key[Array, " battles"]) -> Trajectory:
    """Play one battle from each of these states to its end; the trajectories have one axis of battles."""
    first_states, keys = jax.tree.map(lambda leaf: leaf[None], (first_states, keys))  # one seed
    tasks = jnp.zeros(keys.shape, jnp.int32)  # only recorded
    trajectories = rollout.run_episodes(env, rollout.no_policy, (), first_states, tasks, keys)
    return jax.tree.map(lambda leaf: leaf[0], trajectories)


def battle_results(env: StarCraft, trajectories: Trajectory) -> BattleResults:
    """Return how battles ended."""
    length = trajectories.valid.sum(axis=1)
    first, last = (jax.vmap(_state_at)(trajectories.states, time) for time in (jnp.zeros_like(length), length))
    return BattleResults(jax.vmap(env.result)(last), length, trajectories.rewards.sum(axis=1), first, last)


def all_ticks(env: ScriptedStarCraft, trajectory: Trajectory) -> State:
    """Return the states after every tick of one battle, as [steps of the horizon, ticks, units]; see `valid` for its steps."""
    key, times = jax.random.wrap_key_data(trajectory.key), jnp.arange(len(trajectory.valid))

    def one_step(time: Int[Array, ""]) -> State:
        return env.ticks(_state_at(trajectory.states, time), rollout.step_keys(key, time)[1])

    return jax.lax.map(one_step, times)


def summary(env: StarCraft, results: BattleResults) -> dict[str, int | float]:
    """Return rates, means and standard deviations over battles."""
    result, ally = np.asarray(results.result), np.arange(env.game.num_units) < env.game.num_allies
    alive = np.asarray(results.last.health) > 0
    hit_points = [np.asarray(state.health + state.shield, np.float64) for state in (results.first, results.last)]
    numbers = {"length": np.asarray(results.length), "return": np.asarray(results.returns)}
    for name, team, mask in (("allies", "ally", ally), ("enemies", "enemy", ~ally)):
        before, after = (values[:, mask].sum(axis=1) for values in hit_points)
        numbers |= {f"{name}_left": alive[:, mask].sum(axis=1), f"{team}_health_left": after / np.maximum(before, 1e-9)}
    rates = {"win": reward.WON, "loss": reward.LOST, "draw": reward.BOTH_DEAD, "timeout": reward.UNDECIDED}
    return {
        "episodes": len(result),
        **{f"{name}_rate": float((result == code).mean()) for name, code in rates.items()},
        **{f"{name}_{kind}": float(f(values)) for name, values in numbers.items() for kind, f in _STATISTICS},
    }


_STATISTICS = (("mean", np.mean), ("std", np.std))


def _state_at(states: State, time: Int[Array, ""]) -> State:
    return jax.tree.map(lambda leaf: leaf[time], states)
