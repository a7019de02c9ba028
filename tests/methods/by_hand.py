"""Parts of networks worked out in plain NumPy, agent by agent, independently of the package."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from refil.types import EpisodeBatch
from tests.tiny_methods import EPISODES, TIME, random_batch


def softmax(values):
    powers = np.exp(values - values.max())
    return powers / powers.sum()


def dense(layer, rows):
    return rows @ np.asarray(layer.weight) + np.asarray(layer.bias)


def dense_layers(net, rows):
    for layer in net.layers[:-1]:
        rows = np.maximum(dense(layer, rows), 0)
    return dense(net.layers[-1], rows)


def normed(rows):
    return (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)


def entity_inputs(obs, actions):
    """Features and last action of every entity at one timestep."""
    last = np.zeros((len(obs.entities), actions))
    for agent, action in enumerate(obs.last_action):
        if action >= 0:
            last[agent, action] = 1
    return np.concatenate([obs.entities, last], axis=1)


def encoded(net, rows, view):
    """Embedding and attention, agent by agent, head by head; an agent that sees nothing gets only the bias of the output."""
    rows = np.maximum(dense(net.embed, rows), 0)
    size = rows.shape[1]
    width = size // net.aggregator.heads
    query, key, value = np.split(rows @ np.asarray(net.aggregator.query_key_value), 3, axis=1)
    attended = np.zeros((len(view), size))
    for agent, seen in enumerate(view):
        for start in range(0, size if seen.any() else 0, width):
            part = slice(start, start + width)
            attended[agent, part] = softmax(key[seen, part] @ query[agent, part] / np.sqrt(width)) @ value[seen, part]
    return dense(net.aggregator.output, attended)


def mean_over_slots(rows, obs):
    """The mean over all agent slots; absent agents count as zeros."""
    return np.where(obs.present[: len(rows), None], rows, 0).sum(axis=0) / len(rows)


def full_view(obs):
    return obs.present[: len(obs.visible), None] & obs.present


def hidden_states(utility, obs):
    """A GRU in PyTorch's form over the timesteps of one row."""

    def gate(total):
        return 1 / (1 + np.exp(-total))

    hidden, states = None, []
    for now in timesteps(obs):
        seen = np.maximum(dense(utility.input_proj, encoded(utility.encoder, entity_inputs(now, 5), now.visible)), 0)
        if now.is_first:
            hidden = np.zeros_like(seen)
        reset, update, new = np.split(dense(utility.gru.input_proj, seen), 3, axis=1)
        old_reset, old_update, old_new = np.split(dense(utility.gru.hidden_proj, hidden), 3, axis=1)
        new, update = np.tanh(new + gate(reset + old_reset) * old_new), gate(update + old_update)
        hidden = (1 - update) * new + update * hidden
        states.append(hidden)
    return np.stack(states)


def timesteps(obs):
    """One row of a batch, timestep by timestep."""
    return [jax.tree.map(lambda leaf, t=t: np.asarray(leaf[t]), obs) for t in range(TIME + 1)]


def rows(obs):
    """A batch, row by row."""
    return [jax.tree.map(lambda leaf, n=n: np.asarray(leaf[n]), obs) for n in range(EPISODES)]


def batch_with_two_episodes_in_a_row(spec, seed) -> EpisodeBatch:
    """Random episodes with all agents present but one; in its row, a second episode starts after two timesteps."""
    batch = random_batch(spec, seed)
    obs = batch.observations
    present = obs.present.at[:, :, :3].set(True).at[1, :, 1].set(False)
    both = present[:, :, :3, None] & present[:, :, None, :]
    first = obs.is_first.at[1, 2].set(True)
    last_action = obs.last_action.at[1, 2].set(-1)
    obs = replace(obs, present=present, visible=obs.visible & both, last_action=last_action, is_first=first)
    return replace(batch, observations=obs, valid=batch.valid.at[1].set(jnp.array([True, False, True, True])))


def q_values(utility, obs):
    """The Q-values of a GRU utility in one row."""
    return np.where(np.asarray(obs.present)[:, :3, None], dense(utility.head, hidden_states(utility, obs)), 0)


def picked(q, actions):
    return np.take_along_axis(q, np.asarray(actions)[..., None], axis=-1)[..., 0]


def best_actions(q, obs):
    return np.where(obs.available, q, -np.inf).argmax(axis=-1)
