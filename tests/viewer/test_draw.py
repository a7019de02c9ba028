"""Pictures, animations, videos and frames."""

import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from refil.errors import RefilError
from refil.scene import SHAPES
from refil.viewer import draw, export
from tests.viewer.test_export import clip


def test_animations_and_pictures_show_the_scenes(tmp_path: Path):
    from PIL import Image

    export.write([clip("x")], export.Outputs(None, tmp_path / "video.gif", tmp_path / "picture.png"))
    with Image.open(tmp_path / "video.gif") as video:
        assert video.n_frames == 8
    with Image.open(tmp_path / "picture.png") as picture:
        assert picture.size == (600, 600)
        # Red is gone by the middle, blue is there: at x = 4 of 16 in the lower half of a body of radius 0.5.
        assert picture.convert("RGB").getpixel((round(4 / 16 * 600), round(600 * (1 - 7.7 / 16)))) == (0, 0, 255)


def test_every_scene_becomes_a_frame(tmp_path: Path):
    assert draw.frames(clip("x", 3), tmp_path / "frames") == 3
    names = sorted(path.name for path in (tmp_path / "frames").iterdir())
    assert names == ["frame_0000.png", "frame_0001.png", "frame_0002.png"]


def test_a_film_lasts_as_long_as_the_clip(tmp_path: Path):
    if shutil.which("ffmpeg") is None:
        pytest.skip("no ffmpeg here")
    draw.video(clip("x", 20), tmp_path / "video.mp4")  # 40 scenes per second
    asked = ["ffmpeg", "-i", str(tmp_path / "video.mp4"), "-f", "null", "-"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stderr
    assert "720x720" in said
    seconds = float(re.search(r"Duration: 00:00:([\d.]+)", said)[1])
    assert 0.4 < seconds < 0.8
    assert [path.name for path in tmp_path.iterdir()] == ["video.mp4"]


def test_a_film_without_ffmpeg_is_refused_before_anything_is_played(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RefilError, match="videos need the program ffmpeg"):
        export.Outputs(mp4=tmp_path / "video.mp4").check()


def test_shapes_fit_into_their_body():
    for name, corners in SHAPES.items():
        assert all(math.hypot(x, y) < 1.1 for x, y in corners), name
