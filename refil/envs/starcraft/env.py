"""The battle as an environment: tasks are pairs of armies, a step is eight game loops."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from refil import plugins
from refil.envs.starcraft import observe, orders, reward, scenarios, scene, spawn
from refil.envs.starcraft.config import Config
from refil.envs.starcraft.scenarios import Army, Scenario
from refil.envs.starcraft.sim import kernel, tick
from refil.envs.starcraft.sim.rules import LOOPS, SMAC, SMACLITE, Rules
from refil.envs.starcraft.sim.state import ARENAS, Game, World, batches_last
from refil.envs.starcraft.sim.unit import Table
from refil.errors import RefilError
from refil.scene import Scene
from refil.types import Observation, Outcome, Spec

MOST = 128  # units in an army
UNROLLED = 4  # loops written out one after another on a GPU, where copies between them cost as much as small steps
UNITS = "refil.envs.starcraft.sim.units"
RULES: dict[str, Rules] = {"smac": SMAC, "smaclite": SMACLITE}


@dataclass(frozen=True, eq=False)
class Battle:
    """Battles between the armies of a task set; one is equal to itself alone, so that jit takes it as a constant."""

    game: Game
    config: Config
    limit: int
    divisor: float
    armies: Int[np.ndarray, "tasks units"]
    task_names: tuple[str, ...]

    @property
    def tasks(self) -> Int[Array, "tasks units"]:
        """The kind in every slot, task by task."""
        return jnp.asarray(self.armies)

    @cached_property
    def spec(self) -> Spec:
        """Sizes."""
        game = self.game
        actions = orders.actions(game)
        return Spec(game.allies, game.units, observe.width(game), actions, self.limit, actions - orders.FIRST_TARGET)

    def reset(self, task: Int[Array, " units"], key: PRNGKeyArray) -> World:
        """The armies of a task, somewhere."""
        return spawn.spawn(task, key, self.game)

    def step(self, state: World, actions: Int[Array, " agents"], key: PRNGKeyArray) -> tuple[World, Outcome]:
        """Agents give their orders, then eight loops pass."""
        after = self.pass_time(self.ordered(state, actions), key)
        return after, self.outcome(state, after)

    def ordered(self, state: World, actions: Int[Array, " agents"]) -> World:
        """The same instant, with orders given."""
        return orders.give(state, actions, self.game.table[state.kind], self.game)

    def available(self, state: World) -> Bool[Array, "agents actions"]:
        """What each agent may do."""
        return orders.available(state, self.game.table[state.kind], self.game)

    def pass_time(self, ordered: World, key: PRNGKeyArray) -> World:
        """Eight loops with the orders that hold."""
        return self.tick_clock(loops(self.game)(ordered, self.jitter(key)))

    def tick_clock(self, world: World) -> World:
        """One step later."""
        return replace(world, time=world.time + 1)

    def jitter(self, key: PRNGKeyArray) -> Float[Array, " units"]:
        """Where between the least and the most, 0 and 1, each unit's time to reload lies; it shoots at most once in a step."""
        return jax.random.uniform(key, (self.game.units,))

    def outcome(self, before: World, after: World) -> Outcome:
        """What a step led to; out of time is an end as well."""
        result = reward.outcome(after, self.game, self.config.healers_alone_lose)
        raw = reward.harm(before, after, self.game, self.config.absolute_reward)
        over = reward.ended(result) | (after.time >= self.limit)
        return Outcome(reward.total(raw, result, self.divisor), over, result == reward.WON)

    def result(self, state: World) -> str:
        """How a battle ended, in words."""
        return reward.WORDS[int(reward.outcome(state, self.game, self.config.healers_alone_lose))]

    def observe(self, state: World) -> Observation:
        """What agents see."""
        return observe.observe(state, self.game)

    def scene(self, state: World) -> Scene:
        """What can be drawn."""
        return scene.scene(state, self.game)


def loops(game: Game) -> Callable[[World, Float[Array, " units"]], World]:
    """A step's game loops as one function of the world and the jitter, for any batch of battles."""

    @batches_last
    def pass_loops(world: World, jitter: Float[Array, "units *batch"]) -> World:
        if kernel.fits(world):
            return kernel.pass_loops(world, jitter, game)
        traits = game.table[world.kind]

        def loop(_: Array, now: World) -> World:
            return tick.tick(now, traits, jitter, game)

        return jax.lax.fori_loop(0, LOOPS, loop, world, unroll=1 if jax.default_backend() == "cpu" else UNROLLED)

    return pass_loops


def build(scenario: Scenario, config: Config) -> Battle:
    """The battles of a task set."""
    pairs = scenario.tasks()
    table = table_of(pairs, config.profile)
    sides = [max(sum(pair[side].values()) for pair in pairs) for side in (0, 1)]
    if max(sides) > MOST:
        raise RefilError(f"an army of {max(sides)} is too large; it has at most {MOST} units")
    rules = replace(RULES[config.profile], acceleration=config.acceleration)
    rules = replace(rules, jitter=rules.jitter and config.jitter)
    game = Game(sides[0], sum(sides), table, ARENAS[scenario.ground], rules)
    return Battle(
        game=game,
        config=config,
        limit=config.limit or scenario.limit,
        divisor=most_reward(pairs, table) / reward.SCALE,
        armies=np.array([slots(pair, sides, table) for pair in pairs], np.int8),
        task_names=tuple(scenarios.battle_name(*pair) for pair in pairs),
    )


def table_of(pairs: list[tuple[Army, Army]], profile: str) -> Table:
    """The unit types that occur, in the game's order."""
    known = {name: plugins.load(UNITS, name) for name in plugins.names(UNITS)}
    letters = {module.UNIT.letter: name for name, module in known.items()}
    wanted = {letter for pair in pairs for army in pair for letter in army}
    if unknown := sorted(wanted - letters.keys()):
        choices = ", ".join(f"{letter} {name}" for letter, name in sorted(letters.items()))
        raise RefilError(f"no unit has the letter {', '.join(unknown)}; there are {choices}")
    names = sorted((letters[letter] for letter in wanted), key=lambda name: known[name].UNIT.number)
    units = [known[name].UNIT if profile == "smac" else known[name].SMACLITE for name in names]
    if missing := [name for name, unit in zip(names, units, strict=True) if unit is None]:
        raise RefilError(f"SMAClite has no {', '.join(missing)}; it is in the smac profile")
    return Table(tuple(names), tuple(units))


def slots(pair: tuple[Army, Army], sides: list[int], table: Table) -> list[int]:
    """The kinds of a task's units: allies by name, as their numbers in the game are; enemies by the game's own numbers."""
    row: list[int] = []
    by_name = sorted(range(len(table.names)), key=lambda kind: table.names[kind])
    for army, size, order in zip(pair, sides, (by_name, range(len(table.names))), strict=True):
        kinds = [kind for kind in order for _ in range(army.get(table.units[kind].letter, 0))]
        row += kinds + [-1] * (size - len(kinds))
    return row


def most_reward(pairs: list[tuple[Army, Army]], table: Table) -> float:
    """What a win against the reference army is worth: the first of the most diverse, then of the largest."""
    lives = {unit.letter: unit.life for unit in table.units}
    reference = max((enemy for _, enemy in pairs), key=lambda army: (len(army), sum(army.values())))
    return reward.WIN + sum(count * (reward.KILL + lives[letter]) for letter, count in reference.items())
