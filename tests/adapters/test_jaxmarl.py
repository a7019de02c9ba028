"""JaxMARL in both directions, where it is installed, or with the interpreter that REFIL_JAXMARL_PYTHON names."""

import os
import subprocess
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import refil
from refil.errors import RefilError

INTERPRETER = os.environ.get("REFIL_JAXMARL_PYTHON")
INSTALLED = find_spec("jaxmarl") is not None
needs_jaxmarl = pytest.mark.skipif(not INSTALLED, reason="JaxMARL is not installed")


@pytest.mark.slow
@pytest.mark.skipif(INSTALLED or not INTERPRETER, reason="REFIL_JAXMARL_PYTHON names no interpreter with JaxMARL")
def test_these_tests_pass_where_jaxmarl_is_installed():
    done = subprocess.run([str(INTERPRETER), "-m", "pytest", "-q", "-x", __file__], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "passed" in done.stdout


@pytest.mark.skipif(INSTALLED, reason="JaxMARL is installed")
def test_without_jaxmarl_the_extra_is_named():
    with pytest.raises(RefilError, match=r"needs the extra 'jaxmarl': pip install 'refil\[jaxmarl\]'"):
        import_module("refil.adapters.jaxmarl")
    with pytest.raises(RefilError, match="smax_3m needs the extra 'jaxmarl'"):
        refil.make("smax_3m")
    with pytest.raises(RefilError, match="environments of JaxMARL are mpe_simple_spread and smax_MAP, where MAP is 3m, 8m"):
        refil.make("smax_4m")


@needs_jaxmarl
def test_the_rollout_manager_of_jaxmarl_plays_with_our_masks_and_state():
    from jaxmarl.wrappers.baselines import CTRolloutManager, SMAXLogWrapper  # pyright: ignore[reportMissingImports]

    from refil.adapters.jaxmarl import JaxMarlEnv

    env = JaxMarlEnv("2-4m", limit=12)
    manager = CTRolloutManager(SMAXLogWrapper(env), batch_size=6)
    obs, state = manager.batch_reset(jax.random.PRNGKey(0))
    spec = env.environment.spec
    assert obs["__all__"].shape == (6, spec.entities * spec.features)

    def step(carry, key):
        obs, state = carry
        allowed = manager.get_valid_actions(state.env_state)
        actions = {agent: jnp.argmax(allowed[agent], axis=-1) for agent in env.agents}
        obs, state, rewards, dones, infos = manager.batch_step(key, state, actions)
        return (obs, state), (allowed, rewards, dones, infos["won"], state.env_state.env.time)

    keys = jax.random.split(jax.random.PRNGKey(1), 30)
    _, (allowed, rewards, dones, _, time) = jax.jit(lambda: jax.lax.scan(step, (obs, state), keys))()
    over = np.asarray(dones["__all__"])
    assert over.any(axis=0).all()  # battles end after 12 steps at the latest
    assert (np.asarray(time)[over] == 0).all()  # and start again
    masks = np.stack([np.asarray(allowed[agent]) for agent in env.agents])
    assert masks.any(axis=-1).all()
    assert not masks.all(axis=(0, 1, 2)).any()  # unlike those of other names
    assert np.asarray(rewards["__all__"]).shape == (30, 6)


@needs_jaxmarl
@pytest.mark.parametrize("name", ["smax_3m", "mpe_simple_spread"])
def test_environments_of_jaxmarl_keep_the_contract(name):
    from refil.checks import environments
    from refil.checks.report import NotApplicable
    from refil.training import contracts

    env = refil.make(name).core
    contracts.check_env(env, name)
    subject = environments.Subject(env, 12)
    for check in (
        environments.numbers_are_finite,
        environments.every_agent_has_an_action,
        environments.absent_entities_are_padding,
        environments.targets_are_visible,
        environments.names_match_the_spec,
        environments.the_same_key_gives_the_same_episode,
        environments.states_can_be_drawn,
    ):
        with suppress(NotApplicable):  # SMAX's maps have no absent entities
            check(subject)


@needs_jaxmarl
def test_an_smax_battle_is_that_of_smax():
    env = refil.make("smax_3m")
    game = env.core.game
    state, obs = env.reset(jax.random.key(0))
    inner = state.core
    assert np.asarray(obs.alive).all()
    actions = jnp.array([1, 1, 4])
    key = jax.random.key(1)
    state, _, outcome = jax.jit(env.step)(state, actions, key)
    _, expected, rewards, _, _ = game.step_env(key, inner, dict(zip(game.agents, actions, strict=True)))
    np.testing.assert_allclose(state.core.state.unit_positions, expected.state.unit_positions, atol=1e-5)
    assert float(outcome.reward) == pytest.approx(10 * float(rewards["ally_0"]))
