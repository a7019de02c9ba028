"""SMAX, JaxMARL's battles (Rutherford et al., 2023), with units as entities. The game itself is JaxMARL's."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from refil.scene import Circle, Scene
from refil.settings import NonNegativeFloat, PositiveInt
from refil.types import Env, EnvDefaults, Observation, Outcome, Spec

ALLY_COLOR, ENEMY_COLOR = "#3b82f6", "#ef4444"
MOVES = ("north", "east", "south", "west", "stop")  # SMAX's first five actions
DEFAULTS = EnvDefaults(
    steps=2_000_000,
    eval_every=50_000,
    eval_episodes=80,
    buffer=5000,
    epsilon_steps=200_000,
    pack=(0.55,),
    size=128,
    recurrent=True,
    last_action=True,
    mixer="attention",
)


@dataclass(frozen=True)
class Config:
    """Options of SMAX battles; the defaults are those of JaxMARL's baselines."""

    limit: PositiveInt = 100  # Steps after which a battle ends
    attack_mode: Literal["closest", "random"] = "closest"  # Which unit in range the scripted enemies attack
    walls_cause_death: bool = True  # Units that touch the border of the map die
    reward_scale: NonNegativeFloat = 10.0  # Factor of SMAX's rewards, which are at most 2 in an episode


@dataclass(frozen=True, eq=False)
class Smax:
    """Battles of one map against SMAX's scripted enemies: allies are the first entities, and every unit is one."""

    game: Any  # jaxmarl's HeuristicEnemySMAX
    config: Config
    name: str
    tasks: Any = ()

    @property
    def task_names(self) -> tuple[str, ...]:
        """The map."""
        return (self.name,)

    @property
    def spec(self) -> Spec:
        """The sizes of the environment; SMAX ends a battle one step after its limit."""
        allies, enemies = self.game.num_allies, self.game.num_enemies
        horizon, actions = self.config.limit + 1, len(self.action_names)
        return Spec(allies, allies + enemies, len(self.feature_names), actions, horizon, target_actions=enemies)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the entity features."""
        units = range(self.game.num_allies + self.game.num_enemies)
        own = (f"is {name}" for name in self.game.unit_type_names)
        return (*(f"unit {unit}" for unit in units), "is ally", *own, "health", "cooldown", "x", "y", "moved x", "moved y")

    @property
    def action_names(self) -> tuple[str, ...]:
        """The names of the actions."""
        return (*MOVES, *(f"target {enemy}" for enemy in range(self.game.num_enemies)))

    def reset(self, task: tuple[()], key: PRNGKeyArray) -> Any:
        """Start a battle."""
        return self.game.reset(key)[1]

    def step(self, state: Any, actions: Int[Array, " agents"], key: PRNGKeyArray) -> tuple[Any, Outcome]:
        """Take one step; the team wins if it alone has living units."""
        by_name = {agent: actions[number] for number, agent in enumerate(self.game.agents)}
        _, after, rewards, dones, _ = self.game.step_env(key, state, by_name)
        allies, enemies = jnp.split(after.state.unit_alive, [self.game.num_allies])
        reward = self.config.reward_scale * rewards[self.game.agents[0]]
        return after, Outcome(reward, dones["__all__"], allies.any() & ~enemies.any())

    def observe(self, state: Any) -> Observation:
        """Return all units; agents see living units in their sight range, and themselves."""
        units, available = state.state, self.game.get_avail_actions(state)
        number = jnp.arange(len(units.unit_alive))
        target = len(MOVES) + number - self.game.num_allies
        return Observation(
            entities=self._features(units),
            present=jnp.ones(number.shape, bool),
            visible=self._visible(units),
            available=jnp.stack([available[agent] for agent in self.game.agents]).astype(bool),
            alive=units.unit_alive,
            targeting_action=jnp.where(number >= self.game.num_allies, target, -1),
        )

    def scene(self, state: Any) -> Scene:
        """Draw the living units."""
        units, names = state.state, self.game.unit_type_shorthands
        circles = []
        for unit in np.flatnonzero(np.asarray(units.unit_alive)):
            kind, (x, y) = int(units.unit_types[unit]), np.asarray(units.unit_positions[unit]).tolist()
            radius = float(self.game.unit_type_radiuses[kind])
            health = float(units.unit_health[unit] / self.game.unit_type_health[kind])
            color = ALLY_COLOR if unit < self.game.num_allies else ENEMY_COLOR
            circles.append(Circle(f"unit {unit}", x, y, radius, color, names[kind], bars=((health, "#22c55e"),)))
        return Scene(self.game.map_width, self.game.map_height, circles)

    def _features(self, units: Any) -> Float[Array, "units features"]:
        kinds, number = units.unit_types, jnp.arange(len(units.unit_alive))
        size = jnp.array([self.game.map_width, self.game.map_height])
        identity = [
            number[:, None] == number,
            (number < self.game.num_allies)[:, None],
            kinds[:, None] == jnp.arange(len(self.game.unit_type_names)),
        ]
        now = [
            (units.unit_health / self.game.unit_type_health[kinds])[:, None],
            (units.unit_weapon_cooldowns / self.game.unit_type_weapon_cooldowns[kinds])[:, None],
            units.unit_positions / size - 0.5,
            units.prev_movement_actions,
        ]
        alive = units.unit_alive[:, None]
        return jnp.concatenate([*identity, *(jnp.where(alive, values, 0.0) for values in now)], axis=-1).astype(jnp.float32)

    def _visible(self, units: Any) -> Bool[Array, "agents units"]:
        allies = slice(0, self.game.num_allies)
        offset = units.unit_positions[allies, None] - units.unit_positions
        near = jnp.linalg.norm(offset, axis=-1) < self.game.unit_type_sight_ranges[units.unit_types[allies, None]]
        both = units.unit_alive[allies, None] & units.unit_alive
        return (near & both) | jnp.eye(self.game.num_allies, len(units.unit_alive), dtype=bool)


def builder(name: str) -> Callable[[Config], Env]:
    """Return the function that builds the environment of a map."""
    return partial(_build, name)


def _build(name: str, config: Config) -> Smax:
    from jaxmarl.environments.smax import HeuristicEnemySMAX, map_name_to_scenario  # pyright: ignore[reportMissingImports]

    scenario = map_name_to_scenario(name)
    game = HeuristicEnemySMAX(
        scenario=scenario,
        smacv2_position_generation=scenario.smacv2_position_generation,
        smacv2_unit_type_generation=scenario.smacv2_unit_type_generation,
        max_steps=config.limit,
        walls_cause_death=config.walls_cause_death,
        attack_mode=config.attack_mode,
    )
    return Smax(game, config, name)
