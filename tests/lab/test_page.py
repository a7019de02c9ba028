"""The page of the lab in a real browser: compose, play, inspect, change, save and open again."""

import json
import re
import socket
import threading

import pytest
import uvicorn

from refil.envs.starcraft.analysis import placement
from refil.envs.starcraft.config import Config
from refil.lab import page as pages
from refil.lab import roster, server


@pytest.fixture(scope="module")
def address():
    listening = socket.create_server(("127.0.0.1", 0))
    host = f"127.0.0.1:{listening.getsockname()[1]}"
    app, _ = server.app(roster.open_roster(), lambda: {host})
    running = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", ws="none"))
    thread = threading.Thread(target=running.run, args=([listening],), daemon=True)
    thread.start()
    yield f"http://{host}"
    running.should_exit = True
    thread.join(10)


@pytest.fixture
def page(browser, address):
    opened = browser.new_context(viewport={"width": 1400, "height": 850}).new_page()
    errors, requests = [], []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.on("request", lambda request: requests.append(request.url))
    opened.goto(address)
    opened.wait_for_selector("#palette button")
    yield opened
    assert [error for error in errors if "400 (Bad Request)" not in error] == []
    assert all(url.startswith((address, "blob:", "data:")) for url in requests), requests
    opened.context.close()


def place_of(page, x: float, y: float) -> tuple[float, float]:
    """Return where on the screen a point of the map is."""
    left, bottom, scale, height, ratio = page.evaluate(
        "(({left, bottom, scale}) => [left, bottom, scale, map.height, map.width / map.clientWidth])(mapPane.camera)"
    )
    box = page.locator("#map").bounding_box()
    return box["x"] + (x - left) * scale / ratio, box["y"] + (height - (y - bottom) * scale) / ratio


def drag(page, start: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*((one + other) / 2 for one, other in zip(start, end, strict=True)))
    page.mouse.move(*end)
    page.mouse.up()


def drag_unit(page, name: str, x: float, y: float) -> None:
    box = page.locator(f"#palette [data-type={name}]").bounding_box()
    drag(page, (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2), place_of(page, x, y))


def units(page) -> list[dict]:
    return page.evaluate("lab.units")


def test_compose_play_inspect_change_save_and_open(page, tmp_path):
    drag_unit(page, "zealot", 13, 16)
    drag_unit(page, "stalker", 12, 18)
    page.click("#team [data-team=enemy]")
    drag_unit(page, "zealot", 19, 16)
    assert [(unit["team"], unit["type"]) for unit in units(page)] == [
        ("ally", "zealot"),
        ("ally", "stalker"),
        ("enemy", "zealot"),
    ]
    assert page.inner_text("#counts") == "Allies: 1 Zealot, 1 Stalker · Enemies: 1 Zealot"
    drag(page, place_of(page, 19, 16), place_of(page, 20, 14))
    assert (units(page)[2]["x"], units(page)[2]["y"]) == pytest.approx((20, 14), abs=0.1)
    page.fill("#unit-health", "60")
    page.keyboard.press("Tab")
    assert units(page)[2]["health"] == 60
    page.click("#undo")
    assert "health" not in units(page)[2]
    page.click("#redo")

    page.click("#run")
    page.wait_for_selector("body[data-mode=watch]")
    assert re.match(r"Allies won after \d+ steps\. Left: allies 2 of 2 units, ", page.inner_text("#message"))
    page.keyboard.press("End")
    page.keyboard.press("Home")
    page.keyboard.press("u")
    assert "Zealot, ally" in page.inner_text("#inspector")

    page.keyboard.press("e")
    page.keyboard.press("Escape")
    page.mouse.click(*place_of(page, 13, 16))
    page.keyboard.press("Delete")
    page.keyboard.press("Enter")
    page.wait_for_selector("#result th:nth-child(3)")
    assert "The units were changed since the run before." in page.inner_text("#result")
    assert page.locator("#list button").count() == 2
    page.check("#compare")
    assert page.locator(".pane").count() == 2

    page.click("#edit")
    with page.expect_download() as download:
        page.click("#store")
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    saved = placement.read(path, Config())
    assert saved.state.health.tolist() == [80, 60]
    before = units(page)
    page.click("#clear")
    assert page.is_visible("#hint")
    page.set_input_files("#file", path)
    page.wait_for_selector("text=Opened placement.json.")
    assert units(page) == before
    page.reload()
    page.wait_for_selector("#counts:has-text('Stalker')")
    assert units(page) == before  # also without a file


def test_trained_teams_explain_themselves_on_both_sides(page):
    page.click("#examples button:first-of-type")
    page.select_option("#allies", "team 3-8sz")
    page.select_option("#enemies", "team 3-8csz")
    page.click("#run")
    page.wait_for_selector("body[data-mode=watch]", timeout=120_000)
    page.click("#play")
    page.keyboard.press("Home")
    page.wait_for_selector("#heads", timeout=120_000)  # the details have come
    page.keyboard.press("u")
    assert "Q-values of available actions" in page.inner_text("#inspector")
    page.click("#edit")
    page.fill("#army-enemy", "6m")
    page.click("#armies button")
    page.wait_for_selector("#message.warning")
    assert page.inner_text("#message").startswith("3-8sz was trained with zealots and stalkers only")
    page.click("#run")
    page.wait_for_selector("#message.error")
    assert page.inner_text("#message").endswith("choose another commander of the allies or change the armies.")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "Cannot read bad.json: Expecting property name enclosed in double quotes"),
        (
            '{"units": [{"team": "ally", "type": "<img src=x>", "x": 1, "y": 1}]}',
            "Unit 0 has unknown type '<img src=x>'; available",
        ),
        ("x" * 950_000, "Bad.json is too large for a placement: 0.9 MB."),
    ],
)
def test_a_bad_file_gets_a_sentence_on_the_page(page, tmp_path, content, sentence):
    path = tmp_path / "bad.json"
    path.write_text(content)
    page.set_input_files("#file", path)
    page.wait_for_selector("#message.error")
    assert page.inner_text("#message").lower().startswith(sentence.lower())
    assert units(page) == []


def test_bad_input_gets_a_sentence_on_the_page(page):
    page.click("#run")
    page.wait_for_selector("#message.error")
    assert page.inner_text("#message") == "There are no allies; place at least one unit on each side."
    page.fill("#army-ally", "3q")
    page.click("#armies button")
    assert page.inner_text("#message").startswith("No unit type has the letter q; there are b Baneling")
    page.fill("#army-ally", "65m")
    page.click("#armies button")
    assert page.inner_text("#message") == "65 units are too many; there is room for 64 on each side."


def test_group_matching_is_played(page):
    page.click("#tab-episode")
    page.fill("#seed", "3")
    page.click("#run")
    page.wait_for_selector("body[data-mode=watch]", timeout=60_000)
    assert page.inner_text("#message").startswith("group_matching: ")
    assert "cell of the ring" in page.inner_text("#legend")
    page.click("#tab-battle")
    assert page.is_visible("#hint")


@pytest.mark.parametrize("size", [(1400, 800), (390, 800)], ids=["wide", "narrow"])
def test_nothing_is_cut_off_at_the_side(page, size):
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.click("#examples button:first-of-type")
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    for name in ("top", "field", "tools", "side"):
        box = page.locator(f"#{name}").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0]
    assert page.locator("#field").bounding_box()["height"] > 200


def test_the_page_needs_nothing_else():
    text = pages.page()
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert text.count("</script>") == 2
    assert not [mark for mark in ("/*STYLE*/", "/*SCRIPT*/", "/*EPISODES*/", "<!--TOP-->", "<!--SIDE-->") if mark in text]
    assert "unsafe-eval" not in pages.policy()
    assert json.loads(json.dumps(pages.unit_types()))[0]["name"] == "baneling"


def test_no_script_of_the_page_declares_a_name_that_another_one_has():
    """All scripts share one scope, in which the last function of a name would silently replace the others."""
    found = re.findall(r"^(?:async )?(?:function|const|let) (\w+)", pages.page(), re.MULTILINE)
    assert len(found) > 100
    assert len(found) == len(set(found))
