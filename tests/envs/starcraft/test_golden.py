"""Observations, available actions and rewards equal those of the authors' environment in recorded battles (REFIL_GOLDEN)."""

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
    """The environment, its fixture, and the recorded states."""
    fixture = np.load(request.param)
    module = plugins.load("refil.envs", request.param.stem.removeprefix("starcraft_"))
    env = module.build(module.Config())
    names = [env.game.table.names.index(str(name).lower().replace(" ", "_")) for name in fixture["type_names"]]
    unit_type = np.array([*names, -1])[fixture["unit_type"]]

    def state(unit_type, tag, x, y, health, shield, energy, cooldown):
        fresh = spawn.idle_state(unit_type, x, y, tag, env.game)
        return replace(fresh, health=health, shield=shield, energy=energy, cooldown=cooldown)

    values = [fixture[name].astype(np.float32) for name in ("x", "y", "health", "shield", "energy", "cooldown")]
    return env, fixture, jax.vmap(state)(jnp.asarray(unit_type), jnp.asarray(fixture["tag"]), *map(jnp.asarray, values))


def test_there_are_fixtures():
    assert list(FOLDER.glob("*.npz")), f"no fixture in {FOLDER}"  # of battles or of updates; where one kind lacks it is skipped


def test_observations_are_the_recorded_ones(recorded):
    env, fixture, states = recorded
    obs = jax.vmap(env.observe)(states)
    np.testing.assert_array_equal(obs.present, fixture["present"])
    np.testing.assert_array_equal(obs.visible, fixture["visible"])
    np.testing.assert_array_equal(obs.available, fixture["available"])
    np.testing.assert_allclose(obs.entities, fixture["entities"], atol=1e-6)


def test_rewards_and_results_are_the_recorded_ones(recorded):
    env, fixture, states = recorded
    later = [jnp.asarray(fixture[name], jnp.float32) for name in ("next_health", "next_shield")]
    following = jax.vmap(lambda state, health, shield: replace(state, health=health, shield=shield))(states, *later)
    outcome = jax.vmap(lambda state: reward.battle_result(state, env.game, healers_alone_lose=True))(following)
    np.testing.assert_array_equal(outcome, fixture["outcome"])
    got = jax.vmap(env.outcome)(states, following)
    np.testing.assert_allclose(got.reward, fixture["raw_reward"] / fixture["reward_divisor"], atol=1e-6, rtol=1e-6)
    assert env.reward_divisor == fixture["reward_divisor"]
    np.testing.assert_array_equal(got.won, fixture["outcome"] == 1)
