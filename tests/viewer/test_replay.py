"""Replays of trained teams."""

import jax

from refil.team import Team
from refil.training import config


def test_a_replay_has_a_scene_per_timestep_and_shows_itself_in_a_notebook():
    asked = config.default("group_matching", "vdn_attention").with_options(
        {"agents": 3, "cells": 4, "horizon": 6}, {"size": 8, "heads": 2}
    )
    setup = asked.build()
    first, second = Team(setup.method.init(jax.random.key(0)), setup.env, "game").play(2)
    assert 1 <= first.length <= 6
    assert len(first.scenes) == first.length + 1
    assert first.task == "group_matching"
    assert first.won or first.length == 6
    result = "won" if second.won else "not won"
    assert second.clip(2).title == f"2: group_matching, {result} after {second.length} steps"
    page = first._repr_html_()
    assert page.startswith("<iframe srcdoc=")
    assert "<script>" not in page  # escaped
