"""Files that an earlier process has left."""

import pytest

from refil.storage import leftovers


@pytest.mark.filterwarnings("ignore:.*is ignored")
def test_files_of_a_start_are_moved_and_those_of_others_stay(tmp_path):
    for name, content in {"metrics.jsonl": "{}", "by_task.json": "", "notes": "x"}.items():
        (tmp_path / name).write_text(content)
    for seed in (0, 7):
        (tmp_path / f"model_seed_{seed}.safetensors").write_text("x")
    files = leftovers.find(tmp_path, ("metrics.jsonl", "by_task.json"), [0])
    assert [path.name for path in files] == ["metrics.jsonl", "model_seed_0.safetensors"]
    assert leftovers.archive(tmp_path, files) == tmp_path / "aborted_1"
    assert leftovers.archive(tmp_path, [tmp_path / "notes"]) == tmp_path / "aborted_2"
    assert leftovers.archive(tmp_path, []) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("aborted_1", "aborted_2", "by_task.json", "model_seed_7.safetensors")
    ]
