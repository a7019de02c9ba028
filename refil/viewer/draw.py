"""Drawings of scenes with matplotlib: pictures, animated GIFs, videos, and the frames of a video as pictures."""

import contextlib
import io
import math
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from refil.errors import RefilError
from refil.scene import SHAPES, Scene
from refil.storage import serialization
from refil.viewer.encode import Clip

GIF_PER_SECOND, VIDEO_PER_SECOND = 8, 16
GIF_SIZE, VIDEO_SIZE = 4.0, 7.2  # inches of 100 pixels


def picture(scene: Scene, path: Path) -> None:
    """Write one scene as a picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 6))
    draw_scene(figure.add_axes((0, 0, 1, 1)), scene)
    serialization.save_figure(figure, path)


def animation(clip: Clip, path: Path) -> None:
    """Write a clip as an animated GIF."""
    from PIL import Image

    scenes = clip.scenes[:: max(1, round(clip.per_second / GIF_PER_SECOND))]
    images = [Image.fromarray(pixels).convert("P", palette=Image.Palette.ADAPTIVE) for pixels in _pixels(scenes, GIF_SIZE)]
    content = io.BytesIO()
    images[0].save(content, "gif", save_all=True, append_images=images[1:], duration=1000 // GIF_PER_SECOND, loop=0)
    serialization.write_atomic(path, content.getvalue())


def frames(clip: Clip, folder: Path) -> int:
    """Write every scene of a clip as a PNG into a folder, and return how many there are."""
    from PIL import Image

    serialization.make_folder(folder)
    for number, pixels in enumerate(_pixels(clip.scenes, VIDEO_SIZE)):
        content = io.BytesIO()
        Image.fromarray(pixels).save(content, "png")
        serialization.write_atomic(folder / f"frame_{number:04d}.png", content.getvalue())
    return len(clip.scenes)


def check_video() -> None:
    """Raise if there is no ffmpeg to write videos with."""
    if shutil.which("ffmpeg") is None:
        raise RefilError("videos need the program ffmpeg, which is not installed; an animated GIF does not")


def video(clip: Clip, path: Path) -> None:
    """Write a clip as an MP4 video; ffmpeg writes it next to the path, which is replaced when it is complete."""
    size = round(100 * VIDEO_SIZE)
    part = path.with_name(f".{path.name}.part.mp4")
    command = ["ffmpeg", "-loglevel", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{size}x{size}"]
    command += ["-r", str(clip.per_second), "-i", "-", "-pix_fmt", "yuv420p", "-r", str(VIDEO_PER_SECOND), str(part)]
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as ffmpeg:
            assert ffmpeg.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # ffmpeg has stopped, and says why
                for image in _pixels(clip.scenes, VIDEO_SIZE):
                    ffmpeg.stdin.write(image.tobytes())
            reason = ffmpeg.communicate()[1].decode(errors="replace").strip().splitlines()
        if ffmpeg.returncode:
            raise RefilError(f"ffmpeg cannot write {path}: {reason[-1] if reason else ffmpeg.returncode}")
        with serialization.wrap_os_errors(path):
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _pixels(scenes: list[Scene], inches: float) -> Iterator[np.ndarray]:
    """Draw scenes one after another as arrays of red, green and blue."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(inches, inches), dpi=100)
    axes, canvas = figure.add_axes((0, 0, 1, 1)), FigureCanvasAgg(figure)
    for scene in scenes:
        axes.clear()
        draw_scene(axes, scene)
        canvas.draw()
        yield np.asarray(canvas.buffer_rgba())[..., :3].copy()


def draw_scene(axes: Any, scene: Scene) -> None:
    """Draw a scene into the axes of a figure."""
    from matplotlib.patches import Circle, Polygon, Rectangle

    axes.set(xlim=(0, scene.width), ylim=(0, scene.height), xticks=[], yticks=[], facecolor="#0f172a", aspect="equal")
    scale = 300 / scene.width
    for area in scene.areas:
        axes.add_patch(Polygon(area.corners, color=area.color))
        axes.text(*area.label_at, area.label, color="white", ha="center", va="center", fontsize=7)
    for line in scene.lines:  # matplotlib leaves out lines that are not finite
        axes.plot([line.x, line.to_x], [line.y, line.to_y], color=line.color, linewidth=line.width * scale)
    placed = [body for body in scene.circles if all(map(math.isfinite, (body.x, body.y, body.radius)))]
    for body in sorted(placed, key=lambda body: -body.radius):
        corners = [(body.x + body.radius * x, body.y + body.radius * y) for x, y in SHAPES[body.shape]]
        axes.add_patch(
            Polygon(corners, color=body.color) if corners else Circle((body.x, body.y), body.radius, color=body.color)
        )
        axes.text(body.x, body.y, body.label, color="white", ha="center", va="center", fontsize=7)
        for number, (fraction, color) in enumerate(body.bars):
            low = body.y + body.radius + 0.12 + 0.2 * number
            axes.add_patch(Rectangle((body.x - body.radius, low), 2 * body.radius * fraction, 0.14, color=color))
    axes.text(0.02, 0.97, scene.note, color="white", transform=axes.transAxes, fontsize=8, va="top")
