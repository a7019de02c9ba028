"""Regular files, and what is refused in their place."""

import os

import pytest

from refil.storage import regular


def test_fifos_folders_and_devices_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "device").symlink_to("/dev/zero")
    for mode in ("rb", "ab", "r+b"):
        for path, kind in ((tmp_path / "fifo", "FIFO"), (tmp_path, "folder")):
            with pytest.raises(OSError, match=f"it is a {kind}, not a regular file"):
                regular.open_file(path, mode)
    with pytest.raises(OSError, match="it is a device, not a regular file"):
        regular.open_file(tmp_path / "device")
    with pytest.raises(OSError, match="it is a FIFO"):
        regular.check(tmp_path / "fifo")


def test_files_are_read_but_not_written_through_links(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with regular.open_file(tmp_path / "link") as file:
        assert file.read() == b"precious"
    for mode in ("ab", "wb", "r+b"):
        with pytest.raises(OSError, match="it is a symbolic link"):
            regular.open_file(tmp_path / "link", mode)
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_link_without_target_creates_no_file(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="it is a symbolic link"):
        regular.open_file(tmp_path / "link", "ab")
    assert not (tmp_path / "elsewhere").exists()


def test_files_are_created_where_the_mode_says_so(tmp_path):
    with regular.open_file(tmp_path / "new", "ab") as file:
        file.write(b"x")
    with pytest.raises(FileExistsError):
        regular.open_file(tmp_path / "new", "xb")
    with pytest.raises(FileNotFoundError):
        regular.open_file(tmp_path / "missing")
