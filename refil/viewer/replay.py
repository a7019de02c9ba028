"""Replays: recorded episodes as clips of scenes, which a notebook shows as a page."""

import html
from dataclasses import dataclass
from typing import Any

import jax

from refil.scene import Scene
from refil.types import Env, Trajectory
from refil.viewer import export
from refil.viewer.details import Details, Inspection, details

STEPS_PER_SECOND = 4.0


@dataclass(frozen=True)
class Replay:
    """One episode: its task, its result, and a scene per timestep."""

    task: str
    won: bool
    episode_return: float
    scenes: list[Scene]
    rewards: tuple[float, ...] = ()
    details: Details | None = None

    @property
    def length(self) -> int:
        """The number of steps."""
        return len(self.scenes) - 1

    def clip(self, number: int = 1) -> export.Clip:
        """Return the clip for a replay page."""
        result = "won" if self.won else "not won"
        title = f"{number}: {self.task}, {result} after {self.length} steps"
        return export.Clip(title, self.scenes, STEPS_PER_SECOND, self.rewards, smooth=True, details=self.details)

    def _repr_html_(self) -> str:
        page = html.escape(export.page([self.clip()]), quote=True)
        return f'<iframe srcdoc="{page}" width="100%" height="720" style="border:0"></iframe>'


def replays(env: Env, trajectories: Trajectory, model: Any = None, inspection: Inspection | None = None) -> list[Replay]:
    """Turn recorded episodes, with one leading axis, into replays; with details if the model that played them is given."""
    inspected = None if model is None else details(env, model, trajectories, inspection)
    scene, found = getattr(env, "scene", None), []
    assert scene is not None
    for number, valid in enumerate(trajectories.valid):
        length = int(valid.sum())
        states = [jax.tree.map(lambda leaf, t=time: leaf[number, t], trajectories.states) for time in range(length + 1)]  # noqa: B023
        found.append(
            Replay(
                task=env.task_names[int(trajectories.task[number])],
                won=bool(trajectories.won[number]),
                episode_return=float(trajectories.rewards[number][valid].sum()),
                scenes=[scene(state) for state in states],
                rewards=tuple(trajectories.rewards[number][valid].tolist()),
                details=None if inspected is None else inspected[number],
            )
        )
    return found
