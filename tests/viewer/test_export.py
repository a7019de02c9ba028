"""The replay page in a real browser, pictures and animations."""

import json
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from refil.scene import Circle, Line, Scene
from refil.viewer import export
from refil.viewer.details import Details
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
        bodies = [Circle("ally 0", 2 + 0.1 * frame, 8, 0.5, "#0000ff", "s", 0.0, ((1 - frame / frames, "#00ff00"),), entity=0)]
        bodies[0] = replace(bodies[0], verb="attack")
        if frame < frames // 2:
            bodies.append(Circle("enemy 1", 10, 8, 0.5, "#ff0000", "</script>", entity=1, order="stand"))
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


def details(steps: int) -> Details:
    """Return details of one agent that sees itself and the other body, until that disappears, and always goes east."""
    visible = np.ones((steps, 1, 2), bool)
    visible[steps // 2 :, :, 1] = False
    return Details(
        actions=np.ones((steps, 1), int),
        active=np.ones((steps, 1), bool),
        available=np.array([[[True, True, False, True]]] * steps),
        visible=visible,
        aimed_at=np.array([[-1, 3]] * steps),
        q=np.tile(np.array([[0.5, 2.25, 9.0, 1.0]]), (5, steps, 1, 1)) + np.arange(5)[:, None, None, None],
        attention=np.tile(np.array([[0.25, 0.75]]), (steps, 2, 1, 1)),
        groups=np.array([[0, 1], [1, 1]]),
        action_names=("stop", "east", "west", "target"),
    )


def open_page(browser, path, size=None):
    opened = browser.new_context(offline=True, viewport=size).new_page()
    opened.errors, opened.requests = [], []
    opened.on("pageerror", lambda error: opened.errors.append(str(error)))
    opened.on("console", lambda message: opened.errors.append(message.text) if message.type == "error" else None)
    opened.on("request", lambda request: opened.requests.append(request.url))
    opened.goto(f"{path.as_uri()}#paused")
    return opened


@pytest.fixture
def page(browser, tmp_path):
    path = tmp_path / "page.html"
    first = replace(clip("first"), rewards=(0.0, 1.0, *[0.5] * 37), details=details(39))
    export.write([first, clip("second", 10)], export.Outputs(path))
    opened = open_page(browser, path)
    yield opened
    assert opened.errors == []
    assert [url.partition("#")[0] for url in opened.requests] == [path.as_uri()]  # nothing is fetched from anywhere
    opened.context.close()


def color_at(page, x: float, y: float, pane: int = 0) -> list[int]:
    """Return the color that a pane shows at a point of the plane."""
    left, top = f"({x} - camera.left) * camera.scale", f"canvas.height - ({y} - camera.bottom) * camera.scale"
    pixel = f"pen.getImageData(Math.round({left}), Math.round({top}), 1, 1).data"
    return page.evaluate(f"(({{ camera, canvas, pen }}) => [...{pixel}])(panes[{pane}])")[:3]


def click_at(page, x: float, y: float) -> None:
    left = f"({x} - camera.left) * camera.scale / canvas.width * canvas.clientWidth"
    top = f"(canvas.height - ({y} - camera.bottom) * camera.scale) / canvas.height * canvas.clientHeight"
    place = page.evaluate(f"(({{ camera, canvas }}) => ({{ x: {left}, y: {top} }}))(panes[0])")
    page.locator(".pane canvas").first.click(position=place)


def test_the_page_loads_and_lists_the_episodes(page):
    assert page.locator("#list button").all_inner_texts() == ["first", "second"]
    assert page.evaluate("shown.names") == ["ally 0", "enemy 1"]
    assert page.inner_text("#note") == "step 0"


def test_a_page_starts_by_itself(browser, tmp_path):
    path = tmp_path / "page.html"
    export.write([clip("first")], export.Outputs(path))
    opened = browser.new_context(offline=True).new_page()
    opened.goto(path.as_uri())
    opened.wait_for_function("shown.frame > 2")
    opened.context.close()


def test_the_page_draws_and_follows(page):
    assert color_at(page, 1.7, 7.75) == [0, 0, 255]
    wide = page.evaluate("panes[0].camera.scale")
    page.keyboard.press("f")
    assert page.evaluate("panes[0].camera.scale") < wide
    assert color_at(page, 1.7, 7.75) == [0, 0, 255]
    page.click("#follow")
    assert page.evaluate("panes[0].camera.scale") == wide


def test_the_page_plays_to_the_end_and_pauses(page):
    page.click("#play")
    assert page.inner_text("#play") == "Pause"
    page.wait_for_function("shown.frame === 39")
    assert page.inner_text("#play") == "Play"
    page.select_option("#speed", "0.25")  # slowly, for busy machines
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
    assert page.evaluate("history_(clips()[0]).gone") == [[20, "#ff0000", "enemy 1"]]
    page.locator("#scrub").fill("5")
    assert "enemy 1" in page.evaluate("shown.names")


def test_the_timeline_seeks_and_shows_reward_and_return(page):
    box = page.locator("#timeline").bounding_box()
    page.mouse.click(box["x"] + 4 + (box["width"] - 8) * 2 / 39, box["y"] + 30)
    assert page.evaluate("shown.frame") == 2
    assert page.inner_text("#numbers").split("■")[1:] == [" reward 1.00\n", " return 1.00"]


def test_another_episode_can_be_chosen(page):
    page.click("#list button:nth-child(2)")
    assert page.get_attribute("#scrub", "max") == "9"
    assert page.evaluate("shown.frame") == 0
    page.keyboard.press("p")
    assert page.evaluate("shown.episode") == 0
    page.keyboard.press("n")
    assert page.evaluate("shown.episode") == 1


def test_keys_step_and_play(page):
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("shown.frame") == 1
    page.keyboard.press("Shift+ArrowRight")
    assert page.evaluate("shown.frame") == 11
    page.keyboard.press("End")
    assert page.evaluate("shown.frame") == 39
    page.keyboard.press("Home")
    assert page.evaluate("shown.frame") == 0
    page.keyboard.press("]")
    assert page.input_value("#speed") == "2"
    page.keyboard.press(" ")
    assert page.inner_text("#play") == "Pause"


def test_a_click_selects_an_agent_and_shows_why_it_acts(page):
    click_at(page, 2, 8)
    text = page.inner_text("#inspector")
    assert page.inner_text("#facts").startswith("ally 0\n")
    assert "Action\n\neast\n" in text
    rows = page.locator("#inspector table").first.inner_text().split("\n")
    assert [row.split() for row in rows[1:]] == [
        ["east", "2.25"],
        ["attack", "enemy", "1", "1.00"],
        ["stop", "0.50"],  # west is unavailable
    ]
    assert page.locator("tr.chosen").inner_text().split() == ["east", "2.25"]
    assert "enemy 1 (</script>)\t75\t75" in text
    page.keyboard.press("Escape")
    assert "Click a unit" in page.inner_text("#inspector")
    assert "ally 0\teast" in page.inner_text("#inspector")  # all actions, and orders of bodies that are no agents
    assert "enemy 1\tstand" in page.inner_text("#inspector")


def test_random_groups_split_values_into_two(page):
    page.keyboard.press("u")
    page.check("#groups")
    rows = page.locator("#inspector table").first.inner_text().split("\n")
    assert rows[0].split("\t") == ["action", "all it sees", "within its group", "across groups"]
    assert rows[1].split() == ["east", "2.25", "3.25", "4.25"]
    page.select_option("#head", "1")
    assert page.evaluate("shown.head") == 1
    page.click("#partition")
    assert page.inner_text("#partition") == "Another partition (2 of 2)"
    rows = page.locator("#inspector table").first.inner_text().split("\n")
    assert rows[1].split() == ["east", "2.25", "5.25", "6.25"]
    page.keyboard.press("r")
    assert page.inner_text("#partition") == "Another partition (1 of 2)"
    page.keyboard.press("g")
    assert not page.is_checked("#groups")


def test_controls_of_the_inspector_work_while_the_page_plays(page):
    """Frames change what is inside its elements, not the elements: clicks land, and a menu keeps its focus."""
    page.keyboard.press("u")
    page.select_option("#speed", "0.25")
    page.click("#play")
    places = [page.locator(f"#{name}").bounding_box() for name in ("groups", "head", "play", "speed", "save")]
    for number in range(6):
        box = page.locator("#groups").bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.wait_for_timeout(60)  # some frames
        page.mouse.up()
        assert page.is_checked("#groups") == (number % 2 == 0)
    page.focus("#head")
    frame = page.evaluate("document.querySelector('#facts td').kept = true, shown.frame")
    page.wait_for_function(f"shown.frame > {frame + 1}")
    assert page.evaluate("document.activeElement.id") == "head"
    assert page.evaluate("document.querySelector('#facts td').kept")
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.wait_for_function("shown.frame > 21")  # fewer rows, as a unit has died
    assert [page.locator(f"#{name}").bounding_box() for name in ("groups", "head", "play", "speed", "save")] == places


@pytest.mark.parametrize(("menu", "value"), [("speed", "2"), ("head", "0")])
def test_keys_work_after_a_menu_was_used(page, menu, value):
    page.focus(f"#{menu}")
    page.select_option(f"#{menu}", value)
    assert page.evaluate("document.activeElement.tagName") == "BODY"
    page.keyboard.press("ArrowRight")
    assert page.evaluate("shown.frame") == 1


def test_a_row_points_out_its_unit_on_the_map(page):
    page.keyboard.press("u")
    row = page.locator("#facts tr", has_text="attack enemy 1")
    before = page.evaluate("panes[0].canvas.toDataURL()")
    row.hover()
    assert page.evaluate("shown.pointed") == 1
    assert page.evaluate("panes[0].canvas.toDataURL()") != before
    page.mouse.move(300, 300)
    assert page.evaluate("shown.pointed") == -1
    assert page.evaluate("panes[0].canvas.toDataURL()") == before
    row.click()
    assert page.evaluate("shown.selected") == "enemy 1"
    assert "Order\n\nstand" in page.inner_text("#inspector")


def test_numbers_of_units_can_be_hidden(page):
    before = page.evaluate("panes[0].canvas.toDataURL()")
    page.click("#numbered")
    assert page.evaluate("panes[0].canvas.toDataURL()") != before
    page.keyboard.press("l")
    assert page.evaluate("panes[0].canvas.toDataURL()") == before


def test_the_legend_explains_the_marks_of_the_page(page):
    marks = page.locator("#legend .mark").all_inner_texts()
    assert len(marks) == 10
    assert "from the selected agent to whom its action is aimed at" in marks
    page.keyboard.press("n")  # without details
    assert len(page.locator("#legend .mark").all_inner_texts()) == 6


def test_an_agent_sees_less_when_a_unit_is_gone(page):
    page.keyboard.press("u")
    page.locator("#scrub").fill("30")
    assert "enemy 1" not in page.inner_text("#inspector")


def test_the_shown_picture_can_be_saved(page):
    with page.expect_download() as download:
        page.click("#save")
    assert download.value.suggested_filename == "episode_1_frame_0.png"
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


def test_two_policies_play_side_by_side(browser, tmp_path):
    path = tmp_path / "page.html"
    export.write([clip("long")], export.Outputs(path), [clip("short", 10)], ("one", "other"))
    opened = open_page(browser, path)
    assert opened.locator(".pane p").all_inner_texts() == ["one · long", "other · short"]
    opened.keyboard.press("End")
    assert opened.inner_text("#note") == "step 39 · step 9"
    assert color_at(opened, 2.6, 7.75, pane=1) == [0, 0, 255]  # where its last frame is
    assert opened.errors == []
    opened.context.close()


@pytest.mark.parametrize("size", [{"width": 1400, "height": 800}, {"width": 390, "height": 800}], ids=["wide", "narrow"])
def test_nothing_overlaps_or_is_cut_off_at_the_side(browser, tmp_path, size):
    path = tmp_path / "page.html"
    export.write([clip("first"), clip("second", 10)], export.Outputs(path))
    opened = open_page(browser, path, size)
    parts = [opened.locator(f"#{name}").bounding_box() for name in ("stage", "transport", "side")]
    for number, one in enumerate(parts):
        assert one["x"] >= 0
        assert one["x"] + one["width"] <= size["width"]
        for other in parts[number + 1 :]:
            apart = one["x"] + one["width"] <= other["x"] or one["y"] + one["height"] <= other["y"]
            assert apart or other["y"] + other["height"] <= one["y"]
    assert parts[0]["height"] > 200
    opened.context.close()


def test_text_in_a_scene_cannot_break_the_page():
    assert export.page([clip("x")]).count("</script>") == 2


def test_a_page_needs_nothing_else():
    text = export.page([clip("x")])
    assert "/*STYLE*/" not in text
    assert "/*SCRIPT*/" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("title", ["<!--<script>", "</script><b>", "a & b\u2028", "\ud800"])
def test_any_title_leaves_the_page_intact(title):
    text = export.page([clip(title)])
    content = text.partition('type="application/json">')[2].partition("</script>")[0]
    assert not set("<>&\u2028") & set(content)
    assert json.loads(content)["episodes"][0][0]["title"] == title


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
    export.write([broken("<!--<script>")], export.Outputs(path, tmp_path / "video.gif", tmp_path / "picture.png"))
    opened = open_page(browser, path)
    assert opened.locator("#list button").all_inner_texts() == ["<!--<script>"]
    assert color_at(opened, 1.7, 7.75) == [0, 0, 255]
    opened.keyboard.press("ArrowRight")
    assert opened.inner_text("#note") == "step 1"
    assert opened.errors == []
