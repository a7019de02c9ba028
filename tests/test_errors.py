"""Hints in errors."""

from refil.errors import closest, list_choices


def test_the_closest_choice_is_found_whatever_its_case():
    assert closest("refill", ["roma", "refil"]) == "refil"
    assert closest("mmm", ["3m", "MMM"]) == "MMM"
    assert closest("M", ["m", "M"]) == "M"
    assert closest("zzz", ["refil"]) is None


def test_all_choices_follow_the_closest():
    assert list_choices("2 agent", ("2 agents", "all")) == "did you mean '2 agents'? Available: 2 agents, all"
    assert list_choices("x", ("2 agents", "all")) == "Available: 2 agents, all"
