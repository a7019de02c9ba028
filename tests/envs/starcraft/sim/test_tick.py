"""One game loop, with numbers worked by hand from the catalogue; T1 to T24 are the cases of docs/fidelity.md."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil.envs.starcraft.sim import tick
from refil.envs.starcraft.sim.rules import SMAC
from tests.envs.starcraft import scenes
from tests.envs.starcraft.scenes import STILL_AS_SMACLITE, after, duel, game, world

DUELS = [  # shooter, victim, attacks, loops from the first to the last
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


@pytest.mark.parametrize(("shooter", "victim", "attacks", "loops"), DUELS, ids=lambda value: str(value))
def test_so_many_attacks_in_so_many_loops_kill(shooter, victim, attacks, loops):  # T1-T8
    assert duel(shooter, victim)[:2] == (attacks, loops)


def test_shields_go_first():  # T2, T5
    assert duel("marine", "zealot")[2][8] == (0.0, 97.0)
    assert duel("stalker", "stalker")[2][5] == (0.0, 77.0)


def blow(victim: str, power: list[float], strikes: int = 1, rules=SMAC, **given):
    """Health and shield of a victim after blows of this power by as many Zealots or Stalkers."""
    shooters = "zealot" if strikes == 2 else "stalker"
    arena = game(len(power), len(power) + 1)
    units = [(shooters, 2.0 * number + 1, 1.0) for number in range(len(power))] + [(victim, 1.0, 9.0)]
    now = world(units, arena, **{name: [0.0] * len(power) + [value] for name, value in given.items()})
    matrix = jnp.zeros((len(units), len(units))).at[:-1, -1].set(jnp.array(power))
    after, _ = tick.struck(now, arena.table[now.kind], matrix, replace(arena, rules=rules))
    return float(after.health[-1]), float(after.shield[-1])


def test_armour_lessens_what_the_shield_lets_through():  # T9: 20 - 5 - 1 = 14
    assert blow("stalker", [20.0], shield=5.0, health=80.0) == (66.0, 0.0)


def test_a_blow_does_half_a_point_at_least():  # T10
    assert blow("spine_crawler", [5.0], health=300.0) == (297.0, 0.0)
    assert blow("zealot", [1.0], health=100.0, shield=0.0) == (99.5, 0.0)
    assert blow("zealot", [1.0], health=100.0, shield=0.0, rules=scenes.SMACLITE) == (100.0, 0.0)


def test_each_of_two_strikes_meets_armour():
    assert blow("zealot", [8.0], strikes=2, health=100.0, shield=0.0) == (86.0, 0.0)
    assert blow("zealot", [8.0], strikes=2, health=100.0, shield=10.0) == (95.0, 0.0)  # 8 and 2 on the shield, 6 - 1


def test_blows_of_several_follow_one_another():
    assert blow("zealot", [10.0, 10.0, 10.0], health=100.0, shield=15.0) == (100 - 4 - 9, 0.0)
    assert blow("zealot", [10.0, 0.0, 10.0], health=100.0, shield=50.0) == (100.0, 30.0)


def test_a_marine_walks_into_range_and_shoots():  # T13
    arena = game(1, 2)
    start = world([("marine", 10, 16), ("marine", 15.9, 16)], arena, target=[1, -1])
    worlds = after(start, arena, 6)
    hurt = [float(now.health[1]) < 45 for now in worlds]
    assert hurt.index(True) + 1 in (2, 3)
    assert float(worlds[-1].x[1] - worlds[-1].x[0]) >= 5.61
    walked = sum(bool(b.x[0] > a.x[0]) for a, b in zip([start, *worlds], worlds, strict=False))
    assert walked == 2


def test_a_zealot_arrives_in_the_fifth_step():  # T14
    arena = game(1, 2)
    worlds = after(world([("zealot", 10, 16), ("zealot", 16, 16)], arena, target=[1, -1]), arena, 40)
    first = [float(now.shield[1]) < 50 for now in worlds].index(True) + 1
    assert first in (35, 36)


def test_one_whose_target_died_stands_idle_with_its_weapon_ready():
    arena = game(2, 4)
    units = [("marine", 10, 16), ("marine", 10, 14), ("marine", 13, 16), ("zealot", 12, 20)]
    now = world(units, arena, target=[2, 2, -1, -1], cooldown=[0, 3, 0, 0], health=[45, 45, 5, 100])
    worlds = after(now, arena, 5)
    assert float(worlds[0].health[2]) == 0
    assert int(worlds[1].target[1]) == -1
    assert float(worlds[4].cooldown[1]) == 0
    assert float(worlds[4].shield[3]) == 50


def test_a_medivac_mends_at_its_rate_and_price():  # T17
    arena = game(2, 2)
    now = world([("medivac", 10, 16), ("marine", 12, 16)], arena, target=[1, -1], health=[150, 1])
    worlds = after(now, arena, 79)
    assert float(worlds[7].health[1]) == pytest.approx(5.5)
    assert float(worlds[7].energy[0]) == pytest.approx(48.79625, abs=1e-4)
    assert float(worlds[77].health[1]) < 45
    assert float(worlds[78].health[1]) == 45
    assert float(worlds[78].energy[0]) == pytest.approx(38.257, abs=1e-3)


def test_a_medivac_runs_out_of_energy():  # T18
    arena = game(2, 2)
    now = world([("medivac", 10, 16), ("marauder", 12, 16)], arena, target=[1, -1], health=[150, 1])
    healed, loops = 0.0, 0
    while True:
        following = scenes.one_loop(arena)(replace(now, health=jnp.array([150.0, 1.0])))
        gained = float(following.health[1]) - 1
        if gained < 0.5:
            break
        now, healed, loops = following, healed + gained, loops + 1
    assert abs(loops - 333) <= 1
    assert abs(healed + gained - 186.9) <= 0.6


def test_what_is_struck_dead_is_not_mended():
    arena = game(2, 3)
    units = [("medivac", 10, 16), ("marine", 12, 16), ("marine", 15, 16)]
    now = world(units, arena, target=[1, -1, 1], health=[150, 6, 45])
    assert float(after(now, arena, 2)[-1].health[1]) == 0


def test_shields_come_back_after_ten_seconds():  # T19
    arena = game(1, 1)
    worlds = after(world([("zealot", 16, 16)], arena, shield=[0], quiet=[0]), arena, 561)
    shield = [0.0] + [float(now.shield[0]) for now in worlds]
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
def test_a_colossus_burns_a_line(formation, spots, smac, smaclite, turn, profile):  # T20
    rules = scenes.STILL if profile == "smac" else STILL_AS_SMACLITE
    arena = game(2, 2 + len(spots), rules, profile)
    units = [("colossus", 16 - 6 * np.cos(turn), 16 - 6 * np.sin(turn)), ("zealot", 16, 20)]
    for along, across in spots:
        x = 16 + along * np.cos(turn) - across * np.sin(turn)
        units.append(("zealot", x, 16 + along * np.sin(turn) + across * np.cos(turn)))
    now = world(units, arena, target=[2 + len(spots) // 2] + [-1] * (len(units) - 1))
    burnt = after(now, arena, 1)[0]
    harm = np.asarray(now.health + now.shield - burnt.health - burnt.shield)
    assert (harm[2:] > 0).sum() == (smac if profile == "smac" else smaclite)
    assert set(np.round(harm[2:], 4)) <= ({0.0, 40.0} if profile == "smac" else {0.0, 30.0})
    assert (harm[:2] == 0).all()


def test_a_baneling_takes_its_surroundings_with_it():  # T21
    arena = game(2, 5)
    units = [("baneling", 16, 16), ("marine", 16, 17), ("marine", 16, 15.2), ("marine", 18.55, 16), ("marine", 13.4, 16)]
    burst = after(world(units, arena, target=[2, -1, -1, -1, -1]), arena, 1)[0]
    assert burst.health.tolist() == [0, 45, 10, 10, 45]


@pytest.mark.parametrize(("victim", "needed"), [("marine", 2), ("zealot", 5), ("zergling", 1)])
def test_so_many_banelings_it_takes(victim, needed):  # T21
    health, shield = {"marine": (45, 0), "zealot": (100, 50), "zergling": (35, 0)}[victim]
    for count in (needed - 1, needed):
        left = blow(victim, [35.0] * count, health=health, shield=shield)[0] if count else health
        assert (left > 0) == (count < needed)


@pytest.mark.parametrize(("jitter", "longer"), [(0.0, -1.0), (0.5, 0.5), (1.0, 2.0)])
def test_reloading_takes_a_loop_less_to_two_more(jitter, longer):
    arena = game(1, 2, replace(scenes.STILL, jitter=True))
    start = world([("marine", 10, 16), ("marine", 14, 16)], arena, target=[1, -1])
    traits = arena.table[start.kind]
    shot = jax.jit(lambda now: tick.tick(now, traits, jnp.full(2, jitter), arena))(start)
    assert float(shot.cooldown[0]) == pytest.approx(float(traits.period[0]) + longer)


def test_an_enemy_stalker_opens_fire_at_its_range():  # T23
    arena = game(1, 2)
    start = world([("stalker", 6, 16), ("stalker", 20, 16)], arena, roams=[0, 1], going=[0, 1], goal_x=[6, 6], goal_y=[16, 16])
    for now in after(start, arena, 60):
        if now.shield[0] < 80:
            break
    assert 7.06 < float(now.x[1] - now.x[0]) <= 7.25


def test_an_enemy_zealot_leaves_its_path_for_what_it_notices():  # T23
    arena = game(1, 2)
    start = world([("stalker", 10, 12.5), ("zealot", 20, 16)], arena, roams=[0, 1], going=[0, 1], goal_x=[0, 4], goal_y=[0, 16])
    before = start
    for now in after(start, arena, 120):
        if abs(float(now.y[1]) - 16) > 1e-3:
            break
        before = now
    distance = np.hypot(before.x[1] - before.x[0], before.y[1] - before.y[0])
    assert 6.125 - 0.15 <= float(distance) <= 6.125


def test_an_enemy_keeps_its_target_while_that_is_in_range():  # T24
    arena = game(2, 3)
    start = world([("marine", 10, 16), ("marine", 15.5, 20), ("marine", 15.5, 16)], arena, roams=[0, 0, 1], target=[-1, -1, 0])
    near = replace(start, x=jnp.array([10.0, 15.5, 15.5]), y=jnp.array([16.0, 19.0, 16.0]))
    kept = after(near, arena, 3)[-1]
    assert int(kept.target[2]) == 0
    moved = replace(kept, x=jnp.array([9.7, 15.5, 15.5]))
    assert int(after(moved, arena, 1)[0].target[2]) == 1


def test_an_enemy_out_of_sight_of_all_pursues_who_hurt_it():
    arena = game(1, 2)
    start = world([("stalker", 8, 16), ("zealot", 16, 16)], arena, roams=[0, 1], attacker=[-1, 0])
    assert float(after(start, arena, 3)[-1].x[1]) < 16
    assert float(after(replace(start, attacker=jnp.array([-1, -1], jnp.int16)), arena, 3)[-1].x[1]) == 16


def test_by_smaclites_rules_an_enemy_answers_who_goes_for_it():
    arena = game(2, 3, STILL_AS_SMACLITE, "smaclite")
    units = [("stalker", 8, 16), ("stalker", 22, 16), ("zealot", 15.5, 16)]
    alone = world(units, arena, roams=[0, 0, 1], target=[-1, -1, -1])
    assert int(after(alone, arena, 1)[0].target[2]) == -1
    aimed_at = replace(alone, target=jnp.array([2, -1, -1], jnp.int16))
    answering = after(aimed_at, arena, 1)[0]
    assert int(answering.target[2]) == 0
    nearer = replace(answering, x=answering.x.at[1].set(19.0))  # one that it notices, while it goes for the other
    assert int(after(nearer, arena, 1)[0].target[2]) == 0
    assert int(after(replace(nearer, target=jnp.array([-1, -1, 0], jnp.int16)), arena, 1)[0].target[2]) == 1


def test_roaming_medivacs_mend_the_worst_off():
    arena = game(0, 4)
    units = [("medivac", 16, 16), ("marine", 14, 16), ("marauder", 18, 16), ("medivac", 16, 19)]
    now = world(units, arena, roams=[1, 1, 1, 1], health=[150, 40, 60, 20])
    assert int(after(now, arena, 1)[0].target[0]) == 2
    tired = replace(now, energy=jnp.array([4.0, 0, 0, 0]))
    assert int(after(tired, arena, 1)[0].target[0]) == -1


def test_by_smaclites_rules_a_shot_at_a_corpse_is_spent():
    for rules, profile, spent in ((scenes.STILL, "smac", False), (STILL_AS_SMACLITE, "smaclite", True)):
        arena = game(1, 2, rules, profile)
        now = world([("marine", 10, 16), ("marine", 13, 16)], arena, target=[1, -1], health=[45, 0])
        assert (float(after(now, arena, 1)[0].cooldown[0]) > 0) == spent


def test_by_smaclites_rules_a_healer_stays_with_friends_who_fight():
    arena = game(1, 4, STILL_AS_SMACLITE, "smaclite")
    units = [("marine", 10, 16), ("marine", 14, 16), ("marine", 18, 16), ("medivac", 18, 17)]
    now = world(units, arena, roams=[0, 1, 1, 1], target=[-1, 0, -1, -1])
    assert int(after(now, arena, 1)[0].target[3]) == 1  # unhurt, but in a fight
    assert int(after(replace(now, target=jnp.full(4, -1, jnp.int16), x=now.x.at[0].set(1.0)), arena, 1)[0].target[3]) == -1


def test_by_smaclites_rules_a_healer_does_not_overtake_its_friends():
    arena = game(0, 2, STILL_AS_SMACLITE, "smaclite")
    on_their_way = {"roams": [1, 1], "going": [1, 1], "goal_x": [4, 4], "goal_y": [16, 16]}
    beside = world([("marauder", 20, 16), ("medivac", 20, 18)], arena, **on_their_way)
    alone = world([("marauder", 29, 29), ("medivac", 20, 18)], arena, **on_their_way)
    for start, speed in ((beside, 3.15), (alone, 3.5)):
        now = after(start, arena, 1)[0]
        assert float(jnp.hypot(now.x[1] - 20, now.y[1] - 18)) == pytest.approx(speed / 16, abs=0.001)


def test_hydralisks_recover_slowly_and_the_dead_never():
    arena = game(1, 2)
    now = world([("hydralisk", 10, 16), ("zergling", 20, 16)], arena, health=[40, 0])
    later = after(now, arena, 16)[-1]
    assert float(later.health[0]) == pytest.approx(40.2734, abs=1e-3)
    assert float(later.health[1]) == 0
