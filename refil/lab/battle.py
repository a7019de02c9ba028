"""Battles of the lab: two commanders play a situation, step by step, in programs that are compiled once."""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Int

from refil.envs.starcraft import reward
from refil.envs.starcraft.sim.state import State
from refil.lab import commanders, field
from refil.lab.commanders import Commander
from refil.lab.field import SIDES, Units
from refil.training import devices


@dataclass(frozen=True)
class Battle:
    """A situation, who commands each side, and the seed."""

    units: Units
    allies: Commander
    enemies: Commander
    seed: int = 0

    @property
    def size(self) -> int:
        """The number of slots per side."""
        counts = [len(self.units.army(team)) for team in SIDES]
        return field.size_for(max(*counts, self.allies.slots, self.enemies.slots))

    def check(self) -> None:
        """Raise if a commander cannot command its side."""
        commanders.check(self.allies, self.units, "ally")
        commanders.check(self.enemies, self.units, "enemy")


class BattleRecord(NamedTuple):
    """A battle that was played: NumPy arrays with a leading axis of steps.

    `states` are those before each step and after the last one, `ticks` those after every tick. `actions` are those that a
    trained team has chosen, for each side, or None.
    """

    states: State
    ticks: State
    rewards: tuple[float, ...]
    result: int  # as in `reward.RESULT_NAMES`
    actions: tuple[Int[np.ndarray, "steps agents"] | None, Int[np.ndarray, "steps agents"] | None]

    @property
    def length(self) -> int:
        """The number of steps."""
        return len(self.rewards)


@cache
def _command(commander: Commander, size: int) -> Any:
    battle = field.empty_field(size)
    return devices.jit_quickly(lambda state, memory, key: commander.orders(battle, state, memory, key))


def play(battle: Battle) -> BattleRecord:
    """Play a battle to its end; with the same seed, it is the first battle of `refil battle` from the same placement."""
    battle.check()
    size, units, both = battle.size, battle.units, (battle.allies, battle.enemies)
    state = field.first_state(units, size)
    key, numbers = jax.random.split(jax.random.key(battle.seed), 1)[0], field.jitter_numbers(units, size)
    first, second = (_command(commander, size) for commander in both)
    memories, swap = [commander.initial_memory() for commander in both], field.mirrored(size)
    states, steps, chosen, healers = [state], [], [], any(unit.heal_rate for unit in units.types)
    result = reward.UNDECIDED
    while result == reward.UNDECIDED and len(steps) < field.LIMIT:
        allies, memories[0] = first(state, memories[0], key)
        enemies, memories[1] = second(swap(state), memories[1], key)
        state, step = field.advance(size)(allies, swap(enemies), numbers, key)
        states.append(state)
        steps.append(step)
        chosen.append([getattr(memory, "last_action", None) for memory in memories])
        result = int(step.with_healers if healers else step.without_healers)
    return _collect(states, steps, chosen, result, field.reward_divisor(units))


def _collect(states: list[State], steps: list[Any], chosen: list[Any], result: int, divisor: float) -> BattleRecord:
    states, steps, chosen = jax.device_get((states, steps, chosen))

    def stack(trees: list[Any]) -> Any:
        return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)

    raw = np.array([step.reward for step in steps])
    raw[-1] += reward.WIN_BONUS * (result == reward.WON)
    allies, enemies = (None if each[0] is None else np.stack(each) for each in zip(*chosen, strict=True))
    ticks = stack([step.ticks for step in steps])
    return BattleRecord(stack(states), ticks, tuple((raw / divisor).tolist()), result, (allies, enemies))


def summary(battle: Battle, played: BattleRecord) -> dict[str, Any]:
    """Return who won, after how many steps, and what each side has left."""
    last = jax.tree.map(lambda leaf: leaf[-1], played.states)
    first, size = jax.tree.map(lambda leaf: leaf[0], played.states), battle.size
    sides = {}
    for team, slots in zip(SIDES, (slice(0, size), slice(size, None)), strict=True):
        before, after = (float((state.health + state.shield)[slots].sum()) for state in (first, last))
        left = int((last.health[slots] > 0).sum())
        sides[team] = {"units": len(battle.units.army(team)), "left": left, "health": round(after / max(before, 1e-9), 4)}
    return {"result": reward.RESULT_NAMES[played.result], "steps": played.length, **sides}


def ticks_of(played: BattleRecord) -> list[State]:
    """Return the first state and the states after every tick."""
    found = [jax.tree.map(lambda leaf: leaf[0], played.states)]
    for step in range(played.length):
        for tick in range(played.ticks.x.shape[1]):
            found.append(jax.tree.map(lambda leaf, step=step, tick=tick: leaf[step, tick], played.ticks))
    return found


def rewards_of_ticks(played: BattleRecord) -> tuple[float, ...]:
    """Return a reward for every tick: that of the step at its last tick, and zero before."""
    ticks = played.ticks.x.shape[1]
    rewards = np.zeros((played.length, ticks))
    rewards[:, -1] = played.rewards
    return tuple(rewards.reshape(-1).tolist())
