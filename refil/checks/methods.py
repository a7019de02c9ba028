"""Properties of methods: what the order of entities, padding, invisible entities and packing must not change."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from refil.checks import batches
from refil.checks.report import Check, CheckFailed, NotApplicable, largest_difference, relative_difference
from refil.learning import losses, td
from refil.learning.onpolicy import OnPolicyMethod
from refil.nn.utilities import initial_state, step, timestep_keys, unroll
from refil.training.devices import jit_quickly
from refil.types import EpisodeBatch, Method, Spec

SPEC = Spec(agents=3, entities=5, features=4, actions=5, horizon=batches.TIME, target_actions=3)
TOLERANCE = 2e-5  # tolerance for values whose order of summation differs
LAMBDA = 0.85  # lambda of on-policy targets
RELATIVE_TOLERANCE = 2e-3  # tolerance for losses and gradients


@dataclass(frozen=True, eq=False)
class Subject:
    """A method for environments of these sizes, with its compiled functions; `communicates` if agents exchange messages."""

    method: Method
    spec: Spec
    communicates: bool = False

    @cached_property
    def loss(self) -> Callable[..., tuple[Array, Any]]:
        """The compiled loss and its gradient: `loss(model, target_model, batch, key)`."""
        return jit_quickly(jax.value_and_grad(lambda model, *rest: self.method.loss(model, *rest)[0]))

    @cached_property
    def q_values(self) -> Callable[..., Array]:
        """The compiled Q-values of all timesteps: `q_values(model, batch, key)`."""
        return jit_quickly(lambda model, batch, key: unroll(model.utility, batch, key=key))

    @cached_property
    def step(self) -> Callable[..., tuple[Any, Array]]:
        """The compiled `step(model, state, obs)`."""
        return jit_quickly(lambda model, *given: step(model.utility, *given))

    @cached_property
    def joint_value(self) -> Callable[..., Array]:
        """The compiled `joint_value(model, obs, utilities, views)`."""
        return jit_quickly(_joint_value)

    @cached_property
    def slopes(self) -> Callable[..., Array]:
        """The compiled derivative of the joint value with respect to the utilities: `slopes(model, obs, utilities, views)`."""
        return jit_quickly(jax.grad(lambda *given: _joint_value(*given).sum(), argnums=2))

    @cached_property
    def _init(self) -> Callable[[Array], Any]:
        return jit_quickly(self.method.init)

    def models(self, seed: int) -> tuple[Any, Any]:
        """Return two randomly initialized models out of a few that are used again and again; batches vary more."""
        one, other = jax.random.split(jax.random.key(seed % 3))
        return self._init(one), self._init(other)

    def batch(self, seed: int) -> EpisodeBatch:
        """Return a random batch."""
        return batches.random_batch(self.spec, seed)


def as_replay_method(method: Method | OnPolicyMethod) -> Method:
    """Return a method whose loss takes batches of whole episodes, so that the same checks apply to on-policy methods.

    Partitions are then sampled with the key, and targets are computed with the target network.
    """
    if isinstance(method, Method):
        return method

    def loss(model: Any, target_model: Any, batch: EpisodeBatch, key: Array) -> td.Loss:
        groups = losses.sample_partitions(batch, method.num_groups, 1, key)[0]
        batch = replace(batch, groups=groups)
        values = method.greedy_values(target_model, batch)[:, 1:]
        return method.loss(model, batch, td.lambda_targets(batch, values, method.discount, LAMBDA))

    return Method(method.init, loss)


def _joint_value(model: Any, obs: Any, utilities: Array, views: Array) -> Array:
    return losses.mix(model.mixer, model.mixer.context(obs, views), utilities, losses.ALL_FACTORS)


def all_checks(subject: Subject, seed: int = 0) -> list[Check]:
    """Return all checks of a method."""
    named = {
        "step = unroll": step_equals_unroll,
        "permuted entities": permuting_entities_permutes_utilities,
        "permuted entities, loss": loss_is_permutation_invariant,
        "invisible entities": invisible_entities_have_no_effect,
        "padding": padding_has_no_effect,
        "absent agents get no credit": absent_agents_get_no_credit,
        "packed = padded": packed_equals_padded,
        "finite gradients": gradients_are_finite,
        "monotonic mixing": mixing_is_monotonic,
    }
    return [Check(name, lambda check=check: check(subject, seed)) for name, check in named.items()]


def step_equals_unroll(subject: Subject, seed: int) -> str:
    """Acting step by step gives the Q-values of learning."""
    model, batch, key = subject.models(seed)[0], subject.batch(seed), jax.random.key(seed)
    whole, state = subject.q_values(model, batch, key), initial_state(model.utility, len(batch.valid), subject.spec.agents)
    obs, largest = replace(batch.observations, key=timestep_keys(batch, key)), 0.0
    for time in range(whole.shape[1]):
        state, q = subject.step(model, state, jax.tree.map(lambda leaf, time=time: leaf[:, time], obs))
        largest = max(largest, largest_difference(q, whole[:, time]))
    if largest > TOLERANCE:
        raise CheckFailed(f"Q-values while acting differ from those while learning by up to {largest:.3g}")
    return f"Q-values differ by at most {largest:.1g}" if largest else "Q-values are identical"


def permuting_entities_permutes_utilities(subject: Subject, seed: int) -> str:
    """Another order of the entities gives the same Q-values in that order, and the same joint value."""
    model, batch, key = subject.models(seed)[0], subject.batch(seed), jax.random.key(seed)
    agents, order = batches.random_order(subject.spec, seed)
    q = subject.q_values(model, batch, key)
    if largest_difference(q, subject.q_values(model, batch, jax.random.key(seed + 1))) > 0:
        raise NotApplicable("the utility samples, so agents differ randomly")
    other = batches.permuted(batch.observations, agents, order)
    same = subject.q_values(model, replace(batch, observations=other), key)
    if (found := largest_difference(same, q[:, :, agents])) > TOLERANCE:
        raise CheckFailed(f"Q-values of agents change by up to {found:.3g} when the entities are in another order")
    if _mixes(model):
        utilities, obs = q.max(axis=-1)[None], batch.observations
        value = subject.joint_value(model, obs, utilities, obs.full_view[None])
        permuted = subject.joint_value(model, other, utilities[..., agents], other.full_view[None])
        if (found := largest_difference(permuted, value)) > TOLERANCE:
            raise CheckFailed(f"the joint value changes by up to {found:.3g} when the entities are in another order")
    return "Q-values follow the order of the entities"


def loss_is_permutation_invariant(subject: Subject, seed: int) -> str:
    """Another order of the entities gives the same loss."""
    batch, models = subject.batch(seed), subject.models(seed)
    agents, order = batches.random_order(subject.spec, seed)
    # Losses, not gradients: ROMA divides by the distance of roles, and new models have roles so similar that rounding shows.
    loss, fresh = (float(subject.loss(*models, batch, jax.random.key(each))[0]) for each in (seed, seed + 1))
    if loss != fresh:
        raise NotApplicable("the loss samples, and may sample by position")
    obs = batches.permuted(batch.observations, agents, order)
    same = subject.loss(*models, replace(batch, observations=obs, actions=batch.actions[..., agents]), jax.random.key(seed))[0]
    if largest_difference(same, loss) > TOLERANCE:
        raise CheckFailed(f"the loss is {float(same):.6g} instead of {loss:.6g} when the entities are in another order")
    return f"the loss stays {loss:.4g}"


def invisible_entities_have_no_effect(subject: Subject, seed: int) -> str:
    """What an agent does not see cannot change its Q-values."""
    if subject.communicates:
        raise NotApplicable("agents exchange messages (COMMUNICATES)")
    model, batch, key = subject.models(seed)[0], subject.batch(seed), jax.random.key(seed)
    obs = batch.observations
    for entity in range(1, subject.spec.entities):
        hidden = replace(obs, visible=obs.visible.at[:, :, 0, entity].set(False))
        changed = replace(hidden, entities=obs.entities.at[:, :, entity].add(5.0))
        q, other = (subject.q_values(model, replace(batch, observations=each), key)[:, :, 0] for each in (hidden, changed))
        if (found := largest_difference(q, other)) > 0:
            raise CheckFailed(f"an entity that agent 0 does not see changes its Q-values by up to {found:.3g}")
    return f"{subject.spec.entities - 1} entities in turn"


def padding_has_no_effect(subject: Subject, seed: int) -> str:
    """Garbage in absent slots and after the ends of episodes changes neither loss nor gradient."""
    batch = subject.batch(seed)
    return _same_loss(subject, seed, batch, batches.with_garbage(batch, seed), "garbage in absent slots and after the end")


def absent_agents_get_no_credit(subject: Subject, seed: int) -> str:
    """Actions of absent agents change neither loss nor gradient."""
    batch = subject.batch(seed)
    while bool(batch.observations.agent_present.all()):
        if subject.spec.agents == 1:
            raise NotApplicable("there is a single agent")
        seed += 1
        batch = subject.batch(seed)
    other = batches.with_other_absent_actions(batch, subject.spec.actions)
    return _same_loss(subject, seed, batch, other, "other actions of absent agents")


def packed_equals_padded(subject: Subject, seed: int) -> str:
    """Packing several episodes into a row changes neither loss nor gradient."""
    padded, packed, _ = batches.layouts(subject.spec, seed)
    return _same_loss(
        subject, seed, padded, packed, "packing", " (see td.lambda_targets for targets that stop at episode ends)"
    )


def _same_loss(subject: Subject, seed: int, batch: EpisodeBatch, other: EpisodeBatch, change: str, advice: str = "") -> str:
    models, key = subject.models(seed), jax.random.key(seed)
    (loss, gradient), (changed, other_gradient) = (subject.loss(*models, each, key) for each in (batch, other))
    if relative_difference(loss, changed) > RELATIVE_TOLERANCE:
        raise CheckFailed(f"{change} changes the loss from {float(loss):.4f} to {float(changed):.4f}{advice}")
    if (found := relative_difference(gradient, other_gradient)) > RELATIVE_TOLERANCE:
        raise CheckFailed(f"{change} changes the gradient by {found:.2%} of its norm, the loss stays {float(loss):.4f}{advice}")
    return f"the loss stays {float(loss):.4f}"


def gradients_are_finite(subject: Subject, seed: int, situations: tuple[str, ...] = batches.EDGE_CASES) -> str:
    """Losses and gradients are finite, also where agents see nothing, are alone, have one action or die."""
    batch, models = subject.batch(seed), subject.models(seed)
    for situation in situations:
        loss, gradient = subject.loss(*models, batches.edge_case(batch, situation), jax.random.key(seed))
        if not np.isfinite(loss):
            raise CheckFailed(f"the loss is {float(loss)} in a batch where {situation}")
        for path, leaf in jax.tree_util.tree_leaves_with_path(gradient):
            if not np.isfinite(leaf).all():
                raise CheckFailed(f"the gradient of {jax.tree_util.keystr(path)} is not finite in a batch where {situation}")
    return f"also where {', '.join(situations)}"


def mixing_is_monotonic(subject: Subject, seed: int) -> str:
    """The joint value never falls when a utility rises."""
    model, obs = subject.models(seed)[0], subject.batch(seed).observations
    if not _mixes(model):
        raise NotApplicable("the model has no mixer with context() and value()")
    rng = np.random.default_rng(seed)
    group_ids = jnp.asarray(rng.integers(0, 3, obs.present.shape))
    for views in (obs.full_view[None], losses.views(group_ids, obs.full_view)):
        utilities = jnp.asarray(rng.normal(size=views.shape[:-1]), jnp.float32)
        slope = np.asarray(subject.slopes(model, obs, utilities, views))
        if not (slope >= 0).all():
            raise CheckFailed(f"the joint value falls by {-slope.min():.3g} per unit that a utility rises")
        if not (slope[..., 0] > 0).all():  # the first agent is always present
            raise CheckFailed("the joint value does not depend on the utility of an agent that is present")
    return "every derivative is positive"


def _mixes(model: Any) -> bool:
    mixer = getattr(model, "mixer", None)
    return hasattr(mixer, "context") and hasattr(mixer, "value")
