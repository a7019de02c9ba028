"""Export of clips: a self-contained page, an animated GIF, a video, frames, or one picture."""

import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from refil.errors import RefilError
from refil.storage import serialization
from refil.viewer import draw
from refil.viewer.encode import Clip as Clip
from refil.viewer.encode import page_json

PARTS = ("stage.js", "camera.js", "timeline.js", "inspector.js", "legend.js", "player.js")  # scripts of the page, in order


@dataclass(frozen=True)
class Outputs:
    """The files to write, where they are wanted."""

    html: Path | None = None
    gif: Path | None = None
    png: Path | None = None
    mp4: Path | None = None
    frames: Path | None = None

    def check(self) -> None:
        """Raise if something cannot be written, before anything is played."""
        for path, suffix in ((self.html, "html"), (self.gif, "gif"), (self.mp4, "mp4")):
            if path is not None:
                serialization.check_suffix(path, [suffix])
                serialization.check_folder(path)
        if self.png is not None:
            serialization.check_figure_path(self.png)
        if self.frames is not None:
            _check_makes_folder(self.frames)
        if self.gif or self.mp4 or self.frames:
            with serialization.require_matplotlib():
                import matplotlib  # noqa: F401
                import PIL  # noqa: F401
        if self.mp4 is not None:
            draw.check_video()


@dataclass(frozen=True)
class Extra:
    """The parts that another page adds to the replay page: HTML at the top and at the side, a style sheet and scripts."""

    top: str = ""
    side: str = ""
    style: str = ""
    script: str = ""


def _check_makes_folder(path: Path) -> None:
    """Raise if there is a file in place of a folder to be made, or of one that it is in."""
    existing = next(each for each in (path, *path.resolve().parents) if each.exists())
    if not existing.is_dir():
        raise RefilError(f"cannot make the folder {path}: {existing} is a file")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise RefilError(f"cannot make the folder {path}: the folder {existing} is not writable")


def write(clips: list[Clip], outputs: Outputs, compared: list[Clip] | None = None, labels: tuple[str, ...] = ()) -> list[str]:
    """Write a page of all clips, an animation, a video and the frames of the first one, and a picture of its middle.

    Return a line for each of them.
    """
    written = []
    if outputs.html is not None:
        serialization.write_atomic(outputs.html, page(clips, compared, labels).encode())
        written.append(f"Page: {outputs.html}")
    if outputs.gif is not None:
        draw.animation(clips[0], outputs.gif)
        written.append(f"Animation: {outputs.gif}")
    if outputs.mp4 is not None:
        draw.video(clips[0], outputs.mp4)
        written.append(f"Video: {outputs.mp4}")
    if outputs.frames is not None:
        written.append(f"Frames: {draw.frames(clips[0], outputs.frames)} in {outputs.frames}")
    if outputs.png is not None:
        draw.picture(clips[0].scenes[len(clips[0].scenes) // 2], outputs.png)
        written.append(f"Picture: {outputs.png}")
    return written


def page(clips: list[Clip], compared: list[Clip] | None = None, labels: tuple[str, ...] = ()) -> str:
    """Return the HTML of a page that plays the clips, each next to the one that it is compared with, if there is one.

    `labels` name the two that are compared, or the one who plays.
    """
    return assemble(page_json(clips, compared, labels))


def assemble(content: str, extra: Extra | None = None) -> str:
    """Return the HTML of a page, given the JSON of its episodes."""
    folder, extra = resources.files("refil.viewer"), extra or Extra()
    template, style, *parts = (folder.joinpath(name).read_text(encoding="utf-8") for name in ("page.html", "page.css", *PARTS))
    filled = {"/*STYLE*/": style + extra.style, "/*SCRIPT*/": "\n".join((*parts, extra.script))}
    filled |= {"<!--TOP-->": extra.top, "<!--SIDE-->": extra.side, "/*EPISODES*/": content}
    for mark, text in filled.items():
        template = template.replace(mark, text)
    return template
