"""The replay page in a real browser, pictures and animations."""

import json
import math
import os
import shutil
from pathlib import Path

import pytest

from refil.scene import Circle, Line, Scene
from refil.viewer import export
from refil.viewer.export import Clip

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def clip(title: str, frames: int = 40) -> Clip:
    """Return a clip in which a unit moves east and another one disappears halfway."""
    scenes = []
    for frame in range(frames):
        bodies = [Circle("ally 0", 2 + 0.1 * frame, 8, 0.5, "#0000ff", "s", 0.0, ((1 - frame / frames, "#00ff00"),))]
        if frame < frames // 2:
            bodies.append(Circle("enemy 1", 10, 8, 0.5, "#ff0000", "</script>"))
        scenes.append(Scene(16, 16, bodies, [Line(0, 0, 16, 16, "#ffff00")], f"step {frame}"))
    return Clip(title, scenes, 40.0)


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        if os.environ.get("REFIL_NEEDS_CHROMIUM"):
            pytest.fail("REFIL_NEEDS_CHROMIUM is set and there is no chromium")
        pytest.skip("no Chromium here: the viewer was not tried in a browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)


@pytest.fixture
def page(browser, tmp_path):
    path = tmp_path / "page.html"
    export.write([clip("first"), clip("second", 10)], path, None, None)
    context = browser.new_context(offline=True)
    opened, errors, requests = context.new_page(), [], []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.on("request", lambda request: requests.append(request.url))
    opened.goto(path.as_uri())
    yield opened
    assert errors == []
    assert requests == [path.as_uri()]  # nothing is fetched from anywhere
    context.close()


def test_the_page_loads_and_lists_the_episodes(page):
    assert page.locator("#list button").all_inner_texts() == ["first", "second"]
    assert page.evaluate("shown.names") == ["ally 0", "enemy 1"]
    assert page.inner_text("#note") == "step 0"


def test_the_page_draws(page):
    colors = "[...pen.getImageData(Math.round((2 / 16) * 900) - 15, 450, 1, 1).data]"
    assert page.evaluate(colors)[:3] == [0, 0, 255]


def test_the_page_plays_to_the_end_and_pauses(page):
    page.click("#play")
    assert page.inner_text("#play") == "Pause"
    page.wait_for_function("shown.frame === 39")
    assert page.inner_text("#play") == "Play"
    page.click("#play")  # from the start again
    page.wait_for_function("shown.frame > 2 && shown.frame < 39")
    page.click("#play")
    held = page.evaluate("shown.frame")
    page.wait_for_timeout(200)
    assert page.evaluate("shown.frame") == held


def test_a_frame_requested_before_the_click_shows_the_start(page):
    assert page.evaluate("setPlaying(true), advance(since - 10), shown.frame") == 0
    page.wait_for_function("shown.frame > 0")


def test_the_page_plays_at_the_chosen_speed(page):
    page.clock.install()  # the page's own clock: how busy the machine is does not matter
    page.select_option("#speed", "4")
    page.click("#play")
    page.clock.run_for(500)
    assert page.evaluate("shown.frame") == 39  # half of that at normal speed


def test_a_unit_that_dies_disappears(page):
    assert "enemy 1" in page.evaluate("shown.names")
    page.locator("#scrub").fill("30")
    assert page.evaluate("shown.names") == ["ally 0"]
    assert page.inner_text("#note") == "step 30"
    page.locator("#scrub").fill("5")
    assert "enemy 1" in page.evaluate("shown.names")


def test_another_episode_can_be_chosen(page):
    page.click("#list button:nth-child(2)")
    assert page.get_attribute("#scrub", "max") == "9"
    assert page.evaluate("shown.frame") == 0


def test_keys_step_and_play(page):
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("shown.frame") == 1
    page.keyboard.press(" ")
    assert page.inner_text("#play") == "Pause"


def test_text_in_a_scene_cannot_break_the_page():
    assert export.page([clip("x")]).count("</script>") == 2


@pytest.mark.parametrize("title", ["<!--<script>", "</script><b>", "a & b\u2028", "\ud800"])
def test_any_title_leaves_the_page_intact(title):
    text = export.page([clip(title)])
    content = text.partition('type="application/json">')[2].partition("</script>")[0]
    assert not set("<>&\u2028") & set(content)
    assert json.loads(content)[0]["title"] == title


def broken(title: str) -> Clip:
    """Return a clip in which a body and a line have no finite position."""
    bad = [Circle("lost", math.nan, 3.0, 0.5, "#ff0000", "x", math.nan, ((math.nan, "#00ff00"),))]
    bad += [Circle("endless", 3.0, 3.0, math.inf, "#ff0000")]
    good = Circle("ally 0", 2.0, 8.0, 0.5, "#0000ff", "s", math.nan, ((math.inf, "#00ff00"),))
    scenes = [Scene(16, 16, [*bad, good], [Line(0, 0, math.inf, 16, "#ffff00")], "step 0")]
    scenes += [Scene(16, 16, [good], [], "step 1")]
    return Clip(title, scenes, 40.0)


def test_numbers_that_are_not_finite_become_null():
    text = export.page([broken("x")])
    assert "NaN" not in text
    assert "Infinity" not in text


def test_bodies_without_a_position_do_not_blank_the_page(browser, tmp_path):
    path = tmp_path / "page.html"
    export.write([broken("<!--<script>")], path, tmp_path / "film.gif", tmp_path / "picture.png")
    opened, errors = browser.new_context(offline=True).new_page(), []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.goto(path.as_uri())
    assert opened.locator("#list button").all_inner_texts() == ["<!--<script>"]
    assert opened.evaluate("[...pen.getImageData(Math.round((2 / 16) * 900) - 15, 450, 1, 1).data]")[:3] == [0, 0, 255]
    opened.keyboard.press("ArrowRight")
    assert opened.inner_text("#note") == "step 1"
    assert errors == []


def test_animations_and_pictures_show_the_scenes(tmp_path: Path):
    from PIL import Image

    export.write([clip("x")], None, tmp_path / "film.gif", tmp_path / "picture.png")
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == 8
    with Image.open(tmp_path / "picture.png") as picture:
        assert picture.size == (600, 600)
        # Red is gone by the middle, blue is there: at x = 4 of 16 in the lower half of a body of radius 0.5.
        assert picture.convert("RGB").getpixel((round(4 / 16 * 600), round(600 * (1 - 7.7 / 16)))) == (0, 0, 255)
