"""Figure 3a: the group matching game, drawn at the start, on the way and at the end of an episode; it needs no runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from refil.storage import serialization
from refil.storage.run_dir import RunDir
from refil.training.config import RunConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from refil.scene import Scene

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
    import numpy as np

    from refil.envs import group_matching

    env: Any = group_matching.build(group_matching.Config(random_actions=0.0))
    reset_key, step_key = jax.random.split(jax.random.key(SEED))
    state = env.reset((), reset_key)
    group, cells, drawn = np.asarray(state.group), env.config.cells, [env.scene(state)]
    goals = [np.bincount(np.asarray(state.cell)[group == own], minlength=cells).argmax() for own in group]
    for time in range(env.spec.horizon):
        ahead = (np.array(goals) - np.asarray(state.cell)) % cells
        moves = np.where(ahead == 0, 1, np.where(ahead <= cells // 2, 2, 0))
        state, outcome = env.step(state, jax.numpy.asarray(moves, jax.numpy.int32), jax.random.fold_in(step_key, time))
        drawn.append(env.scene(state))
        if bool(outcome.won):
            break
    return drawn
