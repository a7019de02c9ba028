"""Random batches of episodes to try methods with, and changes of them that must or must not matter."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from refil.training.devices import jit_quickly
from refil.training.replay import buffer
from refil.types import EpisodeBatch, Observation, Outcome, Spec, Trajectory

EPISODES, TIME = 3, 4


@dataclass(frozen=True)
class RecordedEnv:
    """An environment whose states are observations; nothing ever changes in it."""

    spec: Spec
    task_names: tuple[str, ...] = ("recorded",)

    @property
    def tasks(self) -> Observation:
        """One row: a random observation."""
        obs = replace(random_batch(self.spec, 0).observations, last_action=None, is_first=None)
        return jax.tree.map(lambda leaf: leaf[:1, 0], obs)

    def reset(self, task: Observation, key: PRNGKeyArray) -> Observation:
        """Return the recorded observation."""
        return task

    def step(self, state: Observation, actions: Array, key: PRNGKeyArray) -> tuple[Observation, Outcome]:
        """Return the same state."""
        return state, Outcome(jnp.zeros(()), jnp.zeros((), bool), jnp.zeros((), bool))

    def observe(self, state: Observation) -> Observation:
        """Return the state."""
        return state


def random_batch(spec: Spec, seed: int, episodes: int = EPISODES, time: int = TIME) -> EpisodeBatch:
    """Return episodes of random length, presence, visibility, actions and rewards."""
    rng = np.random.default_rng(seed)
    agents, timesteps = spec.agents, time + 1
    present = np.repeat(rng.random((episodes, 1, spec.entities)) < 0.8, timesteps, axis=1)
    present[:, :, 0] = True
    visible = (rng.random((episodes, timesteps, agents, spec.entities)) < 0.7) | np.eye(agents, spec.entities, dtype=bool)
    visible &= present[:, :, :agents, None] & present[:, :, None, :]
    available = rng.random((episodes, timesteps, agents, spec.actions)) < 0.7
    available[..., 0] |= ~available.any(axis=-1)
    actions = rng.integers(0, spec.actions, (episodes, time, agents))
    length = rng.integers(1, time + 1, episodes)
    steps = np.arange(time)
    observations = Observation(
        entities=as_floats(rng.normal(size=(episodes, timesteps, spec.entities, spec.features)) * present[..., None]),
        present=jnp.asarray(present),
        alive=jnp.asarray(present),
        visible=jnp.asarray(visible),
        available=jnp.asarray(available),
        group=jnp.asarray(np.repeat(rng.integers(0, 2, (episodes, 1, spec.entities)), timesteps, axis=1)),
        targeting_action=_targeting_actions(spec, present, rng),
        last_action=jnp.asarray(np.concatenate([np.full_like(actions[:, :1], -1), actions], axis=1)),
        is_first=jnp.broadcast_to(jnp.arange(timesteps) == 0, (episodes, timesteps)),
    )
    return EpisodeBatch(
        observations=observations,
        episode_id=jnp.repeat(jnp.arange(episodes)[:, None], timesteps, axis=1),
        actions=jnp.asarray(actions),
        rewards=as_floats(rng.normal(size=(episodes, time))),
        terminated=jnp.asarray((steps == length[:, None] - 1) & (rng.random((episodes, 1)) < 0.7)),
        valid=jnp.asarray(steps < length[:, None]),
        num_episodes=episodes,
    )


def _targeting_actions(spec: Spec, present: np.ndarray, rng: np.random.Generator) -> jax.Array:
    """Return the action aimed at each entity: each of them at one entity, and none at the others."""
    choices = [*range(spec.actions - spec.target_actions, spec.actions), *[-1] * (spec.entities - spec.target_actions)]
    rows = np.stack([rng.permutation(choices)[: spec.entities] for _ in range(len(present))])[:, None]
    return jnp.asarray(np.where(present, np.broadcast_to(rows, present.shape), -1))


def as_floats(values: np.ndarray) -> jax.Array:
    """Return a float32 array."""
    return jnp.asarray(values, jnp.float32)


def random_order(spec: Spec, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an order of agents, and of all entities with the agents in front, different from the order of the slots."""
    rng = np.random.default_rng(seed)
    agents = rng.permutation(spec.agents)
    order = np.concatenate([agents, spec.agents + rng.permutation(spec.entities - spec.agents)])
    is_same = (order == np.arange(spec.entities)).all() and spec.entities > 2
    return random_order(spec, seed + 1) if is_same else (agents, order)


def permuted(obs: Any, agents: np.ndarray, entities: np.ndarray) -> Any:
    """Return the same timesteps with entities in another order; fields that are None stay None."""
    by_entity = {name: getattr(obs, name) for name in ("present", "alive", "group", "targeting_action")}
    changes = {name: leaf[..., entities] for name, leaf in by_entity.items() if leaf is not None}
    if obs.last_action is not None:
        changes["last_action"] = obs.last_action[..., agents]
    return replace(
        obs,
        entities=obs.entities[..., entities, :],
        visible=obs.visible[..., agents, :][..., entities],
        available=obs.available[..., agents, :],
        **changes,
    )


def with_garbage(batch: EpisodeBatch, seed: int) -> EpisodeBatch:
    """Return the batch with garbage in absent slots and after the ends of episodes."""
    obs, rng = batch.observations, np.random.default_rng(seed)
    over = np.concatenate([np.zeros((len(batch.valid), 1), bool), ~np.asarray(batch.valid)], axis=1)  # after the last timestep
    garbage = jnp.asarray(rng.normal(size=obs.entities.shape) * 100, jnp.float32)
    spoiled = replace(obs, entities=jnp.where(~obs.present[..., None] | over[..., None, None], garbage, obs.entities))
    after = ~batch.valid
    return replace(
        batch,
        observations=replace(spoiled, visible=obs.visible & ~over[..., None, None]),
        actions=jnp.where(after[..., None], 0, batch.actions),
        rewards=jnp.where(after, -1e7, batch.rewards),
        terminated=batch.terminated | after,
    )


def with_other_absent_actions(batch: EpisodeBatch, actions: int) -> EpisodeBatch:
    """Return the batch with other actions and other available actions of absent agents."""
    obs = batch.observations
    assert obs.last_action is not None
    absent = ~obs.agent_present
    others = jnp.where(absent[:, :-1], (batch.actions + 1) % actions, batch.actions)
    first = jnp.full_like(others[:, :1], -1)
    last = jnp.where(absent, jnp.concatenate([first, others], axis=1), obs.last_action)
    available = jnp.where(absent[..., None], jnp.arange(actions) == 0, obs.available)
    return replace(batch, actions=others, observations=replace(obs, last_action=last, available=available))


def layouts(spec: Spec, seed: int, episodes: int = EPISODES, time: int = TIME) -> tuple[EpisodeBatch, EpisodeBatch, np.ndarray]:
    """Return the same episodes padded and packed, and their lengths in timesteps; some episodes share a row of time."""
    batch = random_batch(spec, seed, episodes, time)
    obs = replace(batch.observations, last_action=None, is_first=None)
    words = jnp.zeros((episodes, 2), jnp.uint32)
    steps = batch.actions, batch.rewards, batch.terminated, batch.valid
    trajectories = Trajectory(obs, *steps, batch.valid[:, 0], jnp.zeros(episodes, jnp.int32), words)
    plan = buffer.first_fit(trajectories.valid)
    size = buffer.PackSize(episodes * (time + 1) - 1, episodes - 1)
    if not buffer.fits(plan, size):
        return layouts(spec, seed + 1, episodes, time)

    def rebuild(trajectories: Trajectory, plan: buffer.PackPlan) -> tuple[EpisodeBatch, EpisodeBatch]:
        env = RecordedEnv(spec)
        return buffer.rebuild_batch(env, trajectories), buffer.rebuild_batch(env, trajectories, plan, size)

    padded, packed = jit_quickly(rebuild)(trajectories, plan)
    return padded, packed, np.asarray(plan.length)


EDGE_CASES = ("nobody sees anything", "one agent alone", "one action", "agents die")


def edge_case(batch: EpisodeBatch, situation: str) -> EpisodeBatch:
    """Return the batch in one of the situations in which gradients are easily NaN."""
    obs = batch.observations
    agents = obs.visible.shape[-2]
    alone = jnp.zeros_like(obs.present).at[..., 0].set(True)
    both = alone[..., None, :] & alone[..., :agents, None]
    changed = {
        "nobody sees anything": replace(obs, visible=jnp.zeros_like(obs.visible)),
        "one agent alone": replace(obs, present=alone, alive=alone, visible=obs.visible & both),
        "one action": replace(obs, available=jnp.zeros_like(obs.available).at[..., 0].set(True)),
        "agents die": with_dead(obs),
    }[situation]
    return replace(batch, observations=changed)


def with_dead(obs: Observation) -> Observation:
    """Let the first agent die at the second timestep, and its whole team at the third; the dead see only themselves."""
    agents = obs.visible.shape[-2]
    alive = obs.present.at[:, 1:, 0].set(False).at[:, 2:, :agents].set(False)
    both = alive[..., :agents, None] & alive[..., None, :]
    oneself = jnp.eye(agents, obs.present.shape[-1], dtype=bool) & obs.agent_present[..., None]
    only_first = jnp.arange(obs.available.shape[-1]) == 0
    return replace(
        obs,
        alive=alive,
        visible=(obs.visible & both) | oneself,
        available=jnp.where(alive[..., :agents, None], obs.available, only_first),
    )
