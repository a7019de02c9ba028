"""A trained team that needs only NumPy: `refil export` writes this file next to the weights, `policy.npz`.

    from policy import Policy
    policy = Policy()
    policy.reset()                                          # at the start of every episode
    actions = policy.act(entities, visible, available)      # at every timestep; one action per agent

The arrays are those of `refil.types.Observation`: features `[entities, features]`, what each agent sees `[agents, entities]`,
and which actions each agent can choose `[agents, actions]`. Agents are the first entities. `policy.info` has the names of
features and actions. Actions are greedy.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

UNAVAILABLE = -9999999.0


class Policy:
    """The network of every agent, with the memory and the last actions of one episode."""

    def __init__(self, path: "str | Path | None" = None) -> None:
        with np.load(path or Path(__file__).with_name("policy.npz"), allow_pickle=False) as stored:
            self.weights = {name: stored[name] for name in stored.files if name != "info"}
            self.info: dict[str, Any] = json.loads(str(stored["info"]))
        self.reset()

    def reset(self) -> None:
        """Forget the last episode."""
        agents = self.info["agents"]
        self.last_action = np.full(agents, -1)
        self.hidden = np.zeros((agents, len(self.weights.get("gru.hidden_proj.weight", ()))), np.float32)

    def act(self, entities: Any, visible: Any, available: Any) -> np.ndarray:
        """Return the best available action of every agent, and remember this timestep."""
        q = np.where(np.asarray(available, bool), self.q_values(entities, visible), UNAVAILABLE)
        self.last_action = q.argmax(axis=-1)
        return self.last_action

    def q_values(self, entities: Any, visible: Any) -> np.ndarray:
        """Return the Q-values of all actions, available or not, and advance the memory."""
        inputs, visible = np.asarray(entities, np.float32), np.asarray(visible, bool)
        if size := self.info["last_action_dim"]:
            last = np.zeros((len(inputs), size), np.float32)
            last[: len(visible)] = np.arange(size) == self.last_action[:, None]
            inputs = np.concatenate([inputs, last], axis=-1)
        embedded = self._dense("encoder.embed", inputs, relu=True)
        features = self._attend(embedded, visible)
        if "encoder.own.weight" in self.weights:
            features = features + self._dense("encoder.own", embedded[: len(visible)])
        if "encoder.norm.scale" in self.weights:
            features = self._norm("encoder.norm", features)
        if "input_proj.weight" in self.weights:
            features = self._dense("input_proj", features)
        if "gru.hidden_proj.weight" in self.weights:
            plain = "encoder.norm.scale" not in self.weights and "input_proj.weight" not in self.weights
            features = self.hidden = self._gru(features if plain else np.maximum(features, 0))
        else:
            features = np.maximum(features, 0)
        return self._dense("head", features)

    def _dense(self, name: str, inputs: np.ndarray, relu: bool = False) -> np.ndarray:
        """Apply a dense layer, with the normalization that belongs to it if there is one: the head's comes first."""
        if f"{name}.output.linear.weight" in self.weights:
            return self._dense(f"{name}.output", self._norm(f"{name}.norm", inputs))
        inner = f"{name}.linear" if f"{name}.linear.weight" in self.weights else name
        outputs = inputs @ self.weights[f"{inner}.weight"] + self.weights[f"{inner}.bias"]
        if f"{name}.norm.scale" in self.weights:
            outputs = self._norm(f"{name}.norm", outputs)
        return np.maximum(outputs, 0) if relu else outputs

    def _norm(self, name: str, inputs: np.ndarray) -> np.ndarray:
        centered = inputs - inputs.mean(axis=-1, keepdims=True)
        scaled = centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + self.info["epsilon"])
        return scaled * self.weights[f"{name}.scale"] + self.weights[f"{name}.shift"]

    def _attend(self, embedded: np.ndarray, visible: np.ndarray) -> np.ndarray:
        heads = self.info["heads"]
        projected = np.split(embedded @ self.weights["encoder.aggregator.query_key_value"], 3, axis=-1)
        queries, keys, values = (part.reshape(len(part), heads, -1).swapaxes(0, 1) for part in projected)
        logits = queries[:, : len(visible)] @ keys.swapaxes(-2, -1) * keys.shape[-1] ** -0.5
        logits = np.where(visible, logits, -1e9)
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True)) * visible
        weights = weights / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-30)
        attended = (weights @ values).swapaxes(0, 1).reshape(len(visible), -1)
        return self._dense("encoder.aggregator.output", attended)

    def _gru(self, inputs: np.ndarray) -> np.ndarray:
        gates = np.split(self._dense("gru.input_proj", inputs), 3, axis=-1)
        own = np.split(self._dense("gru.hidden_proj", self.hidden), 3, axis=-1)
        reset, update = (1 / (1 + np.exp(-(gates[part] + own[part]))) for part in (0, 1))
        new = np.tanh(gates[2] + reset * own[2])
        return (1 - update) * new + update * self.hidden
