"""Figure 5, left: a battle of 3-8csz in which Zealots fight Zealots apart from the rest, at the highlighted timestep.

A team of REFIL after 10M steps plays; the figure has the battle that it wins with the clearest such sub-group.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from refil.errors import RefilError
from refil.experiments import figure_4, with_more_seeds
from refil.storage import serialization
from refil.storage.run_dir import RunDir
from refil.training.config import RunConfig

if TYPE_CHECKING:
    from refil.scene import Scene
    from refil.viewer.replay import Replay

ENV, TASK, EPISODES, SEED = "3-8csz", "3s3z2c", 24, 0
LABEL = figure_4.label("refil", ENV)
BEFORE, AFTER = 6, 6  # timesteps between the highlighted frame and its neighbors
NEAR = 2.5  # distance between a unit and its target up to which they fight
MARGIN, HIGHLIGHT = 1.5, "#fde047"


class Frame(NamedTuple):
    """The units of one timestep, allies first."""

    zealot: np.ndarray
    alive: np.ndarray
    target: np.ndarray
    x: np.ndarray
    y: np.ndarray


def runs() -> dict[str, RunConfig]:
    """Return the run whose team fights: REFIL with the paper's 10M steps."""
    return {LABEL: figure_4.run("refil", ENV).with_options(steps=10_000_000, seeds=1)}


def report(done: dict[str, RunDir], out: Path) -> Path:
    """Play battles and draw the start of one, its highlighted timestep, and the timesteps around that."""
    trained = [run for run in with_more_seeds(done[LABEL]) if run.seeds]
    if not trained:
        raise RefilError(f"{done[LABEL].path} and its further seeds have no model to play with")
    replays, frames, num_allies = _play(trained[0])
    episode, time = best(frames, [replay.won for replay in replays], num_allies)
    group = zealot_fight(frames[episode][time], num_allies)
    path = out / "figure_5_battle.png"
    serialization.save_figure(_draw(replays[episode], time, frames[episode][time], group), path)
    return path


def zealot_fight(frame: Frame, num_allies: int) -> np.ndarray:
    """Return the slots of Zealots that attack, or are attacked by, Zealots of the other team close to them."""
    slots = np.arange(len(frame.x))
    target = np.clip(frame.target, 0, None)
    distance = np.hypot(frame.x - frame.x[target], frame.y - frame.y[target])
    others = (slots < num_allies) != (target < num_allies)
    fights = (frame.target >= 0) & frame.zealot & frame.zealot[target] & others & frame.alive & frame.alive[target]
    fights &= distance <= NEAR
    return np.union1d(slots[fights], target[fights])


def clearness(frame: Frame, num_allies: int) -> float:
    """Return how large such a sub-group is (its smaller side) plus a tenth of its distance from all other units."""
    group = zealot_fight(frame, num_allies)
    others = np.setdiff1d(np.flatnonzero(frame.alive), group)
    smaller = min((group < num_allies).sum(), (group >= num_allies).sum())
    if not smaller or not len(others):
        return 0.0
    apart = np.hypot(frame.x[group][:, None] - frame.x[others], frame.y[group][:, None] - frame.y[others])
    return float(smaller + apart.min() / 10)


def best(frames: list[list[Frame]], won: list[bool], num_allies: int) -> tuple[int, int]:
    """Return the battle and the timestep with the clearest sub-group among the battles that were won."""
    clear = {
        (episode, time): clearness(frame, num_allies)
        for episode, battle in enumerate(frames)
        for time, frame in enumerate(battle)
        if won[episode]
    }
    if not clear or max(clear.values()) == 0:
        raise RefilError(f"no battle of {TASK} was won with Zealots fighting Zealots")
    return max(clear, key=lambda key: clear[key])


def _play(run: RunDir) -> "tuple[list[Replay], list[list[Frame]], int]":
    import jax
    import jax.numpy as jnp

    from refil import rollout
    from refil.nn.utilities import team_policy, team_state
    from refil.training import devices
    from refil.viewer.replay import replays

    setup, seed = run.config.build(), run.seeds[0]
    env: Any = setup.env
    model = run.load_model(seed, jax.eval_shape(setup.method.init, jax.random.key(0)))
    models = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], model)
    tasks = jnp.full((1, EPISODES), env.task_names.index(TASK))

    def play(models: Any, keys: Any) -> Any:
        policy, start = team_policy(models, jnp.zeros(1)), team_state(models, EPISODES, env.spec.agents)
        return rollout.rollout(env, policy, start, tasks, keys)

    played = devices.jit(play)(models, jax.random.split(jax.random.key(SEED), 1))
    played = jax.tree.map(lambda leaf: np.asarray(leaf[0]), played)
    zealot = [unit.letter for unit in env.game.table.units].index("z")
    found = replays(env, played)
    frames = [[_frame(played.states, (n, time), zealot) for time in range(replay.length)] for n, replay in enumerate(found)]
    return found, frames, env.game.num_allies


def _frame(states: Any, at: tuple[int, int], zealot: int) -> Frame:
    return Frame(states.unit_type[at] == zealot, states.health[at] > 0, states.target[at], states.x[at], states.y[at])


def _draw(replay: "Replay", time: int, frame: Frame, group: np.ndarray) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle

    from refil.viewer import draw

    times = (0, max(time - BEFORE, 0), time, min(time + AFTER, replay.length))
    figure = Figure(figsize=(13.2, 3.7), dpi=150, layout="constrained")
    panels = figure.subplots(1, len(times))
    for axes, each in zip(panels, times, strict=True):
        draw.draw_scene(axes, replay.scenes[each])
        axes.set(title=f"t = {each}", **_visible([replay.scenes[each] for each in times]))
    x, y = frame.x[group], frame.y[group]
    radius = np.hypot(x - x.mean(), y - y.mean()).max() + 0.8
    panels[2].add_patch(Circle((x.mean(), y.mean()), radius, fill=False, edgecolor=HIGHLIGHT, linestyle="--", linewidth=2))
    figure.suptitle(f"{TASK}, trained team in blue: won after {replay.length} steps; Zealots against Zealots at t = {time}")
    return figure


def _visible(scenes: "list[Scene]") -> dict[str, tuple[float, float]]:
    """Return the limits of both axes of a square around all units of some scenes."""
    x, y = ([getattr(body, axis) for scene in scenes for body in scene.circles] for axis in "xy")
    half = max(max(x) - min(x), max(y) - min(y)) / 2 + MARGIN
    middle = {"xlim": (max(x) + min(x)) / 2, "ylim": (max(y) + min(y)) / 2}
    return {name: (center - half, center + half) for name, center in middle.items()}
