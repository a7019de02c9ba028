"""The StarCraft environment: tasks are pairs of armies, and one step is eight game ticks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from refil import hardware, plugins
from refil.envs.starcraft import observe, orders, reward, scenarios, scene, spawn, splits, variation
from refil.envs.starcraft.config import Config
from refil.envs.starcraft.scenarios import Army, Scenario
from refil.envs.starcraft.sim import kernel, tick
from refil.envs.starcraft.sim.rules import SMAC, SMACLITE, TICKS_PER_STEP, Rules
from refil.envs.starcraft.sim.state import ARENAS, Game, State, batches_last, in_parts
from refil.envs.starcraft.sim.unit import VARIED, UnitTable
from refil.errors import RefilError, closest
from refil.scene import Scene
from refil.types import EnvDefaults, Observation, Outcome, Spec

MAX_ARMY = 128  # units
UNROLL = 4  # ticks unrolled on a GPU, where copies between iterations cost as much as small operations
UNITS = "refil.envs.starcraft.sim.units"
RULES: dict[str, Rules] = {"smac": SMAC, "smaclite": SMACLITE}

Task = (
    Int[Array | np.ndarray, "*tasks units"]
    | tuple[Int[Array | np.ndarray, "*tasks units"], Mapping[str, Float[Array | np.ndarray, "*tasks units"]]]
)
DEFAULTS = EnvDefaults(
    steps=10_000_000,
    eval_every=50_000,
    eval_episodes=160,
    buffer=5000,
    epsilon_steps=500_000,
    # Battles last 45 to 75 of 150 steps on average. More sizes would take as long to compile as they save in 10 million steps.
    pack=(0.55,),
    size=128,
    recurrent=True,
    last_action=True,
    mixer="attention",
)


@dataclass(frozen=True, eq=False)
class StarCraft:
    """Battles of a task set. Instances compare by identity, so that `jax.jit` accepts them as static arguments."""

    game: Game
    config: Config
    limit: int
    reward_divisor: float
    armies: Int[np.ndarray, "tasks units"]
    task_names: tuple[str, ...]
    multipliers: dict[str, Float[np.ndarray, "tasks units"]] = field(default_factory=dict)  # by the stats that vary

    @property
    def tasks(self) -> Task:
        """The unit type in every slot of every task, and the units' multipliers where stats vary: NumPy arrays."""
        return (self.armies, self.multipliers) if self.multipliers else self.armies

    @property
    def varied_stats(self) -> tuple[str, ...]:
        """The unit stats that vary from task to task."""
        return tuple(stat for stat in VARIED if stat in self.multipliers)

    @cached_property
    def spec(self) -> Spec:
        """The sizes of the environment."""
        game, actions = self.game, len(self.action_names)
        target_actions = actions - orders.FIRST_TARGET
        return Spec(game.num_allies, game.num_units, len(self.feature_names), actions, self.limit, target_actions)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the entity features."""
        return observe.feature_names(self.game, self.varied_stats)

    @property
    def action_names(self) -> tuple[str, ...]:
        """The names of the actions."""
        return orders.action_names(self.game)

    def reset(self, task: Task, key: PRNGKeyArray) -> State:
        """Return the initial state of a battle between the armies of a task."""
        unit_type, multipliers = jax.tree.map(jnp.asarray, task if isinstance(task, tuple) else (task, {}))
        return spawn.spawn(unit_type, key, self.game, multipliers)

    def step(self, state: State, actions: Int[Array, " agents"], key: PRNGKeyArray) -> tuple[State, Outcome]:
        """Give the agents' orders and simulate eight ticks."""
        after = self.advance(self.with_orders(state, actions), key)
        return after, self.outcome(state, after)

    def with_orders(self, state: State, actions: Int[Array, " agents"]) -> State:
        """Return the state in which the agents' units have the orders of these actions."""
        return orders.apply_actions(state, actions, self.game.stats(state), self.game)

    def available_actions(self, state: State) -> Bool[Array, "agents actions"]:
        """Return which actions each agent can choose."""
        return orders.available_actions(state, self.game.stats(state), self.game)

    def advance(self, state: State, key: PRNGKeyArray) -> State:
        """Simulate the eight ticks of a step with the orders that the units have."""
        after = run_ticks(self.game)(state, self.cooldown_jitter(key))
        return replace(after, time=after.time + 1)

    def cooldown_jitter(self, key: PRNGKeyArray) -> Float[Array, " units"]:
        """Sample, from 0 to 1, where each unit's cooldown lies in its range; one number suffices for a step."""
        return jax.random.uniform(key, (self.game.num_units,))

    def outcome(self, before: State, after: State) -> Outcome:
        """Return the outcome of a step; reaching the time limit terminates the battle."""
        result = self.result(after)
        raw = reward.damage_reward(before, after, self.game, self.config.absolute_reward)
        over = reward.is_over(result) | (after.time >= self.limit)
        return Outcome(reward.scaled_reward(raw, result, self.reward_divisor), over, result == reward.WON)

    def result(self, state: State) -> Int[Array, ""]:
        """Return the result of a battle that ends in this state; see `reward.RESULT_NAMES`."""
        return reward.battle_result(state, self.game, self.config.healers_alone_lose)

    def observe(self, state: State) -> Observation:
        """Return the observations of all agents."""
        return observe.observe(state, self.game)

    def scene(self, state: State) -> Scene:
        """Return a drawing of the state."""
        return scene.scene(state, self.game)


def run_ticks(game: Game) -> Callable[[State, Float[Array, " units"]], State]:
    """Return the function that simulates the ticks of a step, for any batch of battles."""

    @batches_last
    def run(state: State, jitter: Float[Array, " units *batch"]) -> State:
        if kernel.is_supported(state):
            return kernel.run_ticks(state, jitter, game)
        return in_parts(all_ticks, state, jitter)

    def all_ticks(state: State, jitter: Float[Array, " units *batch"]) -> State:
        stats = game.stats(state)

        def one_tick(_: Array, now: State) -> State:
            return tick.tick(now, stats, jitter, game)

        return jax.lax.fori_loop(0, TICKS_PER_STEP, one_tick, state, unroll=UNROLL if hardware.on_gpu() else 1)

    return run


def build(scenario: Scenario, config: Config) -> StarCraft:
    """Return the environment of a scenario."""
    pairs = scenario.tasks()
    table = unit_table(pairs, config.profile)
    sizes = [max(sum(pair[team].values()) for pair in pairs) for team in (0, 1)]
    if max(sizes) > MAX_ARMY:
        raise RefilError(f"an army of {max(sizes)} units is too large; armies have at most {MAX_ARMY} units")
    if config.tags is not None and not max(sizes) <= config.tags <= MAX_ARMY:
        raise RefilError(f"env.tags is {config.tags}; it must be between {max(sizes)}, the largest army, and {MAX_ARMY}")
    rules = replace(RULES[config.profile], acceleration=config.acceleration)
    rules = replace(rules, jitter=rules.jitter and config.jitter)
    names = [scenarios.task_name(*pair) for pair in pairs]
    chosen = splits.select(scenario.split, names, config.tasks)  # sizes and rewards are those of the whole set
    built = StarCraft(
        game=Game(sizes[0], sum(sizes), table, ARENAS[scenario.arena], rules, tags=config.tags),
        config=config,
        limit=config.limit or scenario.limit,
        reward_divisor=_max_raw_return(pairs, table) / reward.MAX_RETURN,
        armies=np.array([_slots(pairs[number], sizes, table) for number in chosen], np.int8),
        task_names=tuple(names[number] for number in chosen),
    )
    stats = tuple(stat for stat in VARIED if stat in (config.vary or scenario.vary))
    return with_variation(built, stats) if stats else built


def with_variation(env: StarCraft, stats: tuple[str, ...]) -> StarCraft:
    """Return the environment with a task for every draw of multipliers: `3s5z#0`, `3s5z#1`, ..."""
    config, game = env.config, env.game
    chosen = variation.Variation(config.variation, config.draws, config.draw_seed)

    def draw(stat: str, name: str, army: Int[np.ndarray, " units"]) -> Float[np.ndarray, "draws units"]:
        teams = ["allies" if slot < game.num_allies else "enemies" for slot in range(game.num_units)]
        letters = [game.table.units[unit_type].letter if unit_type >= 0 else None for unit_type in army]
        units = [letter and (team, letter) for team, letter in zip(teams, letters, strict=True)]
        return variation.draw_units(chosen, name, stat, units)

    tasks = list(zip(env.task_names, env.armies, strict=True))
    return replace(
        env,
        armies=env.armies.repeat(config.draws, axis=0),
        task_names=tuple(f"{name}#{number}" for name in env.task_names for number in range(config.draws)),
        multipliers={stat: np.concatenate([draw(stat, *task) for task in tasks]) for stat in stats},
    )


def unit_table(pairs: list[tuple[Army, Army]], profile: str) -> UnitTable:
    """Return the table of the unit types in these armies, sorted by type ID."""
    modules = {name: plugins.load(UNITS, name) for name in plugins.names(UNITS)}
    names_by_letter = {module.UNIT.letter: name for name, module in modules.items()}
    letters = {letter for pair in pairs for army in pair for letter in army}
    if unknown := sorted(letters - names_by_letter.keys()):
        choices = ", ".join(f"{letter} ({name})" for letter, name in sorted(names_by_letter.items()))
        hint = _hint(unknown[0], names_by_letter)
        raise RefilError(f"no unit type has the letter {', '.join(unknown)}; {hint}{choices}")
    names = sorted((names_by_letter[letter] for letter in letters), key=lambda name: modules[name].UNIT.type_id)
    units = [modules[name].UNIT if profile == "smac" else modules[name].SMACLITE for name in names]
    if missing := [name for name, unit in zip(names, units, strict=True) if unit is None]:
        raise RefilError(f"SMAClite has no {', '.join(missing)}; choose profile 'smac'")
    return UnitTable(tuple(names), tuple(units))


def _hint(unknown: str, names_by_letter: dict[str, str]) -> str:
    letters = {letter: letter for letter in names_by_letter} | {name: letter for letter, name in names_by_letter.items()}
    close = closest(unknown, letters)
    how = "armies are numbers and letters, such as 5m for five Marines; " if len(unknown) > 2 else ""
    return how + (f"did you mean {letters[close]!r}? Available: " if close else "available: ")


def _slots(pair: tuple[Army, Army], sizes: list[int], table: UnitTable) -> list[int]:
    # As in the authors' environment, allies are sorted by name and enemies by type ID.
    row: list[int] = []
    by_name = sorted(range(len(table.names)), key=lambda unit_type: table.names[unit_type])
    for army, size, order in zip(pair, sizes, (by_name, range(len(table.names))), strict=True):
        unit_types = [unit_type for unit_type in order for _ in range(army.get(table.units[unit_type].letter, 0))]
        row += unit_types + [-1] * (size - len(unit_types))
    return row


def _max_raw_return(pairs: list[tuple[Army, Army]], table: UnitTable) -> float:
    # The reference army is the enemy army with the most unit types, then the most units, then the first one.
    hit_points = {unit.letter: unit.max_health + unit.max_shield for unit in table.units}
    reference = max((enemy for _, enemy in pairs), key=lambda army: (len(army), sum(army.values())))
    return reward.WIN_BONUS + sum(count * (reward.KILL_BONUS + hit_points[letter]) for letter, count in reference.items())
