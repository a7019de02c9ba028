"""The battle behind one connection: the simulator's state, changed by spawns, kills, commands and ticks."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from refil.envs.sc2.records import ALLY, ATTACK, ENEMY, HEAL, MOVE, PASSIVE_IDS, STOP, Command, Placement
from refil.envs.starcraft import spawn
from refil.envs.starcraft.env import StarCraft
from refil.envs.starcraft.sim import motion
from refil.envs.starcraft.sim.rules import TICKS_PER_STEP
from refil.envs.starcraft.sim.state import NOBODY, State
from refil.envs.starcraft.sim.tick import tick
from refil.envs.starcraft.sim.unit import BIOLOGICAL, Unit

FIRST_TAG, TAG_STEP = 2**32 + 1, 2**18  # tags of the game look like this
SUCCESS, NOT_SUPPORTED, ERROR, NOT_YOURS, BAD_TARGET = 1, 2, 3, 87, 36  # results of commands, by the protocol's numbers


@dataclass(frozen=True, eq=False)
class Simulator:
    """The compiled functions of the simulator, shared by all battles of a peer; slots and unit types are the environment's."""

    env: StarCraft

    @cached_property
    def type_by_id(self) -> dict[int, int]:
        """The number of the unit type with each of the game's type IDs, those of passive copies included."""
        table = self.env.game.table
        passive = {PASSIVE_IDS[name]: number for number, name in enumerate(table.names) if name in PASSIVE_IDS}
        return {unit.type_id: number for number, unit in enumerate(table.units)} | passive

    def compile(self) -> None:
        """Compile both functions."""
        battle = Battle(self, seed=0)
        battle.advance(1)

    def run(self, state: State, jitter: np.ndarray, ticks: int) -> State:
        """Return the state after some ticks."""
        return jax.tree.map(np.array, self._run(state, jitter, ticks))

    def place(self, unit_type: np.ndarray, x: np.ndarray, y: np.ndarray) -> State:
        """Return idle units at these positions, pushed apart where they overlap."""
        return jax.tree.map(np.array, self._place(unit_type, x, y))

    @cached_property
    def _run(self):
        game = self.env.game

        def run(state, jitter, ticks):
            stats = game.stats(state)
            return jax.lax.fori_loop(0, ticks, lambda _, now: tick(now, stats, jitter, game), state)

        return jax.jit(run)

    @cached_property
    def _place(self):
        game = self.env.game

        def place(unit_type, x, y):
            state = spawn.idle_state(unit_type, x, y, jnp.zeros_like(unit_type), game)
            x, y = motion.separate(state, game.table[unit_type], 40 + 2 * game.num_units, game.arena)
            return replace(state, x=x, y=y)

        return jax.jit(place)


class Battle:
    """Units of both teams; allies of passive types do nothing unless ordered, all others attack whatever comes near."""

    def __init__(self, simulator: Simulator, seed: int) -> None:
        game = simulator.env.game
        self.simulator, self.game, self.rng = simulator, game, np.random.default_rng(seed)
        zeros = np.zeros(game.num_units, np.float32)
        self.state = simulator.place(np.full(game.num_units, NOBODY, np.int8), zeros, zeros)
        self.tags = np.zeros(game.num_units, np.uint64)
        self.type_ids = np.zeros(game.num_units, np.int32)
        self.owners = np.where(np.arange(game.num_units) < game.num_allies, ALLY, ENEMY)
        self.tick = 0
        self.dead: list[int] = []  # tags of the units that died since the last observation
        self._created = 0

    def alive(self) -> list[int]:
        """Return the slots of the living units."""
        return np.flatnonzero(self.state.health > 0).tolist()

    def unit(self, slot: int) -> Unit:
        """Return the numbers of the unit type in a slot."""
        return self.game.table.units[self.state.unit_type[slot]]

    def kill(self, tags: Sequence[int]) -> None:
        """Remove units."""
        for slot in self.alive():
            if self.tags[slot] in tags:
                self.dead.append(int(self.tags[slot]))
                self.state.health[slot], self.state.unit_type[slot] = 0.0, NOBODY

    def spawn(self, placements: Sequence[Placement]) -> None:
        """Add units; those at the same point are put around it, as close together as their bodies allow."""
        earlier, created = Counter(), []
        unit_type = np.where(self.state.health > 0, self.state.unit_type, NOBODY).astype(np.int8)
        x, y = np.array(self.state.x), np.array(self.state.y)
        for each in placements:
            slot, rank = self._free_slot(each, unit_type), earlier[each]
            unit_type[slot] = self.simulator.type_by_id[each.type_id]
            radius = 0.5 * self.game.table.units[unit_type[slot]].collision_radius * rank**0.5
            angle = motion.GOLDEN_ANGLE * rank
            x[slot], y[slot] = each.x + radius * np.cos(angle), each.y + radius * np.sin(angle)
            earlier[each] += 1
            created.append((slot, each.type_id))
        placed = self.simulator.place(unit_type, x, y)
        moved = placed.health > 0
        self.state.x[moved], self.state.y[moved] = placed.x[moved], placed.y[moved]
        for slot, type_id in created:
            self._create(slot, type_id, placed)

    def command(self, command: Command, commands_enemies: bool) -> int:
        """Give an order, and return the protocol's (worst) result; a unit keeps its last order when it refuses one."""
        return max((self._command(tag, command, commands_enemies) for tag in command.tags), default=ERROR)

    def _command(self, tag: int, command: Command, commands_enemies: bool) -> int:
        slot = self._slot(tag)
        if slot is None:
            return ERROR
        if self.owners[slot] == ENEMY and not commands_enemies:
            return NOT_YOURS
        if command.ability_id == STOP:
            return self._order(slot, scans=not self._is_passive(slot))
        if command.ability_id in (MOVE, ATTACK) and command.position is not None:
            return self._order(slot, goal=command.position, scans=command.ability_id == ATTACK)
        if command.ability_id in (ATTACK, HEAL) and command.target_tag is not None:
            target = self._slot(command.target_tag)
            suits = self._can_attack if command.ability_id == ATTACK else self._can_heal
            return self._order(slot, target=target) if target is not None and suits(slot, target) else BAD_TARGET
        return NOT_SUPPORTED

    def advance(self, ticks: int) -> None:
        """Simulate ticks; as in the environment, cooldowns vary alike for all of a unit's attacks within eight ticks."""
        before = self.alive()
        for first in range(0, ticks, TICKS_PER_STEP):
            jitter = self.rng.random(self.game.num_units, np.float32)
            self.state = self.simulator.run(self.state, jitter, min(TICKS_PER_STEP, ticks - first))
        self.tick += ticks
        self.dead += [int(self.tags[slot]) for slot in before if self.state.health[slot] <= 0]

    def _free_slot(self, placement: Placement, unit_type: np.ndarray) -> int:
        if placement.type_id not in self.simulator.type_by_id:
            raise ValueError(f"unit type {placement.type_id} is not among those of the simulated battles")
        free = np.flatnonzero((unit_type == NOBODY) & (self.owners == placement.owner))
        if not len(free):
            raise ValueError(f"the simulated battles have no room for another unit of player {placement.owner}")
        return int(free[0])

    def _create(self, slot: int, type_id: int, placed: State) -> None:
        for leaf, new in zip(jax.tree.leaves(self.state), jax.tree.leaves(placed), strict=True):
            if leaf.ndim:
                leaf[slot] = new[slot]
        self.tags[slot] = FIRST_TAG + TAG_STEP * self._created
        self.type_ids[slot] = type_id
        self.state.attack_moving[slot] = not self._is_passive(slot)
        self._created += 1

    def _order(self, slot: int, target: int = NOBODY, goal: tuple[float, float] | None = None, scans: bool = False) -> int:
        state = self.state
        state.target[slot], state.attack_moving[slot], state.moving[slot] = target, scans, goal is not None
        state.goal_x[slot], state.goal_y[slot] = goal or (state.x[slot], state.y[slot])
        return SUCCESS

    def _slot(self, tag: int) -> int | None:
        return next((slot for slot in self.alive() if self.tags[slot] == tag), None)

    def _is_passive(self, slot: int) -> bool:
        return int(self.type_ids[slot]) in PASSIVE_IDS.values()

    def _can_attack(self, slot: int, target: int) -> bool:
        unit = self.unit(slot)
        opponent = self.owners[slot] != self.owners[target]
        return bool(opponent and unit.attack_period and unit.target_planes & self.unit(target).plane)

    def _can_heal(self, slot: int, target: int) -> bool:
        teammate = slot != target and self.owners[slot] == self.owners[target]
        return bool(teammate and self.unit(slot).heal_rate and self.unit(target).attributes & BIOLOGICAL)
