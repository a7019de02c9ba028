"""What agents see, may do and get is what the authors' wrapper gives, for every recorded battle in REFIL_GOLDEN's folder."""

import os
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import plugins
from refil.envs.starcraft import reward, spawn

FOLDER = Path(os.environ.get("REFIL_GOLDEN", Path(__file__).parent.parent.parent / "golden"))
FIXTURES = sorted(FOLDER.glob("starcraft_*.npz"))


@pytest.fixture(params=FIXTURES, ids=lambda path: path.stem)
def recorded(request):
    """The battle, its fixture, and the recorded states as worlds."""
    fixture = np.load(request.param)
    module = plugins.load("refil.envs", request.param.stem.removeprefix("starcraft_"))
    battle = module.build(module.Config())
    names = [battle.game.table.names.index(str(name).lower().replace(" ", "_")) for name in fixture["type_names"]]
    kind = np.array([*names, -1])[fixture["unit_type"]]

    def world(kind, tag, x, y, health, shield, energy, cooldown):
        fresh = spawn.still(kind, x, y, tag, battle.game)
        return replace(fresh, health=health, shield=shield, energy=energy, cooldown=cooldown)

    values = [fixture[name].astype(np.float32) for name in ("x", "y", "health", "shield", "energy", "cooldown")]
    return battle, fixture, jax.vmap(world)(jnp.asarray(kind), jnp.asarray(fixture["tag"]), *map(jnp.asarray, values))


def test_there_are_fixtures():
    assert list(FOLDER.glob("*.npz")), f"no fixture in {FOLDER}"  # of battles or of updates; where one kind lacks it is skipped


def test_agents_see_what_they_saw(recorded):
    battle, fixture, worlds = recorded
    obs = jax.vmap(battle.observe)(worlds)
    np.testing.assert_array_equal(obs.present, fixture["present"])
    np.testing.assert_array_equal(obs.visible, fixture["visible"])
    np.testing.assert_array_equal(obs.available, fixture["available"])
    np.testing.assert_allclose(obs.entities, fixture["entities"], atol=1e-6)


def test_rewards_and_ends_are_the_recorded_ones(recorded):
    battle, fixture, worlds = recorded
    later = [jnp.asarray(fixture[name], jnp.float32) for name in ("next_health", "next_shield")]
    following = jax.vmap(lambda world, health, shield: replace(world, health=health, shield=shield))(worlds, *later)
    outcome = jax.vmap(lambda world: reward.outcome(world, battle.game, healers_alone_lose=True))(following)
    np.testing.assert_array_equal(outcome, fixture["outcome"])
    got = jax.vmap(battle.outcome)(worlds, following)
    np.testing.assert_allclose(got.reward, fixture["raw_reward"] / fixture["reward_divisor"], atol=1e-6, rtol=1e-6)
    assert battle.divisor == fixture["reward_divisor"]
    np.testing.assert_array_equal(got.won, fixture["outcome"] == 1)
