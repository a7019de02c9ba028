"""Devices that train one seed together do the same as one device, up to rounding."""

import pytest

from refil.shards import Shards, current, shared_by
from tests.many_devices import check


def test_programs_are_traced_for_shared_seeds_only_where_that_is_asked():
    assert current.get() is None
    with shared_by(Shards(2, True)):
        assert current.get() == Shards(2, True)
    assert current.get() is None


def test_parts_that_devices_work_on_make_up_the_whole():
    check("parts")


def test_one_seed_on_four_devices_plays_and_learns_from_replay_as_on_one():
    check("replay")


def test_one_seed_on_four_devices_learns_on_policy_as_on_one():
    check("onpolicy")


@pytest.mark.slow
def test_two_seeds_on_four_devices_have_two_each():
    check("seeds")


@pytest.mark.slow
def test_losses_that_cannot_be_added_up_are_computed_by_every_device():
    check("whole_batches")


@pytest.mark.slow
def test_numbers_that_devices_do_not_divide_are_no_obstacle():
    check("odd")


@pytest.mark.slow
def test_a_run_that_moves_from_one_device_to_four_and_to_two_learns_the_same(tmp_path):
    check("runs", str(tmp_path))
