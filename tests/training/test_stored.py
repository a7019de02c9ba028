"""Stored configs as plain values."""

import json
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

from refil import plugins
from refil.errors import RefilError
from refil.training import config as configs
from refil.training import stored
from tests.tiny_runs import small

USER_ENV = '"""Mine."""\nfrom refil.envs.group_matching import Config, build\n'
MARKER = "open({!r}, 'w').close()\n"


def with_env(**env) -> str:
    return json.dumps(json.loads(small().to_json()) | {"env": env})


def test_a_config_has_the_name_and_hash_of_a_users_file_and_the_run_its_source(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(USER_ENV)
    config = configs.default(str(path), "refil")
    assert config.env.name == "mine.py"
    assert json.loads(config.to_json())["env"]["sha256"] == config.env.sha256
    assert config.code() == {"code/env/mine.py": USER_ENV.encode()}
    assert "sha256" not in json.loads(config.to_json())["method"]


def test_comparing_runs_no_code_and_names_what_differs(tmp_path):
    marker, path = tmp_path / "marker", tmp_path / "mine.py"
    path.write_text(USER_ENV)
    config = configs.default(str(path), "refil")
    assert configs.compare(config.to_json(), "here", config) == {}
    assert configs.compare(config.with_options(steps=7).to_json(), "here", config) == {"train.steps": (7, 1_000_000)}
    path.write_text(MARKER.format(str(marker)) + USER_ENV)
    values = json.loads(config.to_json())
    evil = json.dumps(values | {"env": values["env"] | {"sha256": 64 * "e"}})
    ((option, (saved, asked)),) = configs.compare(evil, "here", config).items()
    assert (option, saved, asked) == (
        "env.name",
        "mine.py (SHA-256 eeeeeeeeeeee)",
        f"mine.py (SHA-256 {config.env.sha256[:12]})",
    )
    assert set(configs.compare(small().to_json(), "here", config)) == {"env.name"}
    assert not marker.exists()


def test_a_missing_hash_is_a_difference_where_a_config_must_be_complete(tmp_path):
    """Version 0.2.0 stored the path of a file, and no hash; so do its checkpoints, which name no code to run."""
    path = tmp_path / "mine.py"
    path.write_text(USER_ENV)
    config = configs.default(str(path), "refil")
    values = json.loads(config.to_json())
    del values["env"]["sha256"]
    old = json.dumps(values | {"env": values["env"] | {"name": "/long/gone/mine.py"}})
    assert configs.compare(old, "here", config) == {}
    assert configs.compare(old, "here", config, complete=True) == {"env.sha256": ("", config.env.sha256)}
    other = config.with_options(lr=0.1)
    assert set(configs.compare(old, "here", other, complete=True)) == {"env.sha256", "algorithm.lr"}


def test_code_is_loaded_from_the_folder_of_the_run_and_nowhere_else(tmp_path):
    (tmp_path / "mine.py").write_text(USER_ENV + "# of the user\n")
    config = configs.default(str(tmp_path / "mine.py"), "refil")
    with pytest.raises(RefilError, match=r"here: there is no file .*run/code/env/mine.py"):
        configs.read(config.to_json(), "here", tmp_path / "run")
    copy = tmp_path / "run" / "code" / "env" / "mine.py"
    copy.parent.mkdir(parents=True)
    copy.write_text(USER_ENV + "# of the user\n")
    assert configs.read(config.to_json(), "here", tmp_path / "run") == config
    copy.write_text(USER_ENV + "# changed\n")
    with pytest.raises(RefilError, match=r"here: .*run/code/env/mine.py has changed: its SHA-256 is "):
        configs.read(config.to_json(), "here", tmp_path / "run", trust=True)


def test_a_name_cannot_lead_out_of_the_folder_of_the_run(tmp_path):
    evil = tmp_path / "evil.py"
    evil.write_text(MARKER.format(str(tmp_path / "marker")))
    with pytest.raises(RefilError, match=r"there is no file .*run/code/env/evil.py"):
        configs.read(with_env(name="../../../evil.py", sha256=64 * "0"), "here", tmp_path / "run", trust=True)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    "path", ["env.agents", "method.heads", "train.seed", "algorithm.lr", "output.log_every"], ids=lambda path: path
)
def test_a_missing_option_is_refused_by_its_name(path):
    values = json.loads(small().to_json())
    section, name = path.split(".")
    del values[section][name]
    with pytest.raises(RefilError, match=f"here: the config lacks {path}; missing options are not replaced by defaults"):
        configs.read(json.dumps(values), "here")


OPTIONS = [json.loads(line) for line in (Path(__file__).parent / "options_0_2_0.jsonl").read_text().splitlines()]


def all_options() -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the section, the plug-in or algorithm, and the options that version 0.2.0 stored for it."""
    return [(each["section"], name, tuple(each["options"])) for each in OPTIONS for name in each["of"] or [""]]


def current_options(section: str, name: str) -> set[str]:
    """Return the options that this version has."""
    if section == "algorithm":
        return {field.name for field in fields(import_module(f"refil.training.{name}.config").Config)}
    if section in ("env", "method"):
        package = configs.ENVS if section == "env" else configs.METHODS
        return {field.name for field in fields(plugins.load(package, name).Config)}
    return {field.name for field in fields(getattr(small(), section))}


@pytest.mark.parametrize(
    ("section", "name", "before"), all_options(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_options_newer_than_version_0_2_0_may_be_missing(section, name, before):
    new = {f"{section}.{option}" for option in current_options(section, name) - set(before)}
    forgotten = sorted(new - set(stored.MAY_BE_MISSING))
    assert not forgotten, (
        f"{', '.join(forgotten)} of {name or section} did not exist in version 0.2.0, whose configs could no longer be "
        f"read: add it to MAY_BE_MISSING in refil/training/stored.py, and let its default change nothing"
    )


def test_agents_of_earlier_versions_have_no_embedding_of_their_own():
    values = json.loads(configs.default("group_matching", "refil_pqn").to_json())
    assert values["method"].pop("own_embedding")
    assert not configs.read(json.dumps(values), "here").method.options.own_embedding


def test_a_missing_section_is_refused_by_its_options():
    values = json.loads(small().to_json())
    del values["train"]
    with pytest.raises(RefilError, match=r"the config lacks train.steps, train.seeds, train.seed"):
        configs.read(json.dumps(values), "here")


def test_options_that_are_not_stored_may_be_missing():
    assert "stop_after" not in small().to_json()
    stored.check_complete(small(), json.loads(small().to_json()))


def test_differences_need_no_code_and_ignore_options_that_one_config_lacks():
    saved = {"env": {"name": "/home/a/mine.py", "size": 3}, "method": {"name": "refil"}, "train": {"seed": 0}}
    asked = {"env": {"name": "/home/b/mine.py"}, "method": {"name": "qtran"}, "train": {"seed": 0, "new": 1}}
    assert stored.differences(json.dumps(saved), json.dumps(asked)) == {"method.name": ("refil", "qtran")}


def test_text_that_is_no_config_cannot_be_compared():
    for text in ("", "[1]", "3"):
        with pytest.raises(RefilError, match="cannot be compared"):
            stored.differences(text, "{}")
