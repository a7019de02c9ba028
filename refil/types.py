"""Contracts: what an environment, a network and a method have to provide, and the records they exchange.

True means yes in every boolean: `present`, `visible`, `available`, `valid`. Axes written `*batch` are any leading axes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray, PyTree, UInt32

State = Any  # the state of an environment: any pytree of arrays


@dataclass(frozen=True)
class Spec:
    """Sizes that never change within an environment; an episode has at most `horizon` steps.

    The last `target_actions` actions are each aimed at an entity (`Observation.targeting_action` says at which one).
    """

    agents: int
    entities: int
    features: int
    actions: int
    horizon: int
    target_actions: int = 0


class Observation(eqx.Module):
    """One timestep as all agents see it; the agents are the first rows of `entities`.

    `present` is false for padding only: a dead unit is present and not `alive` (the paper's "inactive").
    `alive` defaults to `present`. `group`, the true groups that only oracle methods read, defaults to a single group.
    `targeting_action` is the action aimed at each entity, or -1; environments without such actions omit it.
    Environments also omit the last three fields, which the framework fills in: the last action of each agent (-1 at the
    first timestep), whether this is the first timestep of its episode, and a random key for networks that sample.
    """

    entities: Float[Array, "*batch entities features"]
    present: Bool[Array, "*batch entities"]
    visible: Bool[Array, "*batch agents entities"]
    available: Bool[Array, "*batch agents actions"]
    alive: Bool[Array, "*batch entities"] | None = None
    group: Int[Array, "*batch entities"] | None = None
    targeting_action: Int[Array, "*batch entities"] | None = None
    last_action: Int[Array, "*batch agents"] | None = None
    is_first: Bool[Array, "*batch"] | None = None
    key: Key[Array, "*batch"] | None = None

    @property
    def agent_present(self) -> Bool[Array, "*batch agents"]:
        """Whether each agent slot holds an agent."""
        return self.present[..., : self.visible.shape[-2]]

    @property
    def full_view(self) -> Bool[Array, "*batch agents entities"]:
        """The view without partial observability: every present agent sees every present entity."""
        return self.agent_present[..., :, None] & self.present[..., None, :]


class Outcome(eqx.Module):
    """The result of one joint action: `terminated` ends the episode for good, `won` means that the task is solved.

    `metrics` are extra scalars, named in `Env.metric_names`: evaluation logs the mean over episodes of their sum over steps.
    """

    reward: Float[Array, "*batch"]
    terminated: Bool[Array, "*batch"]
    won: Bool[Array, "*batch"]
    metrics: dict[str, Float[Array, "*batch"] | Int[Array, "*batch"]] = eqx.field(default_factory=dict)


class Trajectory(eqx.Module):
    """An episode as the replay buffer stores it: states, from which observations are computed again when needed.

    `key` seeds the whole episode: with the first state and the actions it suffices to simulate the same episode again.
    `metrics` are the sums of `Outcome.metrics` over the episode; the replay buffer does not store them.
    """

    states: PyTree
    actions: Int[Array, "*batch time agents"]
    rewards: Float[Array, "*batch time"]
    terminated: Bool[Array, "*batch time"]
    valid: Bool[Array, "*batch time"]
    won: Bool[Array, "*batch"]
    task: Int[Array, "*batch"]
    key: UInt32[Array, "*batch words"]
    metrics: dict[str, Float[Array, "*batch"]] = eqx.field(default_factory=dict)


class PackIndex(eqx.Module):
    """Positions of packed timesteps in a time-major layout, `timestep * rows + row`; unused ones hold `rows * timesteps`."""

    position: Int[Array, "*batch"]
    rows: int = eqx.field(static=True)
    timesteps: int = eqx.field(static=True)


class EpisodeBatch(eqx.Module):
    """A batch of episodes to learn from; observations have one timestep more than actions.

    Arrays are `[batch, time, ...]`. Each episode has a row of its own, or all are packed one after another into a single row
    (then `pack_index` is set); losses need not distinguish the two. `valid` is false after the end of an episode, and
    `episode_id` says which of the `num_episodes` episodes a timestep belongs to.

    In on-policy training a row is a window of a stream of episodes: `valid` is false where one was truncated, `groups` is
    the partition that each episode was played with, and `start` is the utility's state before it, `[views, batch, ...]`.
    """

    observations: Observation
    episode_id: Int[Array, "*batch timesteps"]
    actions: Int[Array, "*batch time agents"]
    rewards: Float[Array, "*batch time"]
    terminated: Bool[Array, "*batch time"]
    valid: Bool[Array, "*batch time"]
    num_episodes: int = eqx.field(static=True)
    pack_index: PackIndex | None = None
    groups: Int[Array, "*batch timesteps entities"] | None = None
    start: PyTree = None

    @property
    def valid_agents(self) -> Bool[Array, "*batch time agents"]:
        """Whether each agent was present at each valid timestep."""
        return self.valid[..., None] & self.observations.agent_present[..., :-1, :]


@runtime_checkable
class Env(Protocol):
    """An environment of pure functions, written for one episode; the framework adds batch axes with `jax.vmap`.

    `tasks` is a pytree with one row per task. An episode is truncated after `spec.horizon` steps, which learning treats as an
    unfinished episode; an environment whose time limit is a real end returns `terminated` there.
    Optional attributes: `feature_names` and `action_names` (tuples of strings), `metric_names` (the names of
    `Outcome.metrics`), `scene(state)` (for replay pages).
    """

    @property
    def spec(self) -> Spec: ...
    @property
    def tasks(self) -> PyTree: ...
    @property
    def task_names(self) -> tuple[str, ...]: ...

    def reset(self, task: PyTree, key: PRNGKeyArray) -> State: ...
    def step(self, state: State, actions: Int[Array, " agents"], key: PRNGKeyArray) -> tuple[State, Outcome]: ...
    def observe(self, state: State) -> Observation: ...


@runtime_checkable
class Utility(Protocol):
    """The network that every agent runs: Q-values of its own actions, given a view of the entities.

    `encode` sees all timesteps at once, through one or several views at a time: every array it returns has the views as its
    first axis. `q_values` scores the actions; the framework sets the Q-values of absent agents to zero.
    """

    def encode(self, obs: Observation, views: Bool[Array, "views *batch agents entities"]) -> PyTree: ...
    def q_values(self, features: PyTree, obs: Observation) -> Float[Array, "views *batch agents actions"]: ...


@runtime_checkable
class RecurrentUtility(Utility, Protocol):
    """A utility with memory: `recur` advances it by one timestep, and returns the new state and the features to score.

    The framework resets the state at the first timestep of every episode, keeps a state per view, and handles packed batches.
    A utility with a fused kernel may also define the two functions of `FusedUtility`.
    """

    def initial_state(self, *batch: int) -> PyTree: ...
    def recur(self, state: PyTree, inputs: PyTree) -> tuple[PyTree, PyTree]: ...


@runtime_checkable
class FusedUtility(RecurrentUtility, Protocol):
    """A utility with memory that also processes all timesteps of `[views, time, rows, agents, ...]` at once, from `start`."""

    def project_inputs(self, inputs: PyTree) -> PyTree: ...
    def recur_all(self, inputs: PyTree, is_first: Bool[Array, "1 time ..."], start: PyTree = None) -> PyTree: ...


@runtime_checkable
class Mixer(Protocol):
    """The mixing network: one joint value from the utilities of the chosen actions, monotonic in each of them.

    A factor is a view together with the utilities computed through it. The joint value of QMIX has one factor (the full view);
    REFIL's imagined value has two (within the agent's own group, across groups). `context` returns what does not depend on the
    utilities: arrays with a leading factor axis, and arrays that all factors share. The framework passes to `value` those
    factors that belong to one joint value.
    """

    def context(self, obs: Observation, views: Bool[Array, "factors *batch agents entities"]) -> tuple[PyTree, PyTree]: ...
    def value(
        self, per_factor: PyTree, shared: PyTree, utilities: Float[Array, "factors *batch agents"]
    ) -> Float[Array, "*batch"]: ...


class Model(eqx.Module):
    """A utility and a mixing network; every leaf is a floating-point array, other fields are `eqx.field(static=True)`."""

    utility: Utility
    mixer: Mixer


@dataclass(frozen=True)
class Method:
    """A learning method: a fresh model, and the loss of a batch of episodes with metrics to log.

    The model is any pytree with a `utility`. `loss(model, target_model, batch, key)` returns the loss and the metrics.
    `optimizer(config)` replaces the algorithm's own optimizer; it sees parameters as a pytree shaped like the model.
    `target_update(target, model, is_due)` replaces the periodic copy of the target network.
    `shareable` says that loss and metrics are sums of losses from `refil.learning.td`, so that devices can share a batch.
    The method's file may also export `ALGORITHM`, the folder in `refil.training` whose loop trains it ("replay" by default).
    """

    init: Callable[[PRNGKeyArray], Any]
    loss: Callable[[Any, Any, EpisodeBatch, PRNGKeyArray], tuple[Float[Array, ""], dict[str, Float[Array, ""]]]]
    optimizer: Callable[[Any], optax.GradientTransformation] | None = None
    target_update: Callable[[Any, Any, Bool[Array, ""]], Any] | None = None
    shareable: bool = False


@dataclass(frozen=True)
class MethodInfo:
    """A method's row in the paper's Table 1: its name, the network of the agents, and how utilities are combined."""

    label: str
    model: str
    base: str


@dataclass(frozen=True)
class EnvDefaults:
    """Defaults that an environment chooses for options marked `FromEnv`; None keeps the option's own default."""

    steps: int | None = None
    eval_every: int | None = None
    eval_episodes: int | None = None
    buffer: int | None = None
    epsilon_steps: int | None = None
    pack: tuple[float, ...] | None = None
    size: int | None = None
    recurrent: bool | None = None
    last_action: bool | None = None
    mixer: str | None = None
    own_embedding: bool | None = None
