"""Shapes of drawings."""

import math

from refil.scene import SHAPES, Scene


def test_polygons_have_their_corners_on_a_circle_of_radius_1():
    for name, corners in (("triangle", 3), ("square", 4), ("diamond", 4), ("pentagon", 5), ("hexagon", 6), ("octagon", 8)):
        assert len(SHAPES[name]) == corners
        assert all(math.isclose(math.hypot(x, y), 1, abs_tol=1e-3) for x, y in SHAPES[name])


def test_a_diamond_stands_on_a_corner_and_a_square_on_a_side():
    assert SHAPES["diamond"][0] == (0.0, 1.0)
    assert {(round(x, 2), round(y, 2)) for x, y in SHAPES["square"]} == {
        (0.71, 0.71),
        (-0.71, 0.71),
        (-0.71, -0.71),
        (0.71, -0.71),
    }


def test_stars_alternate_between_two_radii():
    radii = [round(math.hypot(x, y), 2) for x, y in SHAPES["star"]]
    assert radii == [1.0, 0.6] * 5


def test_a_circle_has_no_corners_and_a_cross_is_symmetric():
    assert SHAPES["circle"] == ()
    assert {(-x, -y) for x, y in SHAPES["cross"]} == set(SHAPES["cross"])


def test_an_empty_scene_needs_only_its_size():
    scene = Scene(3, 4)
    assert (scene.circles, scene.lines, scene.areas, scene.note) == ([], [], [], "")
