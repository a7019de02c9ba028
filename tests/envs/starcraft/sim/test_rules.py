"""Rules: what SMAC and SMAClite do not have in common, in ticks."""

from dataclasses import fields

from refil.envs.starcraft.sim.rules import COOLDOWN_JITTER, SHIELD_DELAY, SMAC, SMACLITE, TICKS_PER_STEP
from refil.envs.starcraft.sim.unit import SECOND
from tests.envs.starcraft import scenes


def test_a_step_is_half_a_second_and_shields_wait_ten():
    assert TICKS_PER_STEP / SECOND == 0.5
    assert SHIELD_DELAY / SECOND == 10.0


def test_cooldowns_vary_by_three_ticks():
    low, high = COOLDOWN_JITTER
    assert high - low == 3.0


def test_only_these_rules_are_the_same_in_both():
    same = {field.name for field in fields(SMAC) if getattr(SMAC, field.name) == getattr(SMACLITE, field.name)}
    assert same == {"scan_range", "acceleration"}


def test_units_notice_enemies_from_edge_to_edge_in_smac_and_from_the_center_in_smaclite():
    """Two Marines have radii of 0.375: at 5.5 cells apart their edges are 4.75 apart, and the enemy's edge is 5.125 away."""
    for rules, notices in ((scenes.EXACT, True), (scenes.SMACLITE_EXACT, False)):
        game = scenes.game(1, 2, rules, "smac")
        state = scenes.place([("marine", 10.0, 16.0), ("marine", 15.5, 16.0)], game, attack_moving=[False, True])
        after = scenes.one_tick(game)(state)
        assert (int(after.target[1]) == 0) == notices
