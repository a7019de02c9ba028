"""`refil watch`."""

import pytest

from refil.team import Team


def test_a_page_shows_episodes_of_the_chosen_model(refil, run, tmp_path):
    page = tmp_path / "page.html"
    out, progress, code = refil("watch", str(run.path), "--html", str(page), "--episodes", "2", "--model", "1")
    assert code == 0
    assert "compiling and playing 2 episodes" in progress
    assert str(page) in out
    assert page.read_text().count("group_matching, ") == 2
    assert "agent 0" in page.read_text()


def test_without_a_file_a_page_is_named_after_the_run(refil, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, _, code = refil("watch", str(run.path), "--episodes", "1", "--compare", str(run.path))
    assert code == 0
    text = (tmp_path / f"{run.path.name}.html").read_text()
    assert text.count("group_matching, ") == 2  # two policies from the same start


@pytest.mark.slow
def test_the_given_task_is_played(refil, untrained_team, tmp_path):
    team, page = untrained_team("3-8sz"), tmp_path / "page.html"
    refil("watch", str(team.path), "--html", str(page), "--episodes", "3", "--task", "2s1z")
    assert page.read_text().count(": 2s1z, ") == 3
    _, error, code = refil("watch", str(team.path), "--html", str(page), "--task", "9z")
    assert code == 2
    assert "unknown task '9z'; available: 3s, 2s1z, " in " ".join(error.split())


def test_bad_arguments_are_refused(refil, run, tmp_path):
    assert "no team and no folder" in refil("watch", "nothing")[1]
    assert (
        "--compare shows two teams on a page" in refil("watch", str(run.path), "--png", "x.png", "--compare", str(run.path))[1]
    )
    assert "has no model of seed 7; available: 0, 1" in refil("watch", str(run.path), "--png", "x.png", "--model", "7")[1]
    assert refil("watch", str(tmp_path), "--png", "x.png")[2] == 2


def test_teams_of_different_environments_are_refused_before_anything_is_played(refil, tmp_path, monkeypatch):
    monkeypatch.setattr(Team, "play", lambda *arguments: pytest.fail("played"))
    _, error, code = refil("watch", "3-8csz", "--compare", "3-8sz", "--html", str(tmp_path / "page.html"))
    assert code == 2
    assert "3-8sz plays 3-8sz and 3-8csz plays 3-8csz; only teams of one environment compare" in " ".join(error.split())


def test_files_that_cannot_be_written_are_refused_before_anything_is_played(refil, run, tmp_path, monkeypatch):
    monkeypatch.setattr(Team, "play", lambda *arguments: pytest.fail("played"))
    for flag in ("--html", "--gif", "--png"):
        name = f"page.{flag.removeprefix('--')}"
        assert "there is no folder" in refil("watch", str(run.path), flag, str(tmp_path / "nowhere" / name))[1]
        assert "should end in ." in refil("watch", str(run.path), flag, str(tmp_path / "page.txt"))[1]
        (tmp_path / name).mkdir()
        assert "it is a folder" in refil("watch", str(run.path), flag, str(tmp_path / name))[1]


def test_what_cannot_be_shown_is_refused_before_anything_is_played(refil, run, tmp_path, monkeypatch):
    monkeypatch.setattr(Team, "play", lambda *arguments: pytest.fail("played"))
    file = tmp_path / "file"
    file.write_text("")
    page = ("--html", str(tmp_path / "page.html"))
    for arguments, message in [
        ((*page, "--compare", "missing"), "there is no team and no folder 'missing'"),
        ((*page, "--compare", "3-8sz"), "3-8sz plays 3-8sz and"),
        ((*page, "--task", "nothing"), "unknown task 'nothing'"),
        ((*page, "--model", "7"), "has no model of seed 7"),
        (("--frames", str(file)), f"cannot make the folder {file}: {file} is a file"),
        (("--frames", str(file / "in" / "it")), f"{file} is a file"),
    ]:
        _, error, code = refil("watch", str(run.path), *arguments)
        assert code == 2
        assert message in error
        assert "compiling" not in error
    assert not (tmp_path / "page.html").exists()
