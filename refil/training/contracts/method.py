"""Checks of a method: the results of `build` and `init`, and the members of the utility."""

from typing import Any

import jax
import jax.numpy as jnp

from refil.errors import RefilError
from refil.learning.onpolicy import OnPolicyMethod
from refil.training.contracts.plugin import check_parameters, kind
from refil.training.contracts.tracing import key_shape, trace
from refil.types import Method

# Names in lines of metrics that the trainer and its algorithm write.
COUNTED = (
    "seed",
    "env_steps",
    "episodes",
    "updates",
    "epsilon",
    "learning_rate",
    "train_win_rate",
    "loss",
    "gradient_norm",
    "seconds",
    "peak_bytes",
)
RESERVED = frozenset((*COUNTED, "win_rate", "return_mean", "length_mean", "won_length_mean"))
PARAMETERS = {
    Method: {
        "init": ("key",),
        "loss": ("model", "target_model", "batch", "key"),
        "optimizer": ("config",),
        "target_update": ("target", "model", "is_due"),
    },
    OnPolicyMethod: {
        "init": ("key",),
        "views": ("visible", "groups"),
        "greedy_values": ("model", "batch"),
        "loss": ("model", "batch", "targets"),
    },
}
OPTIONAL = ("optimizer", "target_update")
UTILITY = {"encode": ("obs", "views"), "q_values": ("features", "obs")}
MEMORY = {"initial_state": ("envs", "agents"), "recur": ("state", "inputs")}


def check_method(method: Any, name: str, expected: type = Method) -> None:
    """Raise if a plug-in did not build a method, or if its model cannot be trained; nothing is computed."""
    if not isinstance(method, expected):
        where = f"{expected.__module__}.{expected.__name__}"
        raise RefilError(f"{name}: build() returned {kind(method)}; it must return a {where}")
    for member, given in PARAMETERS[expected].items():
        function = getattr(method, member)
        if function is not None or member not in OPTIONAL:
            check_parameters(name, f"{member}()", function, given)
    if expected is OnPolicyMethod:
        _check_numbers(method, name)
    model = trace(f"{name}: init()", method.init, key_shape())
    if not hasattr(model, "utility"):
        raise RefilError(f"{name}: init() returned {kind(model)}, which has no attribute 'utility'")
    _check_utility(model.utility, name)
    _check_leaves(model, name)


def _check_numbers(method: OnPolicyMethod, name: str) -> None:
    if not isinstance(method.discount, int | float) or not 0 <= method.discount <= 1:
        raise RefilError(f"{name}: discount is {method.discount!r}; it must be a number from 0 to 1")
    if not isinstance(method.num_groups, int) or method.num_groups < 1:
        raise RefilError(f"{name}: num_groups is {method.num_groups!r}; it must be an int of 1 or more")


def _check_utility(utility: Any, name: str) -> None:
    for member in UTILITY:
        if not hasattr(utility, member):
            raise RefilError(f"{name}: the utility is {kind(utility)} without {member}(); see refil.types.Utility")
    found = [member for member in MEMORY if hasattr(utility, member)]
    if len(found) == 1:
        missing = next(member for member in MEMORY if member not in found)
        raise RefilError(f"{name}: {type(utility).__name__} has {found[0]}() but no {missing}(); a memory needs both")
    for member, given in UTILITY.items() if not found else (UTILITY | MEMORY).items():
        check_parameters(name, f"{member}() of {type(utility).__name__}", getattr(utility, member), given)


def _check_leaves(model: Any, name: str) -> None:
    leaves = jax.tree_util.tree_leaves_with_path(model)
    if not leaves:
        raise RefilError(f"{name}: init() returned {kind(model)} without arrays; there is nothing to learn")
    for path, leaf in leaves:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            where = jax.tree_util.keystr(path)
            advice = "fields that are not learned must be eqx.field(static=True), as numbers, strings or tuples"
            raise RefilError(f"{name}: the model has {leaf.dtype} in {where}; {advice}")
