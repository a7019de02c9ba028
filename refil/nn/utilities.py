"""Utilities: each agent's Q-values from the entities it sees (paper, section 2), and how the framework runs them.

`step` advances a utility by one timestep while acting; `unroll` runs it over all timesteps of a batch while learning. Both own
what its author need not know: resets, packed batches, several views, absent agents, number formats, overlap with GPU work.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree

from refil.errors import RefilError
from refil.nn.attention import Attention
from refil.nn.gru import Gru, scan_time
from refil.nn.kernels import overlap
from refil.nn.layers import Linear, relu
from refil.nn.packed_rows import from_time_major, to_time_major
from refil.nn.pooling import Pooling
from refil.rollout import Policy, epsilon_greedy
from refil.types import EpisodeBatch, FusedUtility, Observation, RecurrentUtility, Utility

Aggregator = Attention | Pooling
Encoder = Callable[..., Array]  # (inputs, views, following=None) -> a vector per view and agent, as `EntityEncoder`
Barrier = Callable[[PyTree], PyTree]  # identity that makes its result wait until the recurrent scan can start
Head = Callable[[Array], Array]  # scores the actions of features
NOISE = 7  # separates the keys of networks that sample from the keys that choose actions


def entity_inputs(obs: Observation, last_action_dim: int) -> Float[Array, "*batch entities inputs"]:
    """Return each entity's features, followed by its last action (one-hot) unless `last_action_dim` is 0."""
    if last_action_dim == 0:
        return obs.entities
    assert obs.last_action is not None
    one_hot = jnp.arange(last_action_dim) == obs.last_action[..., None]
    padding = [(0, 0)] * (one_hot.ndim - 2) + [(0, obs.entities.shape[-2] - one_hot.shape[-2]), (0, 0)]
    return jnp.concatenate([obs.entities, jnp.pad(one_hot, padding).astype(obs.entities.dtype)], axis=-1)


class EntityEncoder(eqx.Module):
    """Embeds every entity and aggregates those in view, in one layer: no entity can leak what another one sees."""

    embed: Linear
    aggregator: Aggregator

    def __call__(
        self,
        inputs: Float[Array, "*batch entities features"],
        views: Bool[Array, "views *batch agents entities"],
        following: Linear | None = None,
    ) -> Float[Array, "views *batch agents outputs"]:
        """Return each agent's aggregate, mapped by the following layer without an activation in between."""
        return self.aggregator.project(relu(self.embed(inputs)), following).attend(views)


class FeedForwardUtility(eqx.Module):
    """Encodes the entities in view and scores actions, without memory (the authors' choice for group matching)."""

    encoder: Encoder
    head: Head
    last_action_dim: int = eqx.field(static=True)

    def encode(
        self, obs: Observation, views: Bool[Array, "views *batch agents entities"]
    ) -> Float[Array, "views *batch agents size"]:
        """Return the features to score."""
        return relu(self.encoder(entity_inputs(obs, self.last_action_dim), views))

    def q_values(
        self, features: Float[Array, "views *batch agents size"], obs: Observation
    ) -> Float[Array, "views *batch agents actions"]:
        """Score every action."""
        return self.head(features)


class GruUtility(eqx.Module):
    """Encodes the entities in view, remembers with a GRU and scores actions (the authors' choice for StarCraft)."""

    encoder: Encoder
    input_proj: Linear | None  # layer between encoder and GRU, with a ReLU; None: the GRU reads the encoder's output
    gru: Gru
    head: Head
    last_action_dim: int = eqx.field(static=True)

    def initial_state(self, *batch: int) -> Float[Array, "*batch hidden"]:
        """Return the hidden state before the first timestep."""
        return jnp.zeros((*batch, len(self.gru.hidden_proj.weight)))

    def encode(
        self, obs: Observation, views: Bool[Array, "views *batch agents entities"]
    ) -> Float[Array, "views *batch agents hidden"]:
        """Return the inputs of the GRU."""
        inputs = entity_inputs(obs, self.last_action_dim)
        return self.encoder(inputs, views) if self.input_proj is None else relu(self.encoder(inputs, views, self.input_proj))

    def recur(self, state: Array, inputs: Array) -> tuple[Array, Array]:
        """Return the next hidden state, twice: it is also what is scored."""
        hidden = self.gru(self.gru.input_proj(inputs), state)
        return hidden, hidden

    def project_inputs(self, inputs: Float[Array, "views time *batch hidden"]) -> Float[Array, "views time *batch gates"]:
        """Return the inputs' part of all gates."""
        return self.gru.project_inputs(inputs)

    def recur_all(
        self, gates: Float[Array, "views time *batch gates"], is_first: Bool[Array, "1 time ..."], start: Array | None = None
    ) -> Float[Array, "views time *batch hidden"]:
        """Return the hidden state after every timestep."""
        return self.gru.unroll(gates, is_first, start)

    def q_values(
        self, features: Float[Array, "views *batch agents hidden"], obs: Observation
    ) -> Float[Array, "views *batch agents actions"]:
        """Score every action."""
        return self.head(features)


def initial_state(utility: Utility, *batch: int) -> PyTree:
    """Return the state of a utility before the first timestep; empty for one without memory."""
    return utility.initial_state(*batch) if isinstance(utility, RecurrentUtility) else ()


def step(utility: Utility, state: PyTree, obs: Observation) -> tuple[PyTree, Float[Array, "*batch agents actions"]]:
    """Advance by one timestep: return the next state, and the Q-values through what is visible."""
    states, q = step_views(utility, jax.tree.map(lambda leaf: leaf[None], state), obs, obs.visible[None])
    return jax.tree.map(lambda leaf: leaf[0], states), q


def step_views(
    utility: Utility, states: PyTree, obs: Observation, views: Bool[Array, "views *batch agents entities"]
) -> tuple[PyTree, Float[Array, "*batch agents actions"]]:
    """Advance by one timestep through several views, each with its own state; return the Q-values of the first view."""
    features = utility.encode(obs, views)
    if isinstance(utility, RecurrentUtility):
        states, features = utility.recur(states, features)
    return states, _q_values(utility, jax.tree.map(lambda leaf: leaf[:1], features), obs, 1)[0]


def _q_values(utility: Utility, features: PyTree, obs: Observation, views: int) -> Float[Array, "views *batch agents actions"]:
    """Return Q-values in float32, zero for absent agents."""
    q, expected = utility.q_values(features, obs), (views, *obs.available.shape)
    if jnp.shape(q) != expected:
        axes = "[views, *batch, agents, actions]"
        raise RefilError(f"q_values of {type(utility).__name__} must return {axes} = {expected}, not {jnp.shape(q)}")
    return jnp.where(obs.agent_present[..., None], q.astype(jnp.float32), 0.0)


def team_policy(models: Any, epsilon: Float[Array, " seeds"]) -> Policy:
    """Return the epsilon-greedy policy of each seed's model, as a pytree."""
    return jax.tree_util.Partial(_act, models, epsilon)


def _act(models: Any, epsilon: Array, state: PyTree, obs: Observation, keys: Array) -> tuple[PyTree, Int[Array, "..."]]:
    obs = replace(obs, key=jax.vmap(jax.vmap(lambda key: jax.random.fold_in(key, NOISE)))(keys))
    state, q = jax.vmap(lambda model, *now: step(model.utility, *now))(models, state, obs)
    return state, jax.vmap(jax.vmap(epsilon_greedy, in_axes=(0, 0, None, 0)))(q, obs.available, epsilon, keys)


def team_state(models: Any, envs: int, agents: int) -> PyTree:
    """Return the initial state of each seed's team in each environment."""
    return jax.vmap(lambda model: initial_state(model.utility, envs, agents))(models)


def unroll(
    utility: Utility,
    batch: EpisodeBatch,
    views: Bool[Array, "views batch timesteps agents entities"] | None = None,
    key: PRNGKeyArray | None = None,
    features: bool = False,
) -> Any:
    """Return the Q-values of all timesteps, `[batch, time + 1, agents, actions]`.

    With `views` the result has them as its first axis, and each view has a state of its own; without, agents see what is
    visible. `key` is for networks that sample. With `features` the result is the pair of Q-values and features.
    """
    chosen = batch.observations.visible[None] if views is None else views
    q, found, _ = unroll_overlapped(utility, batch, chosen, key, lambda barrier: None)
    result = (q, found) if features else q
    return jax.tree.map(lambda leaf: leaf[0], result) if views is None else result


def unroll_overlapped(
    utility: Utility,
    batch: EpisodeBatch,
    views: Bool[Array, "views batch timesteps agents entities"],
    key: PRNGKeyArray | None,
    overlapped: Callable[[Barrier], PyTree],
) -> tuple[Float[Array, "views batch timesteps agents actions"], PyTree, PyTree]:
    """Return Q-values, features, and the result of `overlapped(barrier)`, other work that overlaps with the recurrent scan.

    What that work passes through the barrier waits until the scan can start.
    """
    obs = batch.observations if key is None else replace(batch.observations, key=timestep_keys(batch, key))
    if not isinstance(utility, RecurrentUtility):
        features, other = utility.encode(obs, views), overlapped(lambda values: values)
        return _q_values(utility, features, obs, len(views)), features, other
    if (index := batch.pack_index) is None:  # transpose observations, not what is computed from them: they are smaller
        obs, views = jax.tree.map(partial(jnp.swapaxes, axis1=0, axis2=1), obs), jnp.swapaxes(views, 1, 2)
    assert obs.is_first is not None
    inputs, is_first = jax.tree.map(partial(to_time_major, index), (utility.encode(obs, views), obs.is_first[None]))
    initial = utility.initial_state(len(views), is_first.shape[2], views.shape[-2])
    features, other = _recur(utility, inputs, is_first, (initial, batch.start), overlapped)
    features = jax.tree.map(partial(from_time_major, index), features)
    q = _q_values(utility, features, obs, len(views))
    if index is None:
        q, features = jax.tree.map(partial(jnp.swapaxes, axis1=1, axis2=2), (q, features))
    return q, features, other


def _recur(
    utility: RecurrentUtility,
    inputs: PyTree,
    is_first: Bool[Array, "1 time rows"],
    states: tuple[PyTree, PyTree],
    overlapped: Callable[[Barrier], PyTree],
) -> tuple[PyTree, PyTree]:
    """Return the features of all timesteps, and the overlapped work: with a fused kernel if there is one."""
    if isinstance(utility, FusedUtility):
        inputs = utility.project_inputs(inputs)
        other = overlapped(partial(overlap.barrier, inputs))
        return overlap.backward_first(utility.recur_all(inputs, is_first[..., None, None], states[1]), other)
    return scan_steps(utility, inputs, is_first, *states), overlapped(lambda values: values)


def scan_steps(utility: RecurrentUtility, inputs: PyTree, is_first: Array, initial: PyTree, start: PyTree) -> PyTree:
    """Apply `recur` timestep by timestep; the gradient of the weights is summed over time in float32."""
    exact = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), utility)

    def timestep(state: PyTree, now: tuple[PyTree, Array]) -> tuple[PyTree, PyTree]:
        inputs, is_first = now
        working = jax.tree.map(lambda leaf, given: leaf.astype(given.dtype), exact, utility)
        reset = jax.tree.map(lambda old, new: jnp.where(is_first[..., *(None,) * (old.ndim - 2)], new, old), state, initial)
        after, features = working.recur(reset, inputs)
        return jax.tree.map(lambda new, old: new.astype(old.dtype), after, state), features

    return scan_time(timestep, initial if start is None else start, (inputs, is_first))


def timestep_keys(batch: EpisodeBatch, key: PRNGKeyArray) -> Key[Array, "batch timesteps"]:
    """Return a key per timestep that depends on the episode and its timestep, not on where the batch stores it."""
    is_first = batch.observations.is_first
    assert is_first is not None
    here = jnp.arange(is_first.size).reshape(is_first.shape)
    start = jax.lax.cummax(jnp.where(is_first, here, 0).reshape(-1)).reshape(is_first.shape)
    key_of = jax.vmap(jax.vmap(lambda *numbers: jax.random.fold_in(jax.random.fold_in(key, numbers[0]), numbers[1])))
    return key_of(batch.episode_id, here - start)
