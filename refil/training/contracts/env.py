"""Checks of an environment: its members, its spec, its tasks, and the shapes and types that its functions return."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from refil.errors import RefilError
from refil.rollout import is_hosted
from refil.training.contracts.plugin import check_parameters, kind
from refil.training.contracts.tracing import check_array, difference, key_shape, trace
from refil.training.setup import OutputConfig
from refil.types import Env, Observation, Outcome, Spec

MEMBERS = ("spec", "tasks", "task_names", "reset", "step", "observe")
PARAMETERS = {"reset": ("task", "key"), "step": ("state", "actions", "key"), "observe": ("state",)}
SIZES = ("agents", "entities", "features", "actions", "horizon")
LARGEST_HORIZON = 10**6


def check_env(env: Any, name: str, traced: bool = True) -> None:
    """Raise if an environment breaks its contract (`refil.types.Env`); nothing is computed.

    Tracing finds what the functions return; the simulator then asks for the device, which starts JAX's backend.
    """
    _check_members(env, name)
    _check_spec(env.spec, name)
    _check_tasks(env, name)
    if traced:
        _check_functions(env, name)
    _check_names(env, name)


def _check_functions(env: Env, name: str) -> None:
    task = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf)[1:], jnp.result_type(leaf)), env.tasks)
    state = trace(f"{name}: reset()", env.reset, task, key_shape())
    if not jax.tree.leaves(state):
        raise RefilError(f"{name}: reset() returned {kind(state)}; a state is any pytree that holds arrays")
    _check_observation(env, trace(f"{name}: observe()", env.observe, state), name)
    _check_step(env, state, name)


def _check_members(env: Any, name: str) -> None:
    if env is None or isinstance(env, type):
        raise RefilError(f"{name}: build() returned {kind(env)}; it must return an environment")
    if missing := [member for member in MEMBERS if not hasattr(env, member)]:
        raise RefilError(f"{name}: build() returned {kind(env)} without {', '.join(missing)}; see refil.types.Env")
    for function, given in PARAMETERS.items():
        check_parameters(name, f"{function}()", getattr(env, function), given)
    if hasattr(env, "scene"):
        check_parameters(name, "scene()", env.scene, ("state",))


def _check_spec(spec: Any, name: str) -> None:
    if not isinstance(spec, Spec):
        raise RefilError(f"{name}: spec is {kind(spec)}; it must be a refil.types.Spec")
    for field in (*SIZES, "target_actions"):
        value, least = getattr(spec, field), int(field in SIZES)
        if isinstance(value, bool) or not isinstance(value, int):
            raise RefilError(f"{name}: spec.{field} is {value!r}; it must be an int")
        if value < least:
            raise RefilError(f"{name}: spec.{field} is {value}; it must be {least} or more")
    if spec.agents > spec.entities:
        raise RefilError(f"{name}: spec.agents {spec.agents} is more than spec.entities {spec.entities}; agents are entities")
    if spec.target_actions > spec.actions:
        raise RefilError(f"{name}: spec.target_actions {spec.target_actions} is more than spec.actions {spec.actions}")
    if spec.horizon > LARGEST_HORIZON:
        raise RefilError(f"{name}: spec.horizon is {spec.horizon}; an episode has at most {LARGEST_HORIZON} steps")


def _check_tasks(env: Env, name: str) -> None:
    names = env.task_names
    if not isinstance(names, tuple | list) or not names or not all(isinstance(each, str) for each in names):
        raise RefilError(f"{name}: task_names is {names!r}; it must be a tuple with a string for every task")
    _check_unique(names, f"{name}: task_names")
    for leaf in jax.tree.leaves(env.tasks):
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype") or not leaf.shape:
            raise RefilError(f"{name}: tasks holds {kind(leaf)}; it must hold arrays with a row per task, as np.array([2, 3])")
        if len(leaf) != len(names):
            raise RefilError(f"{name}: tasks has {len(leaf)} rows, task_names has {len(names)}")


def _check_names(env: Env, name: str) -> None:
    for member, axis in (("feature_names", "features"), ("action_names", "actions")):
        names, size = getattr(env, member, None), getattr(env.spec, axis)
        if names is None:
            continue
        if isinstance(names, str) or not all(isinstance(each, str) for each in names):
            raise RefilError(f"{name}: {member} is {names!r}; it must be a tuple of strings")
        if len(names) != size:
            raise RefilError(f"{name}: {member} has {len(names)} names, spec.{axis} is {size}")
        _check_unique(tuple(names), f"{name}: {member}")


def _check_unique(names: Sequence[str], what: str) -> None:
    if repeated := sorted({each for each in names if names.count(each) > 1}):
        raise RefilError(f"{what} has {', '.join(map(repr, repeated))} more than once")


def _check_step(env: Env, state: Any, name: str) -> None:
    actions = jax.ShapeDtypeStruct((env.spec.agents,), jnp.int32)
    result = trace(f"{name}: step()", env.step, state, actions, key_shape())
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], Outcome):
        found = f"({', '.join(map(kind, result))})" if isinstance(result, tuple) and len(result) == 2 else kind(result)
        raise RefilError(f"{name}: step() returned {found}; it must return (state, Outcome(reward, terminated, won))")
    after, outcome = result
    if text := difference(after, state):
        raise RefilError(f"{name}: step() returned a state of another type than reset(): {text}")
    for field, dtype in (("reward", jnp.number), ("terminated", jnp.bool_), ("won", jnp.bool_)):
        if not hasattr(leaf := getattr(outcome, field), "shape"):
            raise RefilError(f"{name}: step() gives {field} {leaf}; it must be a scalar array")
        check_array(f"{name}: step() gives {field}", leaf, (), dtype)
    _check_metrics(env, outcome.metrics, name)


def _check_metrics(env: Env, metrics: Any, name: str) -> None:
    declared = tuple(getattr(env, "metric_names", ()))
    if not isinstance(metrics, dict) or set(metrics) != set(declared):
        found = tuple(metrics) if isinstance(metrics, dict) else kind(metrics)
        raise RefilError(f"{name}: step() gives metrics {found}, metric_names is {declared}; both must name the same metrics")
    for metric, leaf in metrics.items():
        check_array(f"{name}: step() gives metric {metric!r}", leaf, (), jnp.number)


def _check_observation(env: Env, obs: Any, name: str) -> None:
    spec = env.spec
    if not isinstance(obs, Observation):
        raise RefilError(f"{name}: observe() returned {kind(obs)}; it must return a refil.types.Observation")
    agents, entities = ("agents", spec.agents), ("entities", spec.entities)
    required = {
        "entities": ((entities, ("features", spec.features)), jnp.floating),
        "present": ((entities,), jnp.bool_),
        "visible": ((agents, entities), jnp.bool_),
        "available": ((agents, ("actions", spec.actions)), jnp.bool_),
    }
    optional = {
        "alive": ((entities,), jnp.bool_),
        "group": ((entities,), jnp.integer),
        "targeting_action": ((entities,), jnp.integer),
    }
    for field, (axes, dtype) in (required | optional).items():
        leaf = getattr(obs, field)
        if leaf is not None:
            check_array(f"{name}: observe() gives {field}", leaf, axes, dtype)
        elif field in required:
            raise RefilError(f"{name}: observe() gives no {field}; it must be [{', '.join(axis for axis, _ in axes)}]")
    if spec.target_actions and obs.targeting_action is None:
        raise RefilError(f"{name}: observe() gives no targeting_action, spec.target_actions is {spec.target_actions}")


def check_hosted(env: Any, name: str, algorithm: str, output: OutputConfig, dry_run: bool) -> None:
    """Raise if compiled programs cannot play an environment and training needs that; a dry run also looks for the game."""
    if not is_hosted(env):
        return
    if algorithm != "replay":
        why = f"{name} plays real games, whole episodes at a time, and on-policy training compiles windows of episodes"
        raise RefilError(f"{why}; train on-policy in the simulator and evaluate in {name}, or choose a method with replay")
    if output.compact_checkpoints:
        raise RefilError(f"output.compact_checkpoints simulates episodes again, which {name} cannot do; omit it")
    if dry_run and (check_ready := getattr(env, "check_ready", None)):
        check_ready()
