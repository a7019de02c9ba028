"""Rollouts: play one episode in every environment of every seed and record the trajectories.

Training from a replay buffer, evaluation, scripted armies, behavior statistics and datasets play their episodes here and
differ in their policy. The loop is outside the batch: under `jax.vmap`, a loop whose end depends on data would copy everything
at every step. `docs/walk.md` names the loops that do what this one cannot, such as `refil.training.onpolicy.stream` for windows
of episodes and `refil.hosted` for environments that compiled programs cannot play.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from refil import shards
from refil.types import Env, Observation, Outcome, Trajectory

UNAVAILABLE = -9999999.0  # Q-value of unavailable actions where the best one is chosen
PolicyState = Any
Policy = Callable[[PolicyState, Observation, Key[Array, "seeds envs"]], tuple[PolicyState, Int[Array, "seeds envs agents"]]]


HOSTED = "hosted_rollout"  # method of environments that compiled programs cannot play; see `refil.hosted`


def is_hosted(env: Env) -> bool:
    """Return whether compiled programs cannot play an environment."""
    return hasattr(env, HOSTED)


class RolloutState(eqx.Module):
    """A batch of episodes in progress."""

    time: Int[Array, ""]
    env_states: PyTree
    policy_state: PyTree
    last_action: Int[Array, "seeds envs agents"]
    running: Bool[Array, "seeds envs"]


def rollout(
    env: Env, policy: Policy, policy_state: PolicyState, tasks: Int[Array, "seeds envs"], keys: Key[Array, " seeds"]
) -> Trajectory:
    """Play one episode of each task with the given policy; devices that share seeds play a part of the episodes each."""
    env_keys = jax.vmap(partial(jax.random.split, num=tasks.shape[1]))(keys)
    if is_hosted(env) and not isinstance(tasks, Tracer):  # while tracing, only shapes are asked for
        return getattr(env, HOSTED)(env, policy, policy_state, tasks, env_keys)

    def play(policy_state: PolicyState, tasks: Array, keys: Array) -> Trajectory:
        return run_episodes(env, policy, policy_state, reset_envs(env, tasks, keys), tasks, keys)

    shared = shards.current.get()
    return shared.divide(play, 1, policy_state, tasks, env_keys) if shared else play(policy_state, tasks, env_keys)


def rollout_random_tasks(
    env: Env, policy: Policy, policy_state: PolicyState, num_envs: int, keys: Key[Array, " seeds"]
) -> Trajectory:
    """Play `num_envs` episodes per seed, their tasks sampled uniformly."""
    keys = jax.vmap(jax.random.split)(keys)
    tasks = jax.vmap(lambda key: jax.random.randint(key, (num_envs,), 0, len(env.task_names)))(keys[:, 0])
    return rollout(env, policy, policy_state, tasks, keys[:, 1])


def reset_envs(env: Env, tasks: Int[Array, "seeds envs"], keys: Key[Array, "seeds envs"]) -> PyTree:
    """Return the first states of episodes of these tasks."""
    rows = jax.tree.map(lambda leaf: jnp.asarray(leaf)[tasks], env.tasks)
    return jax.vmap(jax.vmap(env.reset))(rows, jax.vmap(jax.vmap(lambda key: jax.random.fold_in(key, 0)))(keys))


def run_episodes(
    env: Env,
    policy: Policy,
    policy_state: PolicyState,
    first_states: PyTree,
    tasks: Int[Array, "seeds envs"],
    keys: Key[Array, "seeds envs"],
) -> Trajectory:
    """Play episodes from their first states to their ends; `tasks` is only recorded.

    Episodes that end early stay frozen until the last one is over; timesteps after the end are zeroed.
    """
    start = init_rollout(env, policy_state, first_states)
    step = first_states, start.last_action, jnp.zeros(tasks.shape), ~start.running, ~start.running
    records = jax.tree.map(lambda leaf: jnp.zeros((env.spec.horizon + 1, *leaf.shape), leaf.dtype), step)  # time-major

    def record_step(carry: tuple[RolloutState, Array, PyTree, PyTree]) -> tuple[RolloutState, Array, PyTree, PyTree]:
        state, won, metrics, records = carry
        after, actions, outcome = step_envs(env, policy, keys, state)
        step = state.env_states, actions, outcome.reward, outcome.terminated, state.running
        records = jax.tree.map(lambda rows, new: rows.at[state.time].set(new), records, step)
        metrics = {name: total + jnp.where(state.running, outcome.metrics[name], 0.0) for name, total in metrics.items()}
        return after, won | (state.running & outcome.won), metrics, records

    metrics = {name: jnp.zeros(tasks.shape) for name in getattr(env, "metric_names", ())}
    end, won, metrics, records = jax.lax.while_loop(
        lambda carry: carry[0].running.any() & (carry[0].time < env.spec.horizon),
        record_step,
        (start, ~start.running, metrics, records),
    )
    # The state after the last step is the only one that no step has recorded.
    states = jax.tree.map(lambda rows, state: rows.at[end.time].set(state), records[0], end.env_states)
    states, *steps, valid = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 2), (states, *records[1:]))
    # What follows the end of an episode would depend on how long the other episodes took.
    reached = jnp.pad(valid[:, :, :-1], [(0, 0), (0, 0), (1, 0)], constant_values=True)
    states = jax.tree.map(lambda leaf: select(reached, leaf, jnp.zeros_like(leaf)), states)
    actions, rewards, terminated = (select(valid, leaf, jnp.zeros_like(leaf))[:, :, :-1] for leaf in steps)
    steps = actions, rewards, terminated, valid[:, :, :-1]
    return Trajectory(states, *steps, won, tasks, jax.random.key_data(keys), metrics)


def init_rollout(env: Env, policy_state: PolicyState, first_states: PyTree) -> RolloutState:
    """Return a batch of episodes before their first step."""
    seeds, envs = jax.tree.leaves(first_states)[0].shape[:2]
    return RolloutState(
        time=jnp.zeros((), jnp.int32),
        env_states=first_states,
        policy_state=policy_state,
        last_action=jnp.full((seeds, envs, env.spec.agents), -1),
        running=jnp.ones((seeds, envs), bool),
    )


def step_envs(
    env: Env, policy: Policy, keys: Key[Array, "seeds envs"], state: RolloutState
) -> tuple[RolloutState, Int[Array, "seeds envs agents"], Outcome]:
    """Take one step in every environment; episodes that are over stay frozen."""
    policy_keys, env_keys = jax.vmap(jax.vmap(lambda key: step_keys(key, state.time)))(keys)
    is_first = jnp.broadcast_to(state.time == 0, state.running.shape)
    obs = observe_batch(env, state.env_states, state.last_action, is_first)
    policy_state, actions = policy(state.policy_state, obs, policy_keys)
    env_states, outcome = vmap_flat(env.step)(state.env_states, actions, env_keys)
    after = RolloutState(
        time=state.time + 1,
        env_states=jax.tree.map(partial(select, state.running), env_states, state.env_states),
        policy_state=policy_state,
        last_action=actions,
        running=state.running & ~outcome.terminated,
    )
    return after, actions, outcome


def step_keys(key: PRNGKeyArray, time: Int[Array, ""]) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """Return the policy's and the environment's key for one step of an episode."""
    policy_key, env_key = jax.random.split(jax.random.fold_in(key, time + 1))
    return policy_key, env_key


def observe_batch(
    env: Env, states: PyTree, last_action: Int[Array, "one two agents"], is_first: Bool[Array, "one two"]
) -> Observation:
    """Observe states with two leading axes, and fill in what environments omit."""
    obs = vmap_flat(env.observe)(states)
    alive = obs.present if obs.alive is None else obs.alive
    group = jnp.zeros(obs.present.shape, jnp.int32) if obs.group is None else obs.group
    return replace(obs, alive=alive, group=group, last_action=last_action, is_first=is_first)


def vmap_flat(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Vectorize over two leading axes as one: the simulator, whose batch axis is the last in memory, is slow with two."""

    def batched(*arguments: PyTree) -> PyTree:
        shape = jax.tree.leaves(arguments)[0].shape[:2]
        result = jax.vmap(function)(*jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), arguments))
        return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), result)

    return batched


def select(condition: Bool[Array, "..."], new: Array, old: Array) -> Array:
    """Return `new` where the condition holds, `old` elsewhere; the condition covers the leading axes."""
    return jnp.where(condition.reshape(condition.shape + (1,) * (new.ndim - condition.ndim)), new, old)


def greedy(q: Float[Array, "*batch actions"], available: Bool[Array, "*batch actions"]) -> Int[Array, "*batch"]:
    """Return the best available action."""
    return jnp.argmax(jnp.where(available, q, UNAVAILABLE), axis=-1)


def random_actions(available: Bool[Array, "agents actions"], key: PRNGKeyArray) -> Int[Array, " agents"]:
    """Sample uniformly from the available actions."""
    return jax.random.categorical(key, jnp.where(available, 0.0, -jnp.inf))


def epsilon_greedy(
    q: Float[Array, "agents actions"], available: Bool[Array, "agents actions"], epsilon: Float[Array, ""], key: PRNGKeyArray
) -> Int[Array, " agents"]:
    """Choose a random available action with probability epsilon, independently per agent, and the best one otherwise."""
    explore_key, action_key = jax.random.split(key)
    explores = jax.random.uniform(explore_key, available.shape[:1]) < epsilon
    return jnp.where(explores, random_actions(available, action_key), greedy(q, available))


def no_policy(policy_state: PolicyState, obs: Observation, keys: Key[Array, "seeds envs"]) -> tuple[PolicyState, Array]:
    """Choose action 0 everywhere: for environments that ignore actions."""
    return policy_state, jnp.zeros(obs.available.shape[:-1], jnp.int32)


def random_policy(policy_state: PolicyState, obs: Observation, keys: Key[Array, "seeds envs"]) -> tuple[PolicyState, Array]:
    """Choose uniformly among the available actions."""
    return policy_state, jax.vmap(jax.vmap(random_actions))(obs.available, keys)


def derive_keys(seeds: Int[Array, " seeds"], purpose: int, count: Int[Array, " seeds"]) -> Key[Array, " seeds"]:
    """Return a key for each seed that depends only on the seed, the purpose and a count, such as episodes played."""
    return jax.vmap(lambda seed, now: jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), purpose), now))(seeds, count)
