"""Figure 3a: the group matching game, drawn at the start, on the way and at the end of an episode; it needs no runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from refil.storage import serialization
from refil.storage.run_dir import RunDir
from refil.training.config import RunConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from refil.scene import Scene
    from refil.types import Observation

SEED = 0  # random seed of the episode


def runs() -> dict[str, RunConfig]:
    """Return no runs."""
    return {}


def report(done: dict[str, RunDir], out: Path) -> Path:
    """Draw three timesteps of an episode in which every agent walks to the cell where most of its group is."""
    path = out / "figure_3a.png"
    serialization.save_figure(draw(scenes()), path)
    return path


def draw(drawn: "list[Scene]") -> "Figure":
    """Draw the first scene, the middle one and the last one."""
    from matplotlib.figure import Figure

    from refil.viewer import draw

    chosen = (0, (len(drawn) - 1) // 2, len(drawn) - 1)
    figure = Figure(figsize=(9.6, 3.5), dpi=150, layout="constrained")
    for axes, step in zip(figure.subplots(1, len(chosen)), chosen, strict=True):
        draw.draw_scene(axes, drawn[step])
        axes.set_title(f"step {step}")
    return figure


def scenes() -> "list[Scene]":
    """Play the episode, without random actions, and return its scenes from the start to the last match."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from refil import rollout
    from refil.envs import group_matching

    env: Any = group_matching.build(group_matching.Config(random_actions=0.0))
    reset_key, step_key = jax.random.split(jax.random.key(SEED))
    first, cells = env.reset((), reset_key), env.config.cells
    own_group = np.asarray(first.group[:, None] == first.group)
    goals = jnp.array([np.bincount(first.cell[own], minlength=cells).argmax() for own in own_group])

    def walk(goals: Any, obs: "Observation", _: Any) -> Any:
        ahead = (goals - obs.entities[..., :cells].argmax(axis=-1)) % cells
        return goals, jnp.where(ahead == 0, 1, jnp.where(ahead <= cells // 2, 2, 0))

    start = jax.tree.map(lambda leaf: leaf[None, None], first)
    played = rollout.run_episodes(env, walk, goals, start, jnp.zeros((1, 1), jnp.int32), step_key[None, None])
    states = [jax.tree.map(lambda leaf, time=time: leaf[0, 0, time], played.states) for time in range(env.spec.horizon + 1)]
    return [env.scene(state) for state in states[: int(played.valid.sum()) + 1]]
