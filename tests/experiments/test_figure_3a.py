"""The drawing of the group matching game."""

from refil.experiments import figure_3a


def test_the_episode_ends_when_both_groups_are_matched():
    scenes = figure_3a.scenes()
    assert all(len(scene.circles) == 8 for scene in scenes)
    assert scenes[-1].note == "2 of 2 groups matched"
    assert all(scene.note != "2 of 2 groups matched" for scene in scenes[:-1])
    assert 2 < len(scenes) <= 4  # no cell is more than three steps away


def test_all_agents_and_cells_are_in_the_picture():
    scenes = figure_3a.scenes()
    for axes, scene in zip(figure_3a.draw(scenes).axes, (scenes[0], scenes[(len(scenes) - 1) // 2], scenes[-1]), strict=True):
        (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
        assert all(left < each.x < right and bottom < each.y < top for each in scene.circles)
        points = [point for area in scene.areas for point in area.corners]
        assert all(left <= x <= right and bottom <= y <= top for x, y in points)
