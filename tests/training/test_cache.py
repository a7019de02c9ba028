"""The cache of compiled programs."""

import os
import subprocess
import sys
import zlib
from pathlib import Path

import jax
import pytest

from refil.training import cache

ROOT = Path(__file__).parent.parent.parent
CPU = "processor\t: 0\nvendor_id\t: A\nmodel name\t: B\ncpu MHz\t: 1234\nflags\t\t: sse avx\n\nprocessor\t: 1\n"


@pytest.fixture
def cpu(monkeypatch, tmp_path):
    """Let the machine have a CPU of this description."""

    def choose(text: str) -> Path | None:
        (tmp_path / "cpuinfo").write_text(text)
        monkeypatch.setattr(cache, "CPU_INFO", tmp_path / "cpuinfo")
        monkeypatch.setattr(sys, "platform", "linux")
        return cache.folder("cpu")

    return choose


def test_every_kind_of_cpu_has_its_folder(cpu):
    assert cpu(CPU) == cpu(CPU.replace("1234", "4321").replace("processor\t: 0", "processor\t: 7"))
    folders = {cpu(CPU), cpu(CPU.replace("avx", "avx avx2")), cpu(CPU.replace("B", "C"))}
    assert len(folders) == 3


def test_an_unknown_cpu_has_no_cache(cpu, monkeypatch):
    assert cpu("") is None
    assert cpu(CPU) is not None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache.folder("cpu") is None
    assert cache.folder("tpu") is None


def test_the_folder_contains_the_version_of_jaxlib(cpu, monkeypatch):
    before = cpu(CPU)
    monkeypatch.setattr(cache, "jaxlib_version", "9.9.9")
    assert cache.folder("cpu") != before


def test_without_a_home_folder_there_is_no_cache(monkeypatch):
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    assert cache.folder("gpu") is None
    assert cache.folder("cpu") is None


@pytest.fixture
def unset():
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    jax.config.update("jax_compilation_cache_dir", before)


def test_a_folder_that_cannot_be_created_is_not_used(unset, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(cache, "folder", lambda backend: tmp_path / "file" / "cache")
    cache.enable()
    assert jax.config.values["jax_compilation_cache_dir"] is None


def test_a_folder_that_the_user_chose_is_kept(unset, monkeypatch, tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    monkeypatch.setattr(cache, "folder", lambda backend: pytest.fail("the user chose a folder"))
    cache.enable()
    assert jax.config.values["jax_compilation_cache_dir"] == str(tmp_path)


def test_incomplete_entries_are_removed_unless_they_are_being_written(unset, monkeypatch, tmp_path):
    whole, part, fresh = (tmp_path / f"{name}-cache" for name in ("whole", "part", "fresh"))
    content = zlib.compress(os.urandom(1000))
    whole.write_bytes(content)
    part.write_bytes(content[:-10])
    fresh.write_bytes(content[:-10])
    for path in (whole, part):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 2 * cache.SECONDS_TO_WRITE))
    monkeypatch.setattr(cache, "folder", lambda backend: tmp_path)
    cache.enable()
    assert jax.config.values["jax_compilation_cache_dir"] == str(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"whole-cache", "fresh-cache", cache.CHECKED}


@pytest.mark.parametrize(("features", "used"), [(b"+avx,+aes", True), (b"+avx,+prefer-no-gather", False)])
def test_the_cache_is_off_where_xla_rejects_what_it_wrote(unset, monkeypatch, tmp_path, features, used):
    (tmp_path / "jit_f-cache").write_bytes(zlib.compress(b"code" + features))
    monkeypatch.setattr(cache, "folder", lambda backend: tmp_path)
    cache.enable()
    assert (jax.config.values["jax_compilation_cache_dir"] is not None) == used


TRAIN = """
import json, sys, hashlib, numpy, jax, refil
refil.configure()
run = refil.train('group_matching', env_options={'agents': 3, 'cells': 3, 'horizon': 6}, steps=60, batch=5, envs=2, buffer=20,
                  pack=(), method_options={'size': 8, 'heads': 2, 'mixing': 4}, eval_episodes=4, log_every=10)
leaves = b''.join(numpy.asarray(leaf).tobytes() for leaf in jax.tree.leaves(run.teams[0].model))
print(jax.config.values['jax_compilation_cache_dir'], hashlib.sha256(leaves).hexdigest())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="programs for other CPUs are not cached")
def test_cached_and_fresh_programs_compute_the_same_bytes(tmp_path):
    def train(**environment: str) -> list[str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("JAX_COMPILATION_CACHE_DIR", "HOME")}
        done = subprocess.run(
            [sys.executable, "-c", TRAIN], capture_output=True, text=True, cwd=ROOT, env=kept | environment, check=True
        )
        return done.stdout.split()

    always = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    folder, first = train(HOME=str(tmp_path), **always)
    entries = {path: path.stat().st_mtime_ns for path in Path(folder).glob("jit_*")}
    assert any("learn" in path.name for path in entries)
    assert train(HOME=str(tmp_path), **always) == [folder, first]
    assert {path: path.stat().st_mtime_ns for path in Path(folder).glob("jit_*")} == entries
    assert train(HOME="/dev/null") == ["None", first]
