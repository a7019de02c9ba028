"""What every environment guarantees, for all environments in the package and for those of tests and docs."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import plugins, rollout
from refil.envs import starcraft

SETS = ["3-8csz", "3-8MMM", "bane_vs_bane"]  # tests/envs/starcraft covers all of them
OWN = [str(Path(__file__).parent / "tiny_envs.py"), str(Path(__file__).parent.parent / "refil" / "examples" / "beacon.py")]
FILES = [name for name in plugins.names("refil.envs") if name not in starcraft.names()]
STEPS = 12


@pytest.fixture(scope="module", params=[*FILES, *SETS, *OWN], ids=lambda name: Path(name).stem)
def env(request):
    module = plugins.load("refil.envs", request.param)
    return module.build(module.Config())


@pytest.fixture(scope="module")
def episode(env):
    """One episode of random available actions on every task."""

    def step(carry, key):
        state, over = carry
        obs = env.observe(state)
        actions = rollout.random_actions(obs.available, key)
        after, outcome = env.step(state, actions, key)
        return (after, over | outcome.terminated), (obs, outcome)

    def play(task, key):
        key_reset, key_steps = jax.random.split(key)
        row = jax.tree.map(lambda leaf: jnp.asarray(leaf)[task], env.tasks)
        return jax.lax.scan(step, (env.reset(row, key_reset), False), jax.random.split(key_steps, STEPS))[1]

    tasks = jnp.arange(len(env.task_names))
    return jax.jit(jax.vmap(play))(tasks, jax.random.split(jax.random.key(0), len(tasks)))


def test_shapes_are_those_of_the_spec(env, episode):
    obs, outcome = episode
    spec, leading = env.spec, (len(env.task_names), STEPS)
    assert obs.entities.shape == (*leading, spec.entities, spec.features)
    assert obs.visible.shape == (*leading, spec.agents, spec.entities)
    assert obs.available.shape == (*leading, spec.agents, spec.actions)
    assert outcome.reward.shape == leading
    assert 1 <= spec.agents <= spec.entities


def test_what_is_visible_is_present(episode):
    obs = episode[0]
    assert not (obs.visible & ~obs.full_view).any()


def test_what_is_alive_is_present(episode):
    obs = episode[0]
    assert obs.alive is None or not (obs.alive & ~obs.present).any()


def test_every_agent_has_an_action(episode):
    assert episode[0].available.any(axis=-1).all()


def test_numbers_are_finite_and_only_terminated_episodes_are_won(episode):
    obs, outcome = episode
    assert np.isfinite(obs.entities).all()
    assert np.isfinite(outcome.reward).all()
    assert not (outcome.won & ~outcome.terminated).any()


def test_features_of_absent_entities_are_zero(episode):
    obs = episode[0]
    assert (np.asarray(obs.entities)[~np.asarray(obs.present)] == 0).all()


def test_presence_does_not_change_within_an_episode(episode):
    obs = episode[0]
    assert (obs.present == obs.present[:, :1]).all()


def test_names_of_features_and_actions_match_the_spec(env):
    for names, size in (("feature_names", env.spec.features), ("action_names", env.spec.actions)):
        assert len(getattr(env, names, range(size))) == size


def test_the_same_key_gives_the_same_first_state(env):
    reset = partial(env.reset, jax.tree.map(lambda leaf: leaf[0], env.tasks))
    one, other = reset(jax.random.key(3)), reset(jax.random.key(3))
    jax.tree.map(np.testing.assert_array_equal, one, other)
