"""A dry run of an environment: a few steps of random actions, in a single small program."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from refil.errors import RefilError, user_code
from refil.rollout import init_rollout, observe_batch, random_policy, reset_envs, step_envs
from refil.types import Env, Observation, Outcome

STEPS, EPISODES = 6, 8


def dry_run(env: Env, name: str) -> None:
    """Play a few steps of the first tasks; raise if a number is not finite or an agent has no action."""
    with user_code(f"{name}: a few steps of random actions"):
        obs, outcome = jax.device_get(jax.jit(lambda: _play(env))())
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
    stuck = present & ~obs.available.any(axis=-1)
    if stuck.any():
        *where, agent = np.argwhere(stuck)[0]
        raise RefilError(f"{name}: agent {agent} has no available action{_at(env, where)}; give it one that does nothing")


def _play(env: Env) -> tuple[Observation, Outcome]:
    tasks = (jnp.arange(EPISODES) % len(env.task_names))[None]
    keys = jax.random.split(jax.random.key(0), tasks.shape)
    start = init_rollout(env, (), reset_envs(env, tasks, keys))

    def step(state: Any, _: Any) -> tuple[Any, tuple[Observation, Outcome]]:
        obs = observe_batch(env, state.env_states, state.last_action, jnp.broadcast_to(state.time == 0, tasks.shape))
        after, _, outcome = step_envs(env, random_policy, keys, state)
        return after, jax.tree.map(lambda leaf: leaf[0], (obs, _outcome_while(state.running, outcome)))

    return jax.lax.scan(step, start, length=min(STEPS, env.spec.horizon))[1]


def _outcome_while(running: Any, outcome: Outcome) -> Outcome:
    return Outcome(jnp.where(running, outcome.reward, 0.0), outcome.terminated, outcome.won)


def _at(env: Env, where: Any) -> str:
    step, episode = where
    return f" at step {step} of task {env.task_names[episode % len(env.task_names)]!r}"
