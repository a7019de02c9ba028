"""What every environment promises, for whatever environments there are, and for the tiny ones of the tests and docs."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import plugins

SETS = ["3-8csz", "3-8MMM", "bane_vs_bane"]  # of those that one folder serves; tests/envs/combat looks at all of them
OWN = [str(Path(__file__).parent / "worlds.py"), str(Path(__file__).parent.parent / "docs" / "beacon.py")]
SERVED = [name for folder in plugins.folders("refil.envs") for name in folder.names()]
FILES = [name for name in plugins.names("refil.envs") if name not in SERVED]
STEPS = 12


@pytest.fixture(scope="module", params=[*FILES, *SETS, *OWN], ids=lambda name: Path(name).stem)
def env(request):
    module = plugins.load("refil.envs", request.param)
    return module.build(module.Config())


@pytest.fixture(scope="module")
def battle(env):
    """One episode of random available actions, jitted, on every task."""

    def step(carry, key):
        state, over = carry
        obs = env.observe(state)
        actions = jax.random.categorical(key, jnp.where(obs.available, 0.0, -jnp.inf))
        following, outcome = env.step(state, actions, key)
        return (following, over | outcome.terminated), (obs, outcome, over)

    def play(task, key):
        key_reset, key_steps = jax.random.split(key)
        row = jax.tree.map(lambda leaf: leaf[task], env.tasks)
        return jax.lax.scan(step, (env.reset(row, key_reset), False), jax.random.split(key_steps, STEPS))[1]

    tasks = jnp.arange(len(env.task_names))
    return jax.jit(jax.vmap(play))(tasks, jax.random.split(jax.random.key(0), len(tasks)))


def test_shapes_are_those_of_the_spec(env, battle):
    obs, outcome, _ = battle
    spec, lead = env.spec, (len(env.task_names), STEPS)
    assert obs.entities.shape == (*lead, spec.entities, spec.features)
    assert obs.visible.shape == (*lead, spec.agents, spec.entities)
    assert obs.available.shape == (*lead, spec.agents, spec.actions)
    assert outcome.reward.shape == lead
    assert 1 <= spec.agents <= spec.entities


def test_what_is_visible_is_present(battle):
    obs = battle[0]
    assert not (obs.visible & ~obs.full_view).any()


def test_every_agent_has_an_action(battle):
    assert battle[0].available.any(axis=-1).all()


def test_numbers_are_finite_and_wins_are_ends(battle):
    obs, outcome, _ = battle
    assert np.isfinite(obs.entities).all()
    assert np.isfinite(outcome.reward).all()
    assert not (outcome.won & ~outcome.terminated).any()


def test_absent_slots_hold_nothing(battle):
    obs = battle[0]
    assert (np.asarray(obs.entities)[~np.asarray(obs.present)] == 0).all()


def test_presence_does_not_change_within_an_episode(battle):
    obs = battle[0]
    assert (obs.present == obs.present[:, :1]).all()


def test_the_same_key_is_the_same_world(env):
    reset = partial(env.reset, jax.tree.map(lambda leaf: leaf[0], env.tasks))
    one, other = reset(jax.random.key(3)), reset(jax.random.key(3))
    jax.tree.map(np.testing.assert_array_equal, one, other)
