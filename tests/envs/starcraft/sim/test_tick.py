"""Game ticks, with numbers worked out by hand from the unit catalog."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.envs.starcraft.sim import tick
from refil.envs.starcraft.sim.rules import SMAC
from tests.envs.starcraft import scenes
from tests.envs.starcraft.scenes import SMACLITE_EXACT, after, duel, game, place

ATTACK_MOVE = {"attack_moving": [0, 1], "moving": [0, 1]}
DUELS = [  # attacker, victim, attacks, ticks from the first to the last
    ("marine", "marine", 8, 98),
    ("marine", "zealot", 29, 392),
    ("marine", "marauder", 25, 336),
    ("marine", "stalker", 30, 406),
    ("marine", "medivac", 30, 406),
    ("marine", "colossus", 65, 896),
    ("marauder", "marine", 5, 96),
    ("marauder", "marauder", 7, 144),
    ("marauder", "stalker", 9, 192),
    ("marauder", "zealot", 17, 384),
    ("marauder", "colossus", 19, 432),
    ("stalker", "zealot", 17, 384),
    ("stalker", "stalker", 12, 264),
    ("stalker", "marauder", 10, 216),
    ("stalker", "colossus", 27, 624),
    ("stalker", "medivac", 12, 264),
    ("stalker", "marine", 5, 96),
    ("zealot", "zealot", 11, 200),
    ("zealot", "stalker", 11, 200),
    ("zealot", "marine", 3, 40),
    ("zealot", "marauder", 9, 160),
    ("zealot", "colossus", 24, 460),
    ("colossus", "zealot", 4, 108),
    ("colossus", "stalker", 5, 144),
    ("colossus", "marine", 2, 36),
    ("colossus", "zergling", 1, 0),
    ("colossus", "colossus", 10, 324),
    ("hydralisk", "zealot", 14, 182),
    ("zergling", "zealot", 35, 408),
    ("spine_crawler", "stalker", 6, 130),
]


@pytest.mark.parametrize(("attacker", "victim", "attacks", "ticks"), DUELS, ids=lambda value: str(value))
def test_a_kill_takes_this_many_attacks_and_ticks(attacker, victim, attacks, ticks):
    assert duel(attacker, victim)[:2] == (attacks, ticks)


def test_shields_absorb_damage_before_health():
    assert duel("marine", "zealot")[2][8] == (0.0, 97.0)
    assert duel("stalker", "stalker")[2][5] == (0.0, 77.0)


def hit(victim: str, damage: list[float], hits: int = 1, rules=SMAC, **given):
    """Return health and shield of a victim after attacks of this damage, each by another Zealot (two hits) or Stalker."""
    attackers = "zealot" if hits == 2 else "stalker"
    arena = game(len(damage), len(damage) + 1)
    units = [(attackers, 2.0 * number + 1, 1.0) for number in range(len(damage))] + [(victim, 1.0, 9.0)]
    now = place(units, arena, **{name: [0.0] * len(damage) + [value] for name, value in given.items()})
    matrix = jnp.zeros((len(units), len(units))).at[:-1, -1].set(jnp.array(damage))
    after, _ = tick.apply_damage(now, arena.table[now.unit_type], matrix, replace(arena, rules=rules))
    return float(after.health[-1]), float(after.shield[-1])


def test_armor_reduces_damage_to_health_but_not_to_shields():  # 20 - 5 - 1 = 14
    assert hit("stalker", [20.0], shield=5.0, health=80.0) == (66.0, 0.0)


def test_a_hit_does_at_least_half_a_point_of_damage():
    assert hit("spine_crawler", [5.0], health=300.0) == (297.0, 0.0)
    assert hit("zealot", [1.0], health=100.0, shield=0.0) == (99.5, 0.0)
    assert hit("zealot", [1.0], health=100.0, shield=0.0, rules=scenes.SMACLITE) == (100.0, 0.0)


def test_armor_reduces_each_of_two_hits():
    assert hit("zealot", [8.0], hits=2, health=100.0, shield=0.0) == (86.0, 0.0)
    assert hit("zealot", [8.0], hits=2, health=100.0, shield=10.0) == (95.0, 0.0)  # 8 and 2 on the shield, 6 - 1


def test_damage_of_several_attackers_is_applied_in_sequence():
    assert hit("zealot", [10.0, 10.0, 10.0], health=100.0, shield=15.0) == (100 - 4 - 9, 0.0)
    assert hit("zealot", [10.0, 0.0, 10.0], health=100.0, shield=50.0) == (100.0, 30.0)


def test_a_marine_walks_into_range_and_attacks():
    arena = game(1, 2)
    start = place([("marine", 10, 16), ("marine", 15.9, 16)], arena, target=[1, -1])
    states = after(start, arena, 6)
    was_hit = [float(now.health[1]) < 45 for now in states]
    assert was_hit.index(True) + 1 in (2, 3)
    assert float(states[-1].x[1] - states[-1].x[0]) >= 5.61
    walked = sum(bool(b.x[0] > a.x[0]) for a, b in zip([start, *states], states, strict=False))
    assert walked == 2


def test_a_zealot_arrives_in_the_fifth_step():
    arena = game(1, 2)
    states = after(place([("zealot", 10, 16), ("zealot", 16, 16)], arena, target=[1, -1]), arena, 40)
    first = [float(now.shield[1]) < 50 for now in states].index(True) + 1
    assert first in (35, 36)


def test_a_unit_whose_target_died_stops_with_its_weapon_ready():
    arena = game(2, 4)
    units = [("marine", 10, 16), ("marine", 10, 14), ("marine", 13, 16), ("zealot", 12, 20)]
    now = place(units, arena, target=[2, 2, -1, -1], cooldown=[0, 3, 0, 0], health=[45, 45, 5, 100])
    states = after(now, arena, 5)
    assert float(states[0].health[2]) == 0
    assert int(states[1].target[1]) == -1
    assert float(states[4].cooldown[1]) == 0
    assert float(states[4].shield[3]) == 50


def test_a_medivac_heals_at_its_rate_and_energy_cost():
    arena = game(2, 2)
    now = place([("medivac", 10, 16), ("marine", 12, 16)], arena, target=[1, -1], health=[150, 1])
    states = after(now, arena, 79)
    assert float(states[7].health[1]) == pytest.approx(5.5)
    assert float(states[7].energy[0]) == pytest.approx(48.79625, abs=1e-4)
    assert float(states[77].health[1]) < 45
    assert float(states[78].health[1]) == 45
    assert float(states[78].energy[0]) == pytest.approx(38.257, abs=1e-3)


def test_a_medivac_runs_out_of_energy():
    arena = game(2, 2)
    now = place([("medivac", 10, 16), ("marauder", 12, 16)], arena, target=[1, -1], health=[150, 1])
    healed, ticks = 0.0, 0
    while True:
        following = scenes.one_tick(arena)(replace(now, health=jnp.array([150.0, 1.0])))
        gained = float(following.health[1]) - 1
        if gained < 0.5:
            break
        now, healed, ticks = following, healed + gained, ticks + 1
    assert abs(ticks - 333) <= 1
    assert abs(healed + gained - 186.9) <= 0.6


def test_a_unit_killed_in_this_tick_is_not_healed():
    arena = game(2, 3)
    units = [("medivac", 10, 16), ("marine", 12, 16), ("marine", 15, 16)]
    now = place(units, arena, target=[1, -1, 1], health=[150, 6, 45])
    assert float(after(now, arena, 2)[-1].health[1]) == 0


def test_shields_regenerate_after_ten_seconds():
    arena = game(1, 1)
    states = after(place([("zealot", 16, 16)], arena, shield=[0], ticks_since_hit=[0]), arena, 561)
    shield = [0.0] + [float(now.shield[0]) for now in states]
    assert shield[159] == 0
    assert shield[240] == pytest.approx(10.0, abs=0.25)
    assert shield[558] < 50
    assert shield[561] == 50


LINES = [
    ("a row across the fire, one apart", [(0, offset) for offset in (-2, -1, 0, 1, 2)], 3, 3),
    ("a row across the fire, touching", [(0, 0.75 * offset) for offset in range(-3, 4)], 5, 3),
    ("a column along the fire", [(0.75 * offset, 0) for offset in (-2, -1, 0, 1, 2)], 1, 1),
]


@pytest.mark.parametrize("profile", ["smac", "smaclite"])
@pytest.mark.parametrize("turn", [0.0, 0.7, 2.5])
@pytest.mark.parametrize(("formation", "spots", "smac", "smaclite"), LINES, ids=[line[0] for line in LINES])
def test_a_colossus_burns_a_line(formation, spots, smac, smaclite, turn, profile):
    rules = scenes.EXACT if profile == "smac" else SMACLITE_EXACT
    arena = game(2, 2 + len(spots), rules, profile)
    units = [("colossus", 16 - 6 * np.cos(turn), 16 - 6 * np.sin(turn)), ("zealot", 16, 20)]
    for along, across in spots:
        x = 16 + along * np.cos(turn) - across * np.sin(turn)
        units.append(("zealot", x, 16 + along * np.sin(turn) + across * np.cos(turn)))
    now = place(units, arena, target=[2 + len(spots) // 2] + [-1] * (len(units) - 1))
    burnt = after(now, arena, 1)[0]
    harm = np.asarray(now.health + now.shield - burnt.health - burnt.shield)
    assert (harm[2:] > 0).sum() == (smac if profile == "smac" else smaclite)
    assert set(np.round(harm[2:], 4)) <= ({0.0, 40.0} if profile == "smac" else {0.0, 30.0})
    assert (harm[:2] == 0).all()


def test_a_baneling_damages_all_enemies_around_it_and_dies():
    arena = game(2, 5)
    units = [("baneling", 16, 16), ("marine", 16, 17), ("marine", 16, 15.2), ("marine", 18.55, 16), ("marine", 13.4, 16)]
    burst = after(place(units, arena, target=[2, -1, -1, -1, -1]), arena, 1)[0]
    assert burst.health.tolist() == [0, 45, 10, 10, 45]


@pytest.mark.parametrize(("victim", "needed"), [("marine", 2), ("zealot", 5), ("zergling", 1)])
def test_a_kill_takes_this_many_banelings(victim, needed):
    health, shield = {"marine": (45, 0), "zealot": (100, 50), "zergling": (35, 0)}[victim]
    for count in (needed - 1, needed):
        left = hit(victim, [35.0] * count, health=health, shield=shield)[0] if count else health
        assert (left > 0) == (count < needed)


@pytest.mark.parametrize(("jitter", "longer"), [(0.0, -1.0), (0.5, 0.5), (1.0, 2.0)])
def test_jitter_changes_the_cooldown_by_minus_one_to_two_ticks(jitter, longer):
    arena = game(1, 2, replace(scenes.EXACT, jitter=True))
    start = place([("marine", 10, 16), ("marine", 14, 16)], arena, target=[1, -1])
    stats = arena.table[start.unit_type]
    shot = jax.jit(lambda now: tick.tick(now, stats, jnp.full(2, jitter), arena))(start)
    assert float(shot.cooldown[0]) == pytest.approx(float(stats.attack_period[0]) + longer)


def test_an_enemy_stalker_attacks_at_its_range():
    arena = game(1, 2)
    start = place([("stalker", 6, 16), ("stalker", 20, 16)], arena, **ATTACK_MOVE, goal_x=[6, 6], goal_y=[16, 16])
    for now in after(start, arena, 60):
        if now.shield[0] < 80:
            break
    assert 7.06 < float(now.x[1] - now.x[0]) <= 7.25


def test_an_enemy_zealot_leaves_its_course_for_a_unit_that_it_notices():
    arena = game(1, 2)
    start = place([("stalker", 10, 12.5), ("zealot", 20, 16)], arena, **ATTACK_MOVE, goal_x=[0, 4], goal_y=[0, 16])
    before = start
    for now in after(start, arena, 120):
        if abs(float(now.y[1]) - 16) > 1e-3:
            break
        before = now
    distance = np.hypot(before.x[1] - before.x[0], before.y[1] - before.y[0])
    assert 6.125 - 0.15 <= float(distance) <= 6.125


def test_an_enemy_keeps_its_target_while_it_is_in_range():
    arena = game(2, 3)
    start = place(
        [("marine", 10, 16), ("marine", 15.5, 20), ("marine", 15.5, 16)], arena, attack_moving=[0, 0, 1], target=[-1, -1, 0]
    )
    near = replace(start, x=jnp.array([10.0, 15.5, 15.5]), y=jnp.array([16.0, 19.0, 16.0]))
    kept = after(near, arena, 3)[-1]
    assert int(kept.target[2]) == 0
    moved = replace(kept, x=jnp.array([9.7, 15.5, 15.5]))
    assert int(after(moved, arena, 1)[0].target[2]) == 1


def test_an_enemy_that_notices_nobody_pursues_its_last_attacker():
    arena = game(1, 2)
    start = place([("stalker", 8, 16), ("zealot", 16, 16)], arena, attack_moving=[0, 1], attacker=[-1, 0])
    assert float(after(start, arena, 3)[-1].x[1]) < 16
    assert float(after(replace(start, attacker=jnp.array([-1, -1], jnp.int16)), arena, 3)[-1].x[1]) == 16


def test_with_smaclites_rules_an_enemy_retaliates():
    arena = game(2, 3, SMACLITE_EXACT, "smaclite")
    units = [("stalker", 8, 16), ("stalker", 22, 16), ("zealot", 15.5, 16)]
    alone = place(units, arena, attack_moving=[0, 0, 1], target=[-1, -1, -1])
    assert int(after(alone, arena, 1)[0].target[2]) == -1
    aimed_at = replace(alone, target=jnp.array([2, -1, -1], jnp.int16))
    answering = after(aimed_at, arena, 1)[0]
    assert int(answering.target[2]) == 0
    nearer = replace(answering, x=answering.x.at[1].set(19.0))  # it notices this one while it pursues the other
    assert int(after(nearer, arena, 1)[0].target[2]) == 0
    assert int(after(replace(nearer, target=jnp.array([-1, -1, 0], jnp.int16)), arena, 1)[0].target[2]) == 1


def test_attack_moving_medivacs_heal_the_lowest_fraction_of_health():
    arena = game(0, 4)
    units = [("medivac", 16, 16), ("marine", 14, 16), ("marauder", 18, 16), ("medivac", 16, 19)]
    now = place(units, arena, attack_moving=[1, 1, 1, 1], health=[150, 40, 60, 20])
    assert int(after(now, arena, 1)[0].target[0]) == 2
    tired = replace(now, energy=jnp.array([4.0, 0, 0, 0]))
    assert int(after(tired, arena, 1)[0].target[0]) == -1


def test_with_smaclites_rules_weapons_fire_at_corpses():
    for rules, profile, spent in ((scenes.EXACT, "smac", False), (SMACLITE_EXACT, "smaclite", True)):
        arena = game(1, 2, rules, profile)
        now = place([("marine", 10, 16), ("marine", 13, 16)], arena, target=[1, -1], health=[45, 0])
        assert (float(after(now, arena, 1)[0].cooldown[0]) > 0) == spent


def test_with_smaclites_rules_healers_stay_with_fighting_allies():
    arena = game(1, 4, SMACLITE_EXACT, "smaclite")
    units = [("marine", 10, 16), ("marine", 14, 16), ("marine", 18, 16), ("medivac", 18, 17)]
    now = place(units, arena, attack_moving=[0, 1, 1, 1], target=[-1, 0, -1, -1])
    assert int(after(now, arena, 1)[0].target[3]) == 1  # undamaged, but it has a target
    assert int(after(replace(now, target=jnp.full(4, -1, jnp.int16), x=now.x.at[0].set(1.0)), arena, 1)[0].target[3]) == -1


def test_with_smaclites_rules_healers_do_not_overtake_allies():
    arena = game(0, 2, SMACLITE_EXACT, "smaclite")
    on_their_way = {"attack_moving": [1, 1], "moving": [1, 1], "goal_x": [4, 4], "goal_y": [16, 16]}
    near = place([("marauder", 20, 16), ("medivac", 20, 18)], arena, **on_their_way)
    alone = place([("marauder", 29, 29), ("medivac", 20, 18)], arena, **on_their_way)
    for start, speed in ((near, 3.15), (alone, 3.5)):
        now = after(start, arena, 1)[0]
        assert float(jnp.hypot(now.x[1] - 20, now.y[1] - 18)) == pytest.approx(speed / 16, abs=0.001)


def test_hydralisks_regenerate_health_and_dead_units_do_not():
    arena = game(1, 2)
    now = place([("hydralisk", 10, 16), ("zergling", 20, 16)], arena, health=[40, 0])
    later = after(now, arena, 16)[-1]
    assert float(later.health[0]) == pytest.approx(40.2734, abs=1e-3)
    assert float(later.health[1]) == 0
