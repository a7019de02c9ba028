"""Splits: the shipped file follows the rule, and environments play one part of it with the sizes of the whole set."""

import json

import numpy as np
import pytest

import refil
from refil.envs.starcraft import scenarios, splits
from refil.errors import RefilError

SETS = ("3-8sz", "3-8csz", "3-8MMM")


def sizes(name: str) -> dict[str, int]:
    return {scenarios.task_name(*pair): sum(pair[0].values()) for pair in scenarios.SCENARIOS[name].tasks()}


def test_the_rule_holds_out_a_fifth_of_the_tasks_of_each_size():
    tasks = {f"task {number}": 3 if number < 10 else 4 for number in range(13)}
    held_out = splits.draw("some set", tasks)
    assert [tasks[task] for task in held_out] == [3, 3, 4]  # a fifth of 10; of 3, rounded, but at least one
    assert held_out != splits.draw("another set", tasks)


@pytest.mark.parametrize("name", SETS)
def test_the_shipped_split_was_drawn_by_the_rule(name):
    assert splits.held_out()[name] == splits.draw(name, sizes(name))
    assert len(splits.held_out()[name]) == {"3-8sz": 8, "3-8csz": 14, "3-8MMM": 14}[name]


def test_the_shipped_split_never_changes():
    stored = json.loads(splits.PATH.read_text())
    assert stored["version"] == splits.VERSION == 1
    assert stored["held-out"]["3-8sz"] == ["1s2z", "3s1z", "3s2z", "6s", "7s", "7z", "8s", "8z"]


def test_both_parts_together_are_the_set_and_have_its_sizes_and_rewards():
    whole, train, held_out = (refil.make("3-8sz", tasks=tasks).core for tasks in ("all", "train", "held-out"))
    assert set(train.task_names).isdisjoint(held_out.task_names)
    assert set(train.task_names) | set(held_out.task_names) == set(whole.task_names)
    assert whole.spec == train.spec == held_out.spec
    assert whole.reward_divisor == train.reward_divisor == held_out.reward_divisor
    row = whole.task_names.index("8z")
    np.testing.assert_array_equal(whole.armies[row], held_out.armies[held_out.task_names.index("8z")])


def test_sets_without_a_split_and_other_words_are_refused():
    with pytest.raises(RefilError, match=r"env\.tasks is 'train', but .* not split; choose 'all', .*: 3-8sz, 3-8csz, 3-8MMM$"):
        refil.make("2-4m", tasks="train")
    with pytest.raises(RefilError, match="should be one of all, train, held-out, not test"):
        refil.make("3-8sz", tasks="test")


def test_larger_sets_have_9_to_12_units():
    assert set(sizes("9-12sz").values()) == set(sizes("9-12MMM").values()) == {9, 10, 11, 12}
    assert (len(sizes("9-12sz")), len(sizes("9-12MMM"))) == (10 + 11 + 12 + 13, 27 + 30 + 33 + 36)
