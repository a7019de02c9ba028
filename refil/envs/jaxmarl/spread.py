"""simple_spread, a multi-agent particle environment of JaxMARL: agents cover landmarks without colliding."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from refil.scene import Circle, Scene
from refil.settings import PositiveInt, UnitFloat
from refil.types import Env, EnvDefaults, Observation, Outcome, Spec

COVERED = 0.1  # distance at which the original benchmark counts a landmark as occupied
ACTIONS = ("stay", "left", "right", "down", "up")
DEFAULTS = EnvDefaults(
    steps=1_000_000,
    eval_every=50_000,
    eval_episodes=80,
    buffer=5000,
    epsilon_steps=100_000,
    pack=(),  # all episodes have the same length
    size=64,
    recurrent=False,
    last_action=False,
    mixer="attention",
)


@dataclass(frozen=True)
class Config:
    """Options of simple_spread; the defaults are JaxMARL's."""

    agents: PositiveInt = 3  # Number of agents
    landmarks: PositiveInt = 3  # Number of landmarks
    local_ratio: UnitFloat = 0.5  # Weight of collisions in the reward; the rest is that of distances to landmarks
    horizon: PositiveInt = 25  # Steps after which an episode is truncated


@dataclass(frozen=True, eq=False)
class Spread:
    """Agents and landmarks as entities, seen by everyone; the reward is the mean of the agents' rewards."""

    game: Any  # jaxmarl's SimpleSpreadMPE
    config: Config
    tasks: Any = ()
    task_names: tuple[str, ...] = ("simple_spread",)

    @property
    def spec(self) -> Spec:
        """The sizes of the environment."""
        agents, entities = self.config.agents, self.config.agents + self.config.landmarks
        return Spec(agents, entities, len(self.feature_names), len(ACTIONS), self.config.horizon)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the entity features."""
        return (*(f"agent {agent}" for agent in range(self.config.agents)), "is landmark", "x", "y", "speed x", "speed y")

    @property
    def action_names(self) -> tuple[str, ...]:
        """The names of the actions."""
        return ACTIONS

    def reset(self, task: tuple[()], key: PRNGKeyArray) -> Any:
        """Place agents and landmarks."""
        return self.game.reset(key)[1]

    def step(self, state: Any, actions: Int[Array, " agents"], key: PRNGKeyArray) -> tuple[Any, Outcome]:
        """Take one step; the team wins when every landmark is covered."""
        by_name = {agent: actions[number] for number, agent in enumerate(self.game.agents)}
        _, after, rewards, _, _ = self.game.step_env(key, state, by_name)
        agents, landmarks = jnp.split(after.p_pos, [self.config.agents])
        distance = jnp.linalg.norm(agents[:, None] - landmarks, axis=-1).min(axis=0)
        reward = jnp.stack([rewards[agent] for agent in self.game.agents]).mean()
        return after, Outcome(reward, jnp.zeros((), bool), (distance < COVERED).all())

    def observe(self, state: Any) -> Observation:
        """Return positions and speeds."""
        agents, entities = self.config.agents, self.spec.entities
        return Observation(
            entities=self._features(state),
            present=jnp.ones((entities,), bool),
            visible=jnp.ones((agents, entities), bool),
            available=jnp.ones((agents, len(ACTIONS)), bool),
        )

    def scene(self, state: Any) -> Scene:
        """Draw agents and landmarks."""
        positions, radii = np.asarray(state.p_pos) + 2.0, np.asarray(self.game.rad)
        circles = []
        for number, ((x, y), radius) in enumerate(zip(positions.tolist(), radii.tolist(), strict=True)):
            is_agent = number < self.config.agents
            name = f"agent {number}" if is_agent else f"landmark {number - self.config.agents}"
            circles.append(Circle(name, x, y, radius, "#3b82f6" if is_agent else "#475569", str(number) if is_agent else ""))
        return Scene(4, 4, circles)

    def _features(self, state: Any) -> Float[Array, "entities features"]:
        number = jnp.arange(self.spec.entities)[:, None]
        blocks = (
            number == jnp.arange(self.config.agents),
            number >= self.config.agents,
            state.p_pos,
            state.p_vel,
        )
        return jnp.concatenate([block.astype(jnp.float32) for block in blocks], axis=-1)


def build(config: Config) -> Env:
    """Return the environment with these options."""
    from jaxmarl.environments.mpe.simple_spread import SimpleSpreadMPE  # pyright: ignore[reportMissingImports]

    game = SimpleSpreadMPE(num_agents=config.agents, num_landmarks=config.landmarks, local_ratio=config.local_ratio)
    return Spread(game, config)
