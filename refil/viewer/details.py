"""Details of played episodes: rewards, actions, and what agents see, attend to and expect, for the inspection on a page."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from refil.learning import losses
from refil.nn import inspect
from refil.nn.utilities import unroll
from refil.training import devices
from refil.training.replay import buffer
from refil.types import Env, Trajectory

DIGITS = 2  # decimals of Q-values and attention in a page
PARTITION_SEED = 0
PARTITIONS = 4  # random partitions of an episode's entities, between which a page switches
Inspection = Callable[[Any, Trajectory, Key[Array, ""]], Any]


@dataclass(frozen=True)
class Details:
    """The details of one episode; arrays have a leading axis of steps.

    `q` has Q-values of all actions through what is visible and then, for each of the random partitions in `groups`, through the
    part within the agent's own group and the part across groups. Each of these views has a memory of its own.
    """

    actions: np.ndarray  # [steps, agents]
    active: np.ndarray  # [steps, agents]: present and alive
    available: np.ndarray  # [steps, agents, actions]
    visible: np.ndarray  # [steps, agents, entities]
    aimed_at: np.ndarray  # [steps, entities]: the action aimed at each entity, or -1
    q: np.ndarray  # [views, steps, agents, actions]
    attention: np.ndarray | None  # [steps, heads, agents, entities]
    groups: np.ndarray  # [partitions, entities]
    action_names: tuple[str, ...]

    def encode(self) -> dict[str, Any]:
        """Return what a page reads: for every step and agent the action, the Q-values, and the visible entities."""
        steps = [[self._agent(time, agent) for agent in range(self.actions.shape[1])] for time in range(len(self.actions))]
        heads = 0 if self.attention is None else self.attention.shape[1]
        views = ["all it sees", "within its group", "across groups"][: len(self.q)]  # the last two for each partition
        return {
            "actions": list(self.action_names),
            "heads": heads,
            "views": views,
            "groups": self.groups.tolist(),
            "aimed": self.aimed_at.tolist(),
            "every": 1,  # frames per step
            "steps": steps,
        }

    def _agent(self, time: int, agent: int) -> list[Any] | None:
        """Return action, target entity or -1, rows of an action and its Q-values, and rows of an entity and its weights."""
        if not self.active[time, agent]:
            return None
        action = int(self.actions[time, agent])
        target = np.flatnonzero(self.aimed_at[time] == action) if action >= 0 else []
        choices = np.flatnonzero(self.available[time, agent]).tolist()
        q = [[choice, *_rounded(self.q[:, time, agent, choice])] for choice in choices]
        entities = np.flatnonzero(self.visible[time, agent]).tolist()
        weights = [[] if self.attention is None else _rounded(self.attention[time, :, agent, entity]) for entity in entities]
        seen = [[entity, *row] for entity, row in zip(entities, weights, strict=True)]
        return [action, int(target[0]) if len(target) else -1, q, seen]


def _rounded(values: np.ndarray) -> list[float | None]:
    return [round(float(value), DIGITS) if np.isfinite(value) else None for value in values]


def compile_inspection(env: Env) -> Inspection:
    """Compile what `details` computes, for callers that ask for the details of many episodes."""
    return devices.jit_quickly(lambda model, played, key: _inspect(env, model, played, key))


def details(env: Env, model: Any, trajectories: Trajectory, inspection: Inspection | None = None) -> list[Details]:
    """Return the details of recorded episodes, which have one leading axis; observations are computed again."""
    inspect_all = inspection or compile_inspection(env)
    found = inspect_all(model, jax.tree.map(jnp.asarray, trajectories), jax.random.key(PARTITION_SEED))
    obs, q, weights, groups = jax.device_get(found)
    names = tuple(getattr(env, "action_names", ())) or tuple(f"action {number}" for number in range(env.spec.actions))
    active = (obs.present & obs.alive)[..., : env.spec.agents]
    aimed_at = np.full(obs.present.shape, -1) if obs.targeting_action is None else obs.targeting_action
    results = []
    for number, valid in enumerate(np.asarray(trajectories.valid)):
        here = number, slice(0, int(valid.sum()))
        found = Details(
            actions=np.asarray(trajectories.actions)[here],
            active=active[here],
            available=obs.available[here],
            visible=obs.visible[here],
            aimed_at=aimed_at[here],
            q=q[(slice(None), *here)],
            attention=None if weights is None else weights[here],
            groups=groups[number],
            action_names=names,
        )
        results.append(found)
    return results


def _inspect(env: Env, model: Any, played: Trajectory, key: Key[Array, ""]) -> tuple[Any, Any, Any, Any]:
    """Return observations, Q-values through all views, attention weights, and REFIL's random groups of every episode."""
    batch = buffer.rebuild_batch(env, played)
    obs = batch.observations
    key_groups, key_memory = jax.random.split(key)
    sample = jax.vmap(jax.vmap(partial(losses.random_partition, env.spec.entities, 2)))
    groups = sample(jax.random.split(key_groups, (batch.num_episodes, PARTITIONS)))
    views = [obs.visible[None]]
    for number in range(PARTITIONS):
        views.append(losses.views(jnp.broadcast_to(groups[:, number, None], obs.present.shape), obs.visible))
    q = unroll(model.utility, batch, jnp.concatenate(views), key_memory)
    weights = inspect.attention_weights(model.utility, obs) if inspect.has_attention(model.utility) else None
    return obs, q, weights, groups
