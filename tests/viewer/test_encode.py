"""Episodes as JSON."""

import json
import math
from dataclasses import replace

from refil.scene import Area, Circle, LegendEntry, Level, Scene
from refil.viewer.encode import Clip, page_json


def decoded(*clips: Clip, compared=None) -> list:
    return json.loads(page_json(list(clips), compared))["episodes"]


def scene(x: float, share: float = 0.5) -> Scene:
    body = Circle(
        "a", x, 1.0, 0.5, "#fff", "A", None, ((share, "#0f0"),), "square", 2, "kind", (("health", 3.0),), (("sight", 9),)
    )
    body = replace(body, verb="attack", order="stand" if x == 2 else "")
    area = Area(((0, 0), (1, 0), (1, 1)), "#333", "cell", (0.5, 0.5))
    return Scene(32, 32, [body], [], "note", [area], (LegendEntry("us", "#fff"),), (Level("health", share, "#00f"),))


def test_what_stays_the_same_is_stored_once():
    ((clip,),) = decoded(Clip("t", [scene(1.23456), scene(2.0)], 4.0, (0.5,)))
    assert clip["bodies"] == [["a", 0.5, "#fff", "A", "square", 2, "kind", [["sight", 9.0]], ["#0f0"], ["health"], "attack"]]
    assert clip["frames"][0] == ["note", [[0, 1.23, 1.0, None, [0.5], [3.0]]], [], [0], [0.5]]
    assert clip["frames"][1][1] == [[0, 2.0, 1.0, None, [0.5], [3.0], "stand"]]
    assert len(clip["areas"]) == 1
    assert clip["legend"] == [["us", "#fff", "circle"]]
    assert clip["levels"] == [["health", "#00f"]]
    assert clip["rewards"] == [0.5]


def test_small_planes_keep_more_decimals():
    ((clip,),) = decoded(Clip("t", [Scene(1, 1, [Circle("a", 0.12345, 0.5, 0.01, "#fff")])], 4.0))
    assert clip["frames"][0][1][0][1] == 0.123


def test_clips_to_compare_are_in_the_same_episode():
    episodes = decoded(Clip("one", [scene(1)], 4.0), compared=[Clip("other", [scene(2)], 4.0)])
    assert [[clip["title"] for clip in episode] for episode in episodes] == [["one", "other"]]


def test_a_share_that_is_not_finite_is_not_drawn():
    ((clip,),) = decoded(Clip("t", [scene(1, math.nan)], 4.0))
    assert clip["frames"][0][1][0][4] == [None]
