"""The drawing of the group matching game."""

from refil.experiments import figure_3a


def test_the_episode_ends_when_both_groups_are_matched():
    scenes = figure_3a.scenes()
    assert all(len(scene.circles) == 8 for scene in scenes)
    assert scenes[-1].note == "2 of 2 groups matched"
    assert all(scene.note != "2 of 2 groups matched" for scene in scenes[:-1])
    assert 2 < len(scenes) <= 4  # no cell is more than three steps away
