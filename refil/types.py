"""The words the package is written in: one instant, one episode, and the parts that act and learn.

True means yes in every boolean here: `present`, `visible`, `available`, `valid`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, UInt32

State = Any  # whatever an environment needs to go on; a pytree of arrays


@dataclass(frozen=True)
class Spec:
    """Sizes that never change within an environment; `horizon` is the longest an episode can be.

    The last `aimed` of the actions are aimed at an entity each (`Observation.targeting_action` says at which).
    """

    agents: int
    entities: int
    features: int
    actions: int
    horizon: int
    aimed: int = 0


class Turns(eqx.Module):
    """When instants that lie on one line have their turn in rows of time: `instant * rows + row`.

    Where nothing lies on the line, the number is `rows * instants`.
    """

    turn: Int[Array, "*batch"]
    rows: int = eqx.field(static=True)
    instants: int = eqx.field(static=True)


class Observation(eqx.Module):
    """One instant as all agents see it; agents are the first rows of `entities`.

    `present` is false for padding only; a dead unit is present and not `alive` (paper's "inactive").
    `group` is the ground truth that only the oracle methods read.
    `targeting_action` is the action that is aimed at an entity, or -1; where no action is aimed at anything it is left out.
    Environments leave `last_action` out: whoever plays or recalls the episode fills it in (-1 before the first action).
    Recalled instants may lie on one line, and then have `turns`; else they lie in rows of time.
    """

    entities: Float[Array, "*batch entities features"]
    present: Bool[Array, "*batch entities"]
    alive: Bool[Array, "*batch entities"]
    visible: Bool[Array, "*batch agents entities"]
    available: Bool[Array, "*batch agents actions"]
    group: Int[Array, "*batch entities"]
    targeting_action: Int[Array, "*batch entities"] | None = None
    last_action: Int[Array, "*batch agents"] | None = None
    turns: Turns | None = None

    @property
    def agent_present(self) -> Bool[Array, "*batch agents"]:
        """Which agent slots hold an agent."""
        return self.present[..., : self.visible.shape[-2]]

    @property
    def is_first(self) -> Bool[Array, "*batch"]:
        """Whether this is the first instant of its episode: nobody has acted yet."""
        assert self.last_action is not None
        return self.last_action[..., 0] < 0

    @property
    def full_view(self) -> Bool[Array, "*batch agents entities"]:
        """The view without partial observability: every present agent with every present entity."""
        return self.agent_present[..., :, None] & self.present[..., None, :]


class Outcome(eqx.Module):
    """What one joint action led to; `terminated` means that nothing follows, `won` that the task is solved."""

    reward: Float[Array, "*batch"]
    terminated: Bool[Array, "*batch"]
    won: Bool[Array, "*batch"]


class Trajectory(eqx.Module):
    """An episode as replay keeps it: states, from which everything seen can be observed again.

    `key` is what all its chance came from: with the first state and the actions it is enough to play the same episode again.
    """

    states: PyTree
    actions: Int[Array, "*batch time agents"]
    rewards: Float[Array, "*batch time"]
    terminated: Bool[Array, "*batch time"]
    valid: Bool[Array, "*batch time"]
    won: Bool[Array, "*batch"]
    task: Int[Array, "*batch"]
    key: UInt32[Array, "*batch words"]


class Episode(eqx.Module):
    """Episodes as methods learn from them. Row t: seen at t, done there, and what that led to; one more instant is seen.

    Each has a row of time, or all lie one after another on a single one: `number` says which of all `count` an instant is
    from, and the last instant of each is not `valid`.
    """

    observations: Observation
    number: Int[Array, "*batch instants"]
    actions: Int[Array, "*batch time agents"]
    rewards: Float[Array, "*batch time"]
    terminated: Bool[Array, "*batch time"]
    valid: Bool[Array, "*batch time"]
    count: int = eqx.field(static=True)


@runtime_checkable
class Env(Protocol):
    """A world of pure functions. `tasks` is a pytree with one row per task; an episode is cut off after `spec.horizon` steps.

    A cut episode goes on as far as learning is concerned; an environment whose time limit is an end says `terminated` there.
    """

    spec: Spec
    tasks: PyTree
    task_names: tuple[str, ...]

    def reset(self, task: PyTree, key: PRNGKeyArray) -> State: ...
    def step(self, state: State, actions: Int[Array, " agents"], key: PRNGKeyArray) -> tuple[State, Outcome]: ...
    def observe(self, state: State) -> Observation: ...


Wait = Callable[[PyTree], PyTree]  # the same numbers, which are there once a network has begun to go through time
Beside = Callable[[Wait], PyTree]  # makes something of such numbers meanwhile


def at_once(numbers: PyTree) -> PyTree:
    """Nothing has to wait."""
    return numbers


def nothing(wait: Wait) -> None:
    """Is made beside."""


@runtime_checkable
class Utility(Protocol):
    """The network that every agent of a team runs: what each of its actions is worth, given a view.

    `start` gives an empty memory for batches of agents, the last axis of the batch. `step` is for playing, one instant at a
    time; `unroll` for learning, all instants and several views at once, each view with a memory of its own, which is empty
    again wherever `obs.is_first`. Utilities are float32, whatever networks work in, and zero for agents that are not there.
    `unroll` also gives what its caller wants made beside, `beside(at_once)` or, where going through time takes long but few of
    a GPU's processors, what `beside` makes of numbers that wait until that has begun. The key is for networks that leave
    something to chance.
    """

    def start(self, *batch: int) -> Float[Array, "..."]: ...
    def step(
        self, memory: Float[Array, "..."], obs: Observation, key: PRNGKeyArray
    ) -> tuple[Float[Array, "..."], Float[Array, "*batch agents actions"]]: ...
    def unroll(
        self,
        obs: Observation,
        views: Bool[Array, "views batch time agents entities"],
        key: PRNGKeyArray,
        beside: Beside = nothing,
    ) -> tuple[Float[Array, "views batch time agents actions"], PyTree]: ...


@runtime_checkable
class Mixer(Protocol):
    """Joint values that never fall when a utility rises.

    Each is made of some of the factors, a slice of them, and a factor is a view with the utilities gained through it: the plain
    value has one (everything), REFIL's imagined value two (within the group, across groups). All of them are asked for at once,
    because most of the work is the same for all. What does not take utilities is read from the instants before those are known.
    """

    def read(self, obs: Observation, views: Bool[Array, "factors *batch agents entities"]) -> PyTree: ...
    def values(
        self, read: PyTree, utilities: Float[Array, "factors *batch agents"], made_of: Sequence[slice]
    ) -> Float[Array, "values ..."]: ...


class Model(eqx.Module):
    """All that is learned: arrays of floating-point numbers; fields that are not are `eqx.field(static=True)`."""

    utility: Utility
    mixer: Mixer


@dataclass(frozen=True)
class Method:
    """A learning method: how its model begins, and the loss of a batch of episodes (with numbers worth watching)."""

    init: Callable[[PRNGKeyArray], Model]
    loss: Callable[[Model, Model, Episode, PRNGKeyArray], tuple[Float[Array, ""], dict[str, Float[Array, ""]]]]


@dataclass(frozen=True)
class MethodInfo:
    """A method's row in the paper's Table 1: its name there, what agents see with, and what joins their utilities."""

    label: str
    model: str
    base: str


@dataclass(frozen=True)
class Defaults:
    """Settings that the paper chose per environment, and `fold`, which is ours: the defaults of options with these names.

    These are StarCraft's. An environment with others exports `DEFAULTS`.
    """

    steps: int = 10_000_000
    buffer: int = 5000
    epsilon_steps: int = 500_000
    eval_every: int = 50_000
    eval_episodes: int = 160
    recurrent: bool = True
    mixer: Literal["attention", "linear"] = "attention"
    size: int = 128
    last_action: bool = True
    # Battles last 45 to 75 of 150 steps on average. What further sizes save in 10 million steps, they take to compile.
    fold: tuple[float, ...] = (0.55,)


def without_dead(obs: Observation) -> Observation:
    """The same instant with the dead taken out altogether, as if their slots were padding."""
    agents = obs.visible.shape[-2]
    both = obs.alive[..., :agents, None] & obs.alive[..., None, :]
    return replace(obs, present=obs.present & obs.alive, visible=obs.visible & both)


def entity_inputs(obs: Observation, actions: int) -> Float[Array, "*batch entities width"]:
    """What networks read of each entity: its features, and its last action if `actions` (their number) is not 0."""
    if actions == 0:
        return obs.entities
    agents, others = obs.visible.shape[-2], obs.entities.shape[-2] - obs.visible.shape[-2]
    assert obs.last_action is not None
    done = jnp.arange(actions) == obs.last_action[..., :agents, None]
    padding = [(0, 0)] * (done.ndim - 2) + [(0, others), (0, 0)]
    return jnp.concatenate([obs.entities, jnp.pad(done, padding).astype(obs.entities.dtype)], axis=-1)
