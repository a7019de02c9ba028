"""Features, masks, available actions, rewards and ends equal those of the authors' own environment.

`tests/golden/sc2_authors_*.npz` has battles of each set that the authors' unmodified environment (starcraft2custom.py) played
against the peer: two with random actions, most of them attacks, and one that is won. It has the units as that environment saw
them, and what it computed from them.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.envs.sc2 import table
from refil.envs.sc2.config import Config
from refil.envs.sc2.env import build
from refil.envs.sc2.records import ALLY, ENEMY, Units
from refil.envs.starcraft import scenarios, spawn
from refil.envs.starcraft.sim.state import Game, State

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.mark.parametrize("name", ["3-8sz", "3-8csz", "3-8MMM"])
def test_everything_that_agents_see_and_gain_is_what_the_authors_environment_computes(name):
    env = build(scenarios.SCENARIOS[name], Config())
    observe, outcome = jax.jit(jax.vmap(env.observe)), jax.jit(jax.vmap(env.env.outcome))
    numbers = np.load(GOLDEN / f"sc2_authors_{name}.npz")
    for battle in "012":
        recorded = {key[2:]: numbers[key] for key in numbers.files if key.startswith(battle)}
        states = read_states(env.env.game, recorded)
        seen, length = observe(states), len(recorded["rewards"])
        np.testing.assert_allclose(seen.entities, recorded["entities"], atol=1e-5)
        np.testing.assert_array_equal(seen.visible, recorded["hidden"][:, : env.spec.agents] == 0)
        np.testing.assert_array_equal(seen.present, recorded["absent"] == 0)
        np.testing.assert_array_equal(seen.available, recorded["available"] == 1)
        before, after = (jax.tree.map(lambda leaf, part=part: leaf[part], states) for part in (slice(0, -1), slice(1, None)))
        ends = outcome(before, after)
        assert (length, ends.terminated.tolist()) == (len(states.x) - 1, recorded["terminated"].tolist())
        np.testing.assert_allclose(ends.reward, recorded["rewards"], atol=1e-5)
        np.testing.assert_array_equal(ends.won, recorded["won"])


def read_states(game: Game, recorded: dict[str, np.ndarray]) -> State:
    """Return the states that the client makes of the recorded units, whose order it does not know."""
    allies, enemies = len(recorded["ally_tags"]), len(recorded["enemy_tags"])
    slots = np.r_[:allies, game.num_allies : game.num_allies + enemies]
    unit_type, tag = np.full(game.num_units, -1, np.int8), np.full(game.num_units, -1, np.int16)
    for slot, type_id in zip(slots, recorded["unit_type"][0], strict=True):
        owner = ALLY if slot < game.num_allies else ENEMY
        (unit_type[slot],) = (kind for kind in range(len(game.table.names)) if table.type_id(kind, owner, game) == type_id)
    tag[slots] = np.r_[recorded["ally_tags"], recorded["enemy_tags"]]
    zeros = np.zeros(game.num_units, np.float32)
    state = jax.tree.map(np.asarray, spawn.idle_state(*map(jnp.asarray, (unit_type, zeros, zeros, tag)), game))
    first = observed(recorded, 0, allies)
    tags, states = table.assign_slots(state, first, game), []
    np.testing.assert_array_equal(tags[slots], np.arange(len(slots)) + 1)  # the authors' environment has the same order
    for time in range(len(recorded["x"])):
        state = table.with_fields(table.read(state, observed(recorded, time, allies), tags), time=np.int32(time))
        states.append(state)
    return table.stack(states)


def observed(recorded: dict[str, np.ndarray], time: int, allies: int) -> Units:
    """Return the living units at a timestep in a shuffled order, with their recorded row plus one as tag."""
    alive = np.random.default_rng(time).permutation(np.flatnonzero(recorded["health"][time] > 0))
    column = {name: recorded[name][time][alive] for name in ("x", "y", "health", "shield", "energy")}
    return Units(
        tag=(alive + 1).astype(np.uint64),
        type_id=recorded["unit_type"][time][alive],
        owner=np.where(alive < allies, ALLY, ENEMY),
        cooldown=recorded["weapon_cooldown"][time][alive],
        radius=np.ones(len(alive), np.float32),
        health_max=np.ones(len(alive), np.float32),
        shield_max=np.ones(len(alive), np.float32),
        flying=np.zeros(len(alive), bool),
        tick=8 * time,
        **column,
    )
