"""Commanders: scripts and trained teams that give the orders of one side; whom each of them can command, and why not.

A commander always sees itself as the allies. On the enemy side it is given the mirrored battle.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from refil import plugins, rollout
from refil.envs.starcraft.env import StarCraft
from refil.envs.starcraft.sim.state import ARENAS, NOBODY, State
from refil.envs.starcraft.sim.unit import UnitTable
from refil.errors import RefilError
from refil.lab import field, mirror
from refil.lab.field import SIDE_NOUNS, Units
from refil.team import Team
from refil.types import Env
from refil.wrappers import MaskDead

SCRIPTS = "refil.envs.starcraft.scripts"
ENGINE = "attack_move"  # the script that does what the engine does for the enemies
Memory = Any


@runtime_checkable
class Commander(Protocol):
    """Gives the orders of a step to the allies of a state; `memory` is a pytree."""

    @property
    def slots(self) -> int:
        """The number of slots per side that it needs at least."""
        ...

    def initial_memory(self) -> Memory:
        """Return the memory before the first step."""
        ...

    def orders(self, battle: StarCraft, state: State, memory: Memory, key: Key[Array, ""]) -> tuple[State, Memory]:
        """Return the state in which the allies have their orders, and the next memory; `key` is that of the episode."""
        ...


@dataclass(frozen=True)
class Scripted:
    """A script as a commander."""

    name: str
    slots = 0

    def initial_memory(self) -> Memory:
        """Return nothing: scripts do not remember."""
        return ()

    def orders(self, battle: StarCraft, state: State, memory: Memory, key: Key[Array, ""]) -> tuple[State, Memory]:
        """Call the script with the key that it has in `refil battle`."""
        script_key, _ = jax.random.split(rollout.step_keys(key, state.time)[1])
        return plugins.load(SCRIPTS, self.name).orders(battle, state, script_key), memory


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained team as a commander: it sees the battle through the sizes and unit types that it was trained with."""

    team: Team

    @cached_property
    def view(self) -> StarCraft:
        """The team's environment, with a slot for every tag and with the map of the lab."""
        trained = _core(self.team.env)
        assert isinstance(trained, StarCraft)
        game, table = trained.game, field.unit_table()
        units = tuple(table.units[table.names.index(name)] for name in game.table.names)
        game = replace(
            game,
            num_allies=game.ally_tags,
            num_units=game.num_tags,
            table=UnitTable(game.table.names, units),
            arena=ARENAS["any_angle"],
            tags=game.tags,
        )
        return replace(trained, game=game, limit=field.LIMIT)

    @cached_property
    def lab_team(self) -> Team:
        """The team in that environment."""
        view: Any = self.view
        return replace(self.team, env=MaskDead(view) if isinstance(self.team.env, MaskDead) else view)

    @property
    def slots(self) -> int:
        """The number of slots per side that it needs at least."""
        return max(self.view.game.ally_tags, self.view.game.enemy_tags)

    def initial_memory(self) -> Memory:
        """Return the team's memory before the first timestep."""
        return self.lab_team.initial_state()

    def orders(self, battle: StarCraft, state: State, memory: Memory, key: Key[Array, ""]) -> tuple[State, Memory]:
        """Let the team choose its best actions and give their orders."""
        seen = self.observe(state)
        actions, memory = self.lab_team.act(self.lab_team.env.observe(seen), memory)
        ordered = self.view.with_orders(seen, actions)
        lab_slots = jnp.asarray(self.lab_slots(len(state.x) // 2))
        own = slice(0, self.view.game.num_allies)
        target = jnp.where(ordered.target[own] < 0, NOBODY, lab_slots[ordered.target[own]]).astype(state.target.dtype)
        changed = {name: getattr(ordered, name)[own] for name in ("attack_moving", "moving", "goal_x", "goal_y")}
        changed["target"] = target
        return replace(state, **{name: getattr(state, name).at[own].set(values) for name, values in changed.items()}), memory

    def lab_slots(self, size: int) -> list[int]:
        """Return the slot in the lab of each slot of the team's environment."""
        game = self.view.game
        return [*range(game.num_allies), *range(size, size + game.num_units - game.num_allies)]

    def observe(self, state: State) -> State:
        """Return the battle in the slots, tags and unit types of the team's environment."""
        game, size = self.view.game, len(state.x) // 2
        slots = jnp.asarray(self.lab_slots(size))
        seen = {name: getattr(state, name)[slots] for name in mirror.unit_fields()}
        present = seen["unit_type"] >= 0
        types = jnp.asarray(self._type_numbers)[jnp.maximum(seen["unit_type"], 0)]
        seen["unit_type"] = jnp.where(present, types, NOBODY).astype(jnp.int8)
        tags = jnp.concatenate([game.enemy_tags + jnp.arange(game.num_allies), jnp.arange(game.num_units - game.num_allies)])
        seen["tag"] = jnp.where(present, tags, NOBODY).astype(jnp.int16)
        for name in ("target", "attacker"):
            seen[name] = self._own_slots(seen[name], size)
        usual = {stat: jnp.ones(len(slots)) for stat in self.view.varied_stats}  # stats of units do not vary in the lab
        return replace(state, **seen, multipliers=usual)

    @property
    def _type_numbers(self) -> list[int]:
        names = self.view.game.table.names
        return [names.index(name) if name in names else NOBODY for name in field.unit_table().names]

    def _own_slots(self, slots: Int[Array, " units"], size: int) -> Int[Array, " units"]:
        allies = self.view.game.num_allies
        found = jnp.where(slots < size, slots, slots - size + allies)
        return jnp.where(slots < 0, NOBODY, found).astype(slots.dtype)

    def reason_against(self, units: Units, side: str) -> str | None:
        """Return why the team cannot command this side, or None."""
        game, other = self.view.game, "enemy" if side == "ally" else "ally"
        if foreign := sorted({name for name in units.names if name not in game.table.names}):
            known = " and ".join(_plural(name) for name in game.table.names)
            return f"{self.team.name} was trained with {known} only, and not with {_plural(foreign[0])}"
        for team, most, verb in ((side, game.ally_tags, "command"), (other, game.enemy_tags, "fight against")):
            if (count := len(units.army(team))) > most:
                return f"{self.team.name} can {verb} up to {most} units, and there are {count} {SIDE_NOUNS[team]}"
        return None


def can_command(env: Env) -> bool:
    """Return whether teams of this environment can command battles of the lab."""
    return isinstance(_core(env), StarCraft)


def check(commander: Commander, units: Units, side: str) -> None:
    """Raise if a commander cannot command this side of the battle."""
    if isinstance(commander, Trained) and (reason := commander.reason_against(units, side)):
        raise RefilError(f"{reason}; choose another commander of the {SIDE_NOUNS[side]} or change the armies")


def _plural(name: str) -> str:
    return "colossi" if name == "colossus" else f"{name.replace('_', ' ')}s"


def _core(env: Env) -> Env:
    return env.env if isinstance(env, MaskDead) else env
