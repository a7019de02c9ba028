"""Checks of how a method learns in an environment: acting, the loss, its gradient, the optimizer and the target network.

Everything is traced, so it takes a moment and computes nothing: losses of methods with a replay buffer on padded and packed
batches, those of on-policy methods on a rollout. Built-in methods in built-in environments need no such check.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from refil.errors import RefilError
from refil.learning.onpolicy import OnPolicyMethod
from refil.training.contracts.method import RESERVED
from refil.training.contracts.plugin import kind
from refil.training.contracts.tracing import check_array, difference, key_shape, shapes, trace
from refil.training.onpolicy import stream
from refil.training.onpolicy import update as on_policy
from refil.training.replay import buffer, update
from refil.training.setup import Setup
from refil.types import EpisodeBatch, Observation, Trajectory

EPISODES = 2


def check_learning(setup: Setup, name: str) -> None:
    """Raise if the method of a setup cannot act or learn in its environment."""
    model = trace(f"{name}: init()", setup.method.init, key_shape())
    padded, packed = _batches(setup, name)
    _check_acting(setup, model, padded, name)
    if isinstance(setup.method, OnPolicyMethod):
        return _check_on_policy(setup, model, name)
    learner = _learner(setup, model, name)
    for batch in (padded, packed):
        _check_loss(setup, model, batch, name)
        gradient, _ = trace(f"{name}: the gradient of loss()", partial(update.gradient, setup), learner, batch, key_shape())
    after = trace(f"{name}: update() of the optimizer", partial(update.apply_gradient, setup), learner, gradient)
    if text := difference(after, learner):
        raise RefilError(f"{name}: update() of the optimizer changes types: {text}")
    _check_target(setup, learner, name)


def _batches(setup: Setup, name: str) -> tuple[EpisodeBatch, EpisodeBatch]:
    env, horizon = setup.env, setup.env.spec.horizon
    task = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf)[1:], jnp.result_type(leaf)), env.tasks)
    state = jax.eval_shape(env.reset, task, key_shape())

    def trajectories(states: Any) -> Trajectory:
        steps, one = (EPISODES, horizon), jnp.zeros(EPISODES, jnp.int32)
        flags, words = jnp.zeros(steps, bool), jnp.zeros((EPISODES, 2), jnp.uint32)
        actions = jnp.zeros((*steps, env.spec.agents), jnp.int32)
        return Trajectory(states, actions, jnp.zeros(steps), flags, flags, flags[:, 0], one, words)

    def rebuild(states: Any, size: buffer.PackSize | None) -> EpisodeBatch:
        played = trajectories(states)
        return buffer.rebuild_batch(env, played, buffer.first_fit(played.valid), size)

    states, size = shapes(state, EPISODES, horizon + 1), buffer.PackSize(EPISODES * (horizon + 1) - 1, EPISODES)
    padded, packed = (trace(f"{name}: observe()", partial(rebuild, size=each), states) for each in (None, size))
    return padded, packed


def _check_acting(setup: Setup, model: Any, batch: EpisodeBatch, name: str) -> None:
    spec, kind_name = setup.env.spec, type(model.utility).__name__
    obs = jax.eval_shape(lambda batch: jax.tree.map(lambda leaf: leaf[:, 0], batch.observations), batch)
    obs = jax.eval_shape(_with_key, obs, key_shape())
    encode = f"{name}: encode() of {kind_name}"
    encoded = trace(encode, lambda model, obs: model.utility.encode(obs, obs.visible[None]), model, obs)
    for leaf in jax.tree.leaves(encoded):
        if leaf.shape[:1] != (1,):
            axes = "[views, *batch, agents, ...]"
            raise RefilError(f"{encode} returned shape {leaf.shape} for 1 view; arrays must be {axes}")
    features = _without_views(encoded)
    if hasattr(model.utility, "recur"):
        features = _check_memory(model, features, spec.agents, f"{name}: {{}} of {kind_name}")
    what, given = f"{name}: q_values() of {kind_name}", shapes(features, 1)
    q = trace(what, lambda model, features, obs: model.utility.q_values(features, obs), model, given, obs)
    if not hasattr(q, "shape"):
        raise RefilError(f"{what} returned {kind(q)}; it must return an array")
    if q.shape != (1, EPISODES, spec.agents, spec.actions):
        expected = f"[views, *batch, agents, actions] = {(1, EPISODES, spec.agents, spec.actions)}"
        raise RefilError(f"{what} returned shape {q.shape}; it must be {expected}")
    check_array(f"{what} returned an array", q, tuple(("", size) for size in q.shape), jnp.floating)


def _with_key(obs: Observation, key: Any) -> Observation:
    assert obs.is_first is not None
    return replace(obs, key=jax.random.split(key, obs.is_first.shape))


def _without_views(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), tree)


def _check_memory(model: Any, features: Any, agents: int, what: str) -> Any:
    start = trace(what.format("initial_state()"), lambda model: model.utility.initial_state(EPISODES, agents), model)
    for leaf in jax.tree.leaves(start):
        if leaf.shape[:2] != (EPISODES, agents):
            expected = f"[*batch, ...] with *batch = {(EPISODES, agents)}"
            raise RefilError(f"{what.format('initial_state()')} returned shape {leaf.shape}; arrays must be {expected}")
    recur = what.format("recur()")
    result = trace(recur, lambda model, *given: model.utility.recur(*given), model, start, features)
    if not isinstance(result, tuple) or len(result) != 2:
        raise RefilError(f"{recur} returned {kind(result)}; it must return (state, features)")
    if text := difference(result[0], start):
        raise RefilError(f"{recur} returned a state of another type than initial_state(): {text}")
    return result[1]


def _learner(setup: Setup, model: Any, name: str) -> update.LearnerState:
    if make := setup.method.optimizer:
        with_members = make(setup.algorithm)
        if not (hasattr(with_members, "init") and hasattr(with_members, "update")):
            raise RefilError(f"{name}: optimizer() returned {kind(with_members)}; it must return an optax optimizer")
    return trace(f"{name}: init() of the optimizer", partial(update.init_learner, setup), model, model)


def _check_loss(setup: Setup, model: Any, batch: EpisodeBatch, name: str) -> None:
    def loss(model: Any, batch: EpisodeBatch, key: Any) -> Any:
        return setup.method.loss(*update.cast(setup, model, model, batch), key)

    packed = " of a packed batch" if batch.pack_index is not None else ""
    _check_loss_result(trace(f"{name}: loss(){packed}", loss, model, batch, key_shape()), name)


def _check_loss_result(result: Any, name: str) -> None:
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], dict):
        found = f"({', '.join(map(kind, result))})" if isinstance(result, tuple) and len(result) == 2 else kind(result)
        raise RefilError(f"{name}: loss() returned {found}; it must return (loss, metrics), a scalar and a dict of scalars")
    value, metrics = result
    check_array(f"{name}: loss() returned a loss", value, (), jnp.floating)
    for metric, number in metrics.items():
        if not isinstance(metric, str):
            raise RefilError(f"{name}: loss() returned a metric with the name {metric!r}; names must be strings")
        if metric in RESERVED:
            raise RefilError(f"{name}: loss() returned a metric {metric!r}; refil logs {', '.join(sorted(RESERVED))} itself")
        if not hasattr(number, "shape"):
            raise RefilError(f"{name}: loss() returned a metric {metric!r} that is {kind(number)}; it must be a scalar")
        check_array(f"{name}: loss() returned a metric {metric!r}", number, (), jnp.number)


def _check_target(setup: Setup, learner: update.LearnerState, name: str) -> None:
    if own := setup.method.target_update:
        what, due = f"{name}: target_update()", jax.ShapeDtypeStruct((), jnp.bool_)
        model = jax.eval_shape(lambda learner: learner.model, learner)
        if text := difference(trace(what, own, model, model, due), model):
            raise RefilError(f"{what} returned another type of model: {text}")


def _check_on_policy(setup: Setup, model: Any, name: str) -> None:
    method, length = setup.method, setup.algorithm.rollout
    few = setup._replace(train=replace(setup.train, envs=EPISODES), algorithm=replace(setup.algorithm, minibatches=1))
    _check_views(few, name)
    batch = trace(f"{name}: a rollout", partial(_rollout, few), model, key_shape())
    what = f"{name}: greedy_values()"
    values = trace(what, lambda *given: method.greedy_values(*given), model, batch)
    if not hasattr(values, "shape") or values.shape != (EPISODES, length + 1):
        found = f"shape {values.shape}" if hasattr(values, "shape") else kind(values)
        raise RefilError(f"{what} returned {found}; it must be [batch, timesteps] = {(EPISODES, length + 1)}")
    given = model, batch, jax.ShapeDtypeStruct((EPISODES, length), jnp.float32)
    result = trace(f"{name}: loss()", lambda model, *rest: method.loss(on_policy.cast(few, model), *rest), *given)
    _check_loss_result(result, name)
    trace(f"{name}: the gradient of loss()", jax.grad(partial(on_policy.loss, few), has_aux=True), *given)


def _check_views(setup: Setup, name: str) -> None:
    agents, entities = setup.env.spec.agents, setup.env.spec.entities
    given = jax.ShapeDtypeStruct((agents, entities), bool), jax.ShapeDtypeStruct((entities,), jnp.int32)
    views = trace(f"{name}: views()", setup.method.views, *given)
    if not hasattr(views, "shape") or len(views.shape) != 3 or views.shape[1:] != (agents, entities) or not views.shape[0]:
        found = f"shape {views.shape}" if hasattr(views, "shape") else kind(views)
        expected = f"[views, agents, entities] = (1 or more, {agents}, {entities})"
        raise RefilError(f"{name}: views() returned {found}; it must be {expected}")
    check_array(f"{name}: views() returned an array", views, tuple(("", size) for size in views.shape), jnp.bool_)


def _rollout(setup: Setup, model: Any, key: Any) -> EpisodeBatch:
    models, keys = jax.tree.map(lambda leaf: leaf[None], (model, key))
    start = stream.init_stream(setup, models, keys)
    _, batch, _ = stream.rollout(setup, models, jnp.ones(1), start, keys)
    return jax.tree.map(lambda leaf: leaf[0], replace(batch, start=start.memory))
