"""Reads golden fixtures, recorded from the authors' implementation, into our own types."""

import dataclasses
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from refil import plugins, settings
from refil.envs import group_matching
from refil.nn.attention import Attention
from refil.nn.gru import Gru
from refil.nn.layers import Linear
from refil.nn.mixers import Hypernet, LinearQmix, Qmix, Vdn
from refil.nn.pooling import Pooling
from refil.nn.utilities import EntityEncoder, FeedForwardUtility, GruUtility
from refil.training.replay import buffer
from refil.types import EpisodeBatch, Model, Observation, Spec, Trajectory

HEADS = 4
GAME = "group_matching_"
NAMES = {"fixed_oracle": "refil_fixed_oracle", "randomized_oracle": "refil_randomized_oracle"}


def method_name(path: Path) -> str:
    """The method that a fixture belongs to."""
    name = path.stem.removeprefix(GAME)
    return NAMES.get(name, name)


def build(path: Path, fixture):
    """The method of a fixture, at the fixture's sizes, through its own file's `build`."""
    module = plugins.load("refil.methods", method_name(path))
    config = module.Config()
    if path.stem.startswith(GAME):
        config = settings.apply_defaults(config, group_matching.DEFAULTS)
    sizes = {"size": fixture["agent/fc1.weight"].shape[0]}
    if hasattr(config, "heads"):
        sizes["heads"] = HEADS
    if "agent/rnn.weight_hh" in fixture:
        sizes["memory"] = fixture["agent/rnn.weight_hh"].shape[1]
    if "mixer/hyper_w_1.fc2.weight" in fixture:
        sizes["mixing"] = fixture["mixer/hyper_w_1.fc2.weight"].shape[0]
    timesteps, entities, features = fixture["entities"].shape[1:]
    agents, actions = fixture["available"].shape[2:]
    return module.build(dataclasses.replace(config, **sizes), Spec(agents, entities, features, actions, timesteps - 1))


class RecordedEnv:
    """An environment whose states are observations."""

    spec = tasks = task_names = None
    observe = reset = step = staticmethod(lambda state, *_: state)


def batch(fixture, packed: bool = False) -> EpisodeBatch:
    """Return the recorded batch, padded or packed."""
    entities, actions = fixture["entities"], fixture["actions"]
    count, timesteps, slots = entities.shape[:3]
    present = np.broadcast_to(fixture["present"][:, None], (count, timesteps, slots))
    group = fixture["group"] if "group" in fixture else np.zeros((count, slots), int)
    observations = Observation(
        entities=jnp.asarray(entities),
        present=jnp.asarray(present),
        alive=jnp.asarray(present),
        visible=jnp.asarray(fixture["visible"]),
        available=jnp.asarray(fixture["available"]),
        group=jnp.asarray(np.broadcast_to(group[:, None], (count, timesteps, slots))),
    )
    trajectory = Trajectory(
        states=observations,
        actions=jnp.asarray(actions[:, :-1]),
        rewards=jnp.asarray(fixture["reward"][:, :-1]),
        terminated=jnp.asarray(fixture["terminated"][:, :-1]),
        valid=jnp.asarray(np.arange(timesteps - 1) < fixture["length"][:, None]),
        won=jnp.zeros(count, bool),
        task=jnp.zeros(count, int),
        key=jnp.zeros((count, 2), jnp.uint32),
    )
    size = buffer.PackSize(count * timesteps - 2, count) if packed else None
    return buffer.rebuild_batch(RecordedEnv(), trajectory, buffer.first_fit(trajectory.valid), size)


def random_groups(fixture, batch: EpisodeBatch) -> jax.Array:
    """Return the recorded random groups at every timestep."""
    return jnp.asarray(fixture["side"].astype(int))[batch.episode_id]


def group_ids(path: Path, fixture) -> jax.Array:
    """Return the groups that the fixture's method derives from them."""
    recorded = batch(fixture)
    group, random = recorded.observations.group, random_groups(fixture, recorded)
    made = {"refil_fixed_oracle": group, "refil_randomized_oracle": 2 * group + random}
    return made.get(method_name(path), random)


def model(path: Path, fixture, prefix: str = "") -> Model:
    """Recorded parameters as a model; `prefix` chooses among the online, target and final ones."""
    layer = partial(aggregator, fixture, "max" if "max" in path.stem else "mean")
    return Model(utility(fixture, f"{prefix}agent/", layer), mixer(fixture, f"{prefix}mixer/", layer))


def utility(fixture, prefix: str, layer) -> FeedForwardUtility | GruUtility:
    """The agent's network."""
    encode = EntityEncoder(dense(fixture, prefix + "fc1"), layer(prefix + "attn"))
    if f"{prefix}rnn.weight_ih" not in fixture:
        return FeedForwardUtility(encode, dense(fixture, prefix + "fc2"), 0)
    sides = [
        Linear(jnp.asarray(fixture[f"{prefix}rnn.weight_{side}"].T), jnp.asarray(fixture[f"{prefix}rnn.bias_{side}"]))
        for side in ("ih", "hh")
    ]
    score = dense(fixture, prefix + "fc3")
    return GruUtility(encode, dense(fixture, prefix + "fc2"), Gru(*sides), score, score.bias.shape[0])


def mixer(fixture, prefix: str, layer) -> Qmix | LinearQmix | Vdn:
    """The mixing network."""
    if f"{prefix}V.fc1.weight" not in fixture:
        return Vdn()
    last_action_dim = fixture["available"].shape[-1] if f"{prefix}hyper_b_1.fc1.weight" in fixture else 0
    if last_action_dim == 0:
        return LinearQmix(*(hyper(fixture, prefix + name, layer) for name in ("hyper_w_1", "V")), "softmax", 0)
    names = ("hyper_w_1", "hyper_b_1", "hyper_w_final", "V")
    return Qmix(*(hyper(fixture, prefix + name, layer) for name in names), "softmax", last_action_dim)


def hyper(fixture, prefix: str, layer) -> Hypernet:
    """One hypernetwork."""
    parts = dense(fixture, prefix + ".fc1"), layer(prefix + ".attn"), dense(fixture, prefix + ".fc2")
    return Hypernet(*parts)


def aggregator(fixture, kind: str, prefix: str) -> Attention | Pooling:
    """One attention or pooling layer; a pooling layer has a bias before the pooling."""
    if f"{prefix}.in_trans.bias" in fixture:
        return Pooling(dense(fixture, f"{prefix}.in_trans"), dense(fixture, f"{prefix}.out_trans"), kind, exact=False)
    return Attention(jnp.asarray(fixture[f"{prefix}.in_trans.weight"].T), dense(fixture, f"{prefix}.out_trans"), HEADS)


def dense(fixture, prefix: str) -> Linear:
    """One dense layer; PyTorch keeps weights as [out, in]."""
    return Linear(jnp.asarray(fixture[f"{prefix}.weight"].T), jnp.asarray(fixture[f"{prefix}.bias"]))


def assert_close(ours, theirs, tolerance: float) -> None:
    """Equal relative to the largest entry."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= tolerance * np.abs(theirs).max()


def assert_models_close(ours: Model, theirs: Model, tolerance: float) -> None:
    """Raise if a parameter of one model differs from the other's by more than the tolerance."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    jax.tree.map(lambda one, other: assert_close(one, other, tolerance), ours, theirs)
