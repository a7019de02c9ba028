"""Checks of what a user's environment or method returns, before anything is compiled."""

from typing import Any

import jax
import jax.numpy as jnp

from refil.errors import RefilError
from refil.learning.onpolicy import OnPolicyMethod
from refil.types import Env, Method, Observation, Outcome


def check_env(env: Env, name: str) -> None:
    """Raise if an environment returns arrays that do not match its spec; nothing is computed."""
    spec = env.spec
    for leaf in jax.tree.leaves(env.tasks):
        if len(leaf) != len(env.task_names):
            raise RefilError(f"{name} has {len(leaf)} tasks but {len(env.task_names)} task_names")
    task = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf)[1:], jnp.result_type(leaf)), env.tasks)
    key = jax.eval_shape(lambda: jax.random.key(0))
    state = jax.eval_shape(env.reset, task, key)
    actions = jax.ShapeDtypeStruct((spec.agents,), jnp.int32)
    after, outcome = jax.eval_shape(env.step, state, actions, key)
    if jax.tree.map(_signature, after) != jax.tree.map(_signature, state):
        raise RefilError(f"step of {name} must return a state with the shapes and types that reset returns")
    obs = jax.eval_shape(env.observe, state)
    if not isinstance(obs, Observation) or not isinstance(outcome, Outcome):
        raise RefilError(f"observe and step of {name} must return refil.types.Observation and refil.types.Outcome")
    for field in ("reward", "terminated", "won"):
        _check(f"step of {name} must return a scalar {field}", getattr(outcome, field), (), None)
    agents, entities = ("agents", spec.agents), ("entities", spec.entities)
    _check_field(name, obs, "entities", (entities, ("features", spec.features)), jnp.floating)
    _check_field(name, obs, "present", (entities,), jnp.bool_)
    _check_field(name, obs, "visible", (agents, entities), jnp.bool_)
    _check_field(name, obs, "available", (agents, ("actions", spec.actions)), jnp.bool_)
    _check_field(name, obs, "alive", (entities,), jnp.bool_)
    _check_field(name, obs, "group", (entities,), jnp.integer)
    _check_field(name, obs, "targeting_action", (entities,), jnp.integer)


def _signature(leaf: Any) -> str:
    return f"{leaf.dtype}{leaf.shape}"


def _check_field(name: str, obs: Observation, field: str, axes: tuple[tuple[str, int], ...], kind: Any) -> None:
    leaf = getattr(obs, field)
    if leaf is not None:
        names = ", ".join(axis for axis, _ in axes)
        _check(f"observe of {name} must return {field} [{names}]", leaf, tuple(size for _, size in axes), kind)


def _check(expected: str, leaf: Any, shape: tuple[int, ...], kind: Any) -> None:
    if leaf.shape != shape:
        raise RefilError(f"{expected} with shape {shape}, not {leaf.shape}")
    if kind is not None and not jnp.issubdtype(leaf.dtype, kind):
        wanted = {jnp.bool_: "bool", jnp.integer: "an integer type", jnp.floating: "a floating-point type"}[kind]
        raise RefilError(f"{expected} of {wanted}, not {leaf.dtype}")


def check_method(method: Any, name: str) -> None:
    """Raise if a plug-in did not build a method, or if its model cannot be trained."""
    if not isinstance(method, Method | OnPolicyMethod):
        raise RefilError(f"build of {name} returned {type(method).__name__} instead of refil.types.Method")
    model = jax.eval_shape(lambda: method.init(jax.random.key(0)))
    if not hasattr(model, "utility"):
        raise RefilError(f"init of {name} returned {type(model).__name__}, which has no attribute 'utility'")
    for path, leaf in jax.tree_util.tree_leaves_with_path(model):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            where = jax.tree_util.keystr(path)
            advice = "fields that are not learned must be eqx.field(static=True), as numbers, strings or tuples"
            raise RefilError(f"the model of {name} has {leaf.dtype} in {where}; {advice}")
