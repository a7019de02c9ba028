"""Export of scenes: a self-contained page, an animated GIF, or one picture."""

import io
import json
import math
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from refil.scene import Number, Scene
from refil.storage import serialization

DIGITS = 3  # decimals of the coordinates in a page


@dataclass(frozen=True)
class Clip:
    """An episode: its title, its scenes in order, and how many of them are shown per second at normal speed."""

    title: str
    scenes: list[Scene]
    per_second: Number


def check_paths(html: Path | None, gif: Path | None, png: Path | None) -> None:
    """Raise if a path cannot be written, before anything is played."""
    for path, suffix in ((html, "html"), (gif, "gif")):
        if path is not None:
            serialization.check_suffix(path, [suffix])
            serialization.check_folder(path)
    if png is not None:
        serialization.check_figure_path(png)


def write(clips: list[Clip], html: Path | None = None, gif: Path | None = None, png: Path | None = None) -> list[str]:
    """Write a page of all clips, an animation of the first one, and a picture of its middle, where a path is given.

    Return a line for each file.
    """
    written = []
    if html is not None:
        serialization.write_atomic(html, page(clips).encode())
        written.append(f"Page: {html}")
    if gif is not None:
        with serialization.require_matplotlib():
            animation(clips[0], gif)
        written.append(f"Animation: {gif}")
    if png is not None:
        with serialization.require_matplotlib():
            picture(clips[0].scenes[len(clips[0].scenes) // 2], png)
        written.append(f"Picture: {png}")
    return written


def page(clips: list[Clip]) -> str:
    """Return the HTML of a page that plays the clips."""
    template = resources.files("refil.viewer").joinpath("page.html").read_text(encoding="utf-8")
    content = json.dumps([_encode(clip) for clip in clips], separators=(",", ":"), allow_nan=False)
    for character in "<>&":  # <!--<script> in a title would hide the end of the script tag
        content = content.replace(character, f"\\u{ord(character):04x}")
    return template.replace("/*CLIPS*/", content)


def _encode(clip: Clip) -> dict[str, Any]:
    first = clip.scenes[0]
    frames = [
        {
            "note": scene.note,
            "circles": [
                [
                    c.name,
                    *_rounded(c.x, c.y, c.radius),
                    c.color,
                    c.label,
                    *_rounded(c.facing),
                    [[*_rounded(s), k] for s, k in c.bars],
                ]
                for c in scene.circles
            ],
            "lines": [[*_rounded(line.x, line.y, line.to_x, line.to_y, line.width), line.color] for line in scene.lines],
        }
        for scene in clip.scenes
    ]
    rate, width, height = _rounded(clip.per_second, first.width, first.height)
    return {"title": clip.title, "rate": rate, "width": width, "height": height, "frames": frames}


def _rounded(*values: Number | None) -> list[Number | None]:
    """Round numbers; those that are not finite, which JSON lacks, become None and are not drawn."""
    return [None if value is None or not math.isfinite(value) else round(value, DIGITS) for value in values]


def picture(scene: Scene, path: Path) -> None:
    """Write one scene as a picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 6))
    draw(figure.add_axes((0, 0, 1, 1)), scene)
    serialization.save_figure(figure, path)


def animation(clip: Clip, path: Path) -> None:
    """Write all scenes of a clip as an animated GIF."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    figure = Figure(figsize=(4, 4), dpi=100)
    axes, canvas, images = figure.add_axes((0, 0, 1, 1)), FigureCanvasAgg(figure), []
    for scene in clip.scenes[:: max(1, round(clip.per_second / 8))]:
        axes.clear()
        draw(axes, scene)
        canvas.draw()
        images.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("P", palette=Image.Palette.ADAPTIVE))
    content = io.BytesIO()
    images[0].save(content, "gif", save_all=True, append_images=images[1:], duration=125, loop=0)
    serialization.write_atomic(path, content.getvalue())


def draw(axes: Any, scene: Scene) -> None:
    """Draw a scene into the axes of a figure."""
    from matplotlib.patches import Circle, Rectangle

    axes.set(xlim=(0, scene.width), ylim=(0, scene.height), xticks=[], yticks=[], facecolor="#0f172a", aspect="equal")
    scale = 300 / scene.width
    for line in scene.lines:  # matplotlib leaves out lines that are not finite
        axes.plot([line.x, line.to_x], [line.y, line.to_y], color=line.color, linewidth=line.width * scale)
    placed = [body for body in scene.circles if all(map(math.isfinite, (body.x, body.y, body.radius)))]
    for body in sorted(placed, key=lambda body: -body.radius):
        axes.add_patch(Circle((body.x, body.y), body.radius, color=body.color))
        axes.text(body.x, body.y, body.label, color="white", ha="center", va="center", fontsize=7)
        for number, (share, color) in enumerate(body.bars):
            low = body.y + body.radius + 0.12 + 0.2 * number
            axes.add_patch(Rectangle((body.x - body.radius, low), 2 * body.radius * share, 0.14, color=color))
    axes.text(0.02, 0.97, scene.note, color="white", transform=axes.transAxes, fontsize=8, va="top")
