"""A dry run of an environment: a few steps of random actions, in a single small program."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from refil.errors import RefilError, user_code
from refil.rollout import select
from refil.training.devices import jit_quickly
from refil.types import Env, Observation, Outcome

STEPS, EPISODES = 6, 8


def dry_run(env: Env, name: str) -> None:
    """Play a few steps of the first tasks; raise if a number is not finite or an agent has no action."""
    with user_code(f"{name}: a few steps of random actions"):
        obs, outcome = jax.device_get(jit_quickly(partial(_play, env))(*_inputs(env)))
    features = getattr(env, "feature_names", None)
    spoiled = ~np.isfinite(obs.entities)
    if spoiled.any():
        *where, _, feature = np.argwhere(spoiled)[0]
        label = f" ({features[feature]!r})" if features else ""
        raise RefilError(f"{name}: observe() gives {obs.entities[spoiled][0]} in feature {feature}{label}{_at(env, where)}")
    spoiled = ~np.isfinite(outcome.reward)
    if spoiled.any():
        raise RefilError(f"{name}: step() gives reward {outcome.reward[spoiled][0]}{_at(env, np.argwhere(spoiled)[0])}")
    present = obs.present[..., : env.spec.agents]
    if (~present.any(axis=-1)).any():
        raise RefilError(f"{name}: no agent is present{_at(env, np.argwhere(~present.any(axis=-1))[0])}")
    stuck = ~obs.available.any(axis=-1)
    if stuck.any():
        *where, agent = np.argwhere(stuck)[0]
        who = f"agent {agent}" if present[(*where, agent)] else f"absent agent {agent}"
        raise RefilError(f"{name}: {who} has no available action{_at(env, where)}; give it one that does nothing")
    _check_targets(env, obs, name)


def _check_targets(env: Env, obs: Observation, name: str) -> None:
    """Raise if an entity is said to be the target of what is no action aimed at entities."""
    if obs.targeting_action is None:
        return
    aimed, actions = np.asarray(obs.targeting_action), env.spec.actions
    least = actions - env.spec.target_actions if env.spec.target_actions else 0
    wrong = (aimed != -1) & ((aimed < least) | (aimed >= actions))
    if wrong.any():
        *where, entity = np.argwhere(wrong)[0]
        found = f"targeting_action {aimed[wrong][0]} for entity {entity}{_at(env, where)}"
        last = f"one of the last {env.spec.target_actions} actions" if env.spec.target_actions else "an action"
        raise RefilError(f"{name}: observe() gives {found}; it must be {last}, from {least} to {actions - 1}, or -1")


def _play(env: Env, tasks: PyTree, keys: Array, noise: Array) -> tuple[Observation, Outcome]:
    def step(carry: tuple[Any, Array], now: tuple[Array, Array]) -> tuple[tuple[Any, Array], tuple[Observation, Outcome]]:
        (states, running), (keys, noise) = carry, now
        obs = jax.vmap(env.observe)(states)
        actions = jnp.argmax(jnp.where(obs.available, noise, -1.0), axis=-1)
        after, outcome = jax.vmap(env.step)(states, actions, keys)
        after = jax.tree.map(partial(select, running), after, states)
        reward = jnp.where(running, outcome.reward, 0.0)
        return (after, running & ~outcome.terminated), (obs, Outcome(reward, outcome.terminated, outcome.won))

    start = jax.vmap(env.reset)(tasks, keys[0]), jnp.ones(EPISODES, bool)
    return jax.lax.scan(step, start, (keys[1:], noise))[1]


def _inputs(env: Env) -> tuple[PyTree, Array, Array]:
    """Return tasks, keys and random numbers; made outside the program, which then compiles in half the time."""
    steps, rng = min(STEPS, env.spec.horizon), np.random.default_rng(0)
    words = rng.integers(0, 2**32, (steps + 1, EPISODES, 2), np.uint32)
    tasks = jax.tree.map(lambda leaf: jnp.asarray(leaf)[np.arange(EPISODES) % len(env.task_names)], env.tasks)
    noise = rng.random((steps, EPISODES, env.spec.agents, env.spec.actions), np.float32)
    return tasks, jax.random.wrap_key_data(jnp.asarray(words)), jnp.asarray(noise)


def _at(env: Env, where: Any) -> str:
    step, episode = where
    return f" at step {step} of task {env.task_names[episode % len(env.task_names)]!r}"
