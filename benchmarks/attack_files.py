"""Damage the files of a run in many ways, and look at what reads them: tracebacks, hangs and silent acceptance.

    python benchmarks/attack_files.py --mutations 250

Trains a small run with each algorithm and derives peers of other seeds, another config and another time from it. Every mutation
damages one file of a copy: flipped bits, truncation, deleted keys, wrong types, files of peers, FIFOs, folders, links, weights
that are not finite. Then all readers read the copy. A reader may refuse it in a sentence, or return what it returns for the
intact run. Anything else is a problem, except for content that is as valid as before: other values of options that may change.
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from refil.cli import plot, train
from refil.errors import RefilError
from refil.storage import run_dir, serialization
from refil.storage.run_dir import RunDir
from refil.sweeps import state
from refil.sweeps.plan import PlannedRun
from refil.training import config as configs
from refil.training import trainer
from refil.training.config import RunConfig

JSON = ("config.json", "metrics.jsonl", "by_task.json")
ARRAYS = ("checkpoint.safetensors", "model_seed_0.safetensors", "model_seed_1.safetensors")
WRITTEN = (*JSON, *ARRAYS, "lock", "unsaved", "learning_curve.png", "aborted_1")
STRAY = (
    *("model_seed_0 (copy).safetensors", "model_seed_00.safetensors", "model_seed_x.safetensors", "config (1).json"),
    *("model_seed_7.safetensors", "model_seed_8.safetensors"),
)
VALUES = (None, True, -1, 0, 3, 10**30, 1.5, float("nan"), float("inf"), "", "x", [], [1], {}, {"a": 1}, "9" * 5000)
WINS = {"task": [2, 7]}  # of 10 episodes, by seed
TIME_LIMIT = 600.0  # seconds for all readers of one mutation, on a machine that may be busy
REPORTED = 25  # mutations between lines of progress
METHODS = ("refil", "vdn_pqn")  # one of each algorithm
NETWORK = {"size": 8, "heads": 2, "mixing": 4, "memory": 8}
FROM_REPLAY = {"batch": 5, "buffer": 20, "pack": ()}
ON_POLICY = {"rollout": 8, "reset_every": 8, "minibatches": 2, "epochs": 1, "learnability": 0.5, "replay": True}
EXPERIMENT = """
from pathlib import Path
from refil.training import config
def runs():
    config.default({folder!r} + "/my_env.py", "vdn_pqn")  # loads the user's code, which the config names by its hash
    return {{"A": config.read(Path({folder!r}, "small.json").read_text(), "here")}}
def report(done, out):
    return out
"""
Mutation = Callable[[Path, list[Path], random.Random], str]


def small_config(method: str = METHODS[0]) -> RunConfig:
    """Return the config of a run that trains in seconds."""
    options = {"steps": 200, "seeds": 2, "envs": 2, "eval_every": 60, "eval_episodes": 4, "log_every": 10}
    default = configs.default("group_matching", method)
    algorithm = ON_POLICY if configs.algorithm_name(method) == "onpolicy" else FROM_REPLAY
    network = {name: value for name, value in NETWORK.items() if hasattr(default.method.options, name)}
    return default.with_options({"agents": 3, "cells": 3, "horizon": 6}, network, **options, **algorithm)


@cache
def shapes(config: RunConfig) -> tuple[Any, Any]:
    """Return the shapes of the training state and of a model."""
    setup = config.build()
    state = jax.eval_shape(lambda: config.algorithm_module().init(setup, None))
    return state, jax.eval_shape(setup.method.init, jax.random.key(0))


def derive_peer(run: RunDir, path: Path, config: RunConfig) -> RunDir:
    """Write a run of another config, or of another time, with the numbers of the given one.

    All of them have other models: one of the same config was trained on another machine.
    """
    original = run.config
    state, model = shapes(original)
    models, (state, seconds) = run.load_models(model), run.load_checkpoint(state, original)
    peer = run_dir.create(path, config)
    peer.append_metrics([line | {"seconds": line["seconds"] + 1} for line in run.metrics()])
    seeds = [config.train.seed + row for row in range(config.train.seeds)]
    factor = 2 if config == original else -1
    peer.save_models(jax.tree.map(lambda leaf: factor * leaf, models), seeds, config)
    peer.save_checkpoint(state, config, seconds + 1, peer.metrics_bytes)
    peer.write_by_task(10, {"task": [1, 1]})
    return peer


def flip_bits(run: Path, peers: list[Path], choose: random.Random) -> str:
    """Flip one to three bits."""
    path = run / choose.choice((*JSON, *JSON, *ARRAYS))
    content = bytearray(path.read_bytes())
    for _ in range(choose.choice((1, 1, 2, 3))):
        content[choose.randrange(len(content))] ^= 1 << choose.randrange(8)
    path.write_bytes(bytes(content))
    return f"bits of {path.name} flipped"


def truncate(run: Path, peers: list[Path], choose: random.Random) -> str:
    """Cut off the end."""
    path = run / choose.choice((*JSON, *ARRAYS))
    content = path.read_bytes()
    path.write_bytes(content[: choose.randrange(len(content))])
    return f"{path.name} truncated"


def append(run: Path, peers: list[Path], choose: random.Random) -> str:
    """Append garbage, also behind the part of the metrics that the checkpoint covers."""
    path, garbage = (
        run / choose.choice((*JSON, *ARRAYS)),
        choose.choice((b"{", b"garbage\n", b"\0" * 100, b"null\n", b"\xff\n")),
    )
    path.write_bytes(path.read_bytes() + garbage)
    return f"{garbage[:8]!r} appended to {path.name}"


def change_json(run: Path, peers: list[Path], choose: random.Random) -> str:
    """Delete a key or give it another value, of any type."""
    path = run / choose.choice(JSON)
    lines = path.read_text().splitlines() if path.name == "metrics.jsonl" else [path.read_text()]
    number = choose.randrange(len(lines))
    values = json.loads(lines[number])
    parent, key = choose.choice(_places(values))
    words = f"{path.name}, line {number + 1}: {key!r}"
    if choose.random() < 1 / 3:
        del parent[key]
        words += " deleted"
    else:
        parent[key] = choose.choice(VALUES)
        words += f" set to {parent[key]!r:.20}"
    path.write_text("\n".join([*lines[:number], json.dumps(values), *lines[number + 1 :]]) + "\n")
    return words


def _places(values: Any) -> list[tuple[Any, Any]]:
    own = list(values) if isinstance(values, dict) else list(range(len(values))) if isinstance(values, list) else []
    return [(values, key) for key in own] + [place for key in own for place in _places(values[key])]


def swap(run: Path, peers: list[Path], choose: random.Random) -> str:
    """Replace a file by that of a peer, or by another file of the same run; sometimes by a link to it."""
    name = choose.choice((*JSON, *ARRAYS, *ARRAYS))
    candidates = [path for folder in peers for path in folder.iterdir() if path.suffix == Path(name).suffix]
    candidates += [run / other for other in ARRAYS if other != name and name in ARRAYS]
    source = choose.choice(candidates)
    (run / name).unlink()
    if choose.random() < 1 / 4:
        (run / name).symlink_to(source)
    else:
        shutil.copy(source, run / name)
    return f"{name} replaced by {source.parent.name}/{source.name}"


def place_special(run: Path, peers: list[Path], choose: random.Random) -> str:
    """Put a FIFO, a folder, a device or a link without target in place of a file."""
    path, kind = (
        run / choose.choice((*JSON, *ARRAYS, "lock")),
        choose.choice(("FIFO", "folder", "device", "dangling link", "loop")),
    )
    path.unlink(missing_ok=True)
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"device": "/dev/zero", "dangling link": "/nowhere/at/all", "loop": path}[kind])
    return f"{kind} in place of {path.name}"


def link_outside(run: Path, peers: list[Path], choose: random.Random) -> str:
    """Put a link to a file of somebody else where the run writes."""
    name = choose.choice((*WRITTEN, ".config.json.part", ".checkpoint.safetensors.part", ".metrics.jsonl.part"))
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(victim(run))
    return f"link in place of {name}"


def spoil_numbers(run: Path, peers: list[Path], choose: random.Random) -> str:
    """Make a weight infinite or NaN, with a checksum that matches; or delete an entry of the metadata."""
    path = run / choose.choice(ARRAYS)
    arrays, metadata = serialization.read_raw(path)
    if choose.random() < 1 / 4 and path.name == "checkpoint.safetensors":
        name = choose.choice([name for name in metadata if name not in ("flags", "metrics_checksum")])
        del metadata[name]
    else:
        weights = [name for name in arrays if "model" in path.name or name.startswith(run_dir.PARAMETERS)]
        name = choose.choice(weights)
        arrays[name] = arrays[name].copy()
        arrays[name].flat[choose.randrange(arrays[name].size)] = choose.choice((np.nan, np.inf, -np.inf))
    serialization.write_arrays(path, arrays, metadata)
    return f"{name} of {path.name} spoiled"


def stray_file(run: Path, peers: list[Path], choose: random.Random) -> str:
    """Add a file that is named almost like one of a run."""
    name = choose.choice(STRAY)
    if choose.random() < 1 / 4:
        (run / name).mkdir()
    else:
        shutil.copy(choose.choice(peers) / choose.choice(("config.json", ARRAYS[0])), run / name)
    return f"{name} added"


MUTATIONS: tuple[Mutation, ...] = (
    *(flip_bits, flip_bits, flip_bits, truncate, append, change_json, change_json, change_json),
    *(swap, swap, place_special, link_outside, spoil_numbers, stray_file),
)


def victim(run: Path) -> Path:
    """Return the file outside of a run that nothing may change."""
    return run.parent / "victim"


def read_curves(run: RunDir, config: RunConfig) -> Any:
    """Read what `refil plot` reads."""
    from refil.plots import learning_curves

    return list(learning_curves.table({label: [run] for label in plot._default_labels([run])}))


def read_tasks(run: RunDir, config: RunConfig) -> Any:
    """Read what `refil plot --figure tasks_ranked` reads."""
    from refil.plots import tasks_ranked

    return list(tasks_ranked.table({"tasks": [run]})), run.by_task()


def read_status(run: RunDir, config: RunConfig) -> Any:
    """Read what `refil status` shows."""
    found = state.read(run.path)
    if found.note:
        raise RefilError(found.note)
    return found.done, found.win_rate


def read_models(run: RunDir, config: RunConfig) -> Any:
    """Read what `refil evaluate`, `refil watch` and `refil.load` read."""
    setup = run.config.build()
    models = run.load_models(jax.eval_shape(setup.method.init, jax.random.key(0)))
    return run.seeds, _digest(models)


def read_sweep(run: RunDir, config: RunConfig) -> Any:
    """Read what `refil sweep` reads before it decides whether a run is finished."""
    planned = PlannedRun("run", config, run.path)
    planned.check()
    return planned.is_finished or "resumes"


def read_checkpoint(run: RunDir, config: RunConfig) -> Any:
    """Read what `refil train --resume` reads, which cuts the metrics off."""
    with run_dir.locked(run.path):
        saved = run.config
        train._check_steps(run, saved, saved)
        saved.build()
        state, _ = run.load_checkpoint(shapes(config)[0], saved)
        return _digest(state), zlib.crc32((run.path / "metrics.jsonl").read_bytes())


def write_again(run: RunDir, config: RunConfig) -> Any:
    """Write all files, as training does; only files outside of the run are looked at."""
    with run_dir.locked(run.path):
        run.append_metrics([{"seed": 0, "env_steps": 1}])
        run.write_config(config)
        state, model = (jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), tree) for tree in shapes(config))
        run.save_models(jax.tree.map(lambda leaf: np.stack([leaf, leaf]), model), [0, 1], config)
        run.save_checkpoint(state, config, 0.0, run.metrics_bytes)
        run.write_by_task(10, {"task": [1, 2]})
        serialization.write_atomic(run.path / run_dir.CURVE, b"")


READERS = (read_curves, read_tasks, read_status, read_models, read_sweep, read_checkpoint)


def read_all(path: Path, config: RunConfig) -> dict[str, tuple[str, Any]]:
    """Return for each reader that it refused, failed, or what it returned."""
    outcomes: dict[str, tuple[str, Any]] = {}
    for reader in (*READERS, write_again):
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                outcomes[reader.__name__] = ("read", reader(run_dir.open_run(path), config))
        except RefilError as error:
            outcomes[reader.__name__] = ("refused", str(error))
        except Exception:
            outcomes[reader.__name__] = ("traceback", traceback.format_exc())
    return outcomes


def judge(expected: dict[str, tuple[str, Any]], found: dict[str, tuple[str, Any]]) -> dict[str, str]:
    """Return one word for each reader, and "silent" where content changed and nobody said so."""
    words = {}
    for name, (kind, value) in found.items():
        if kind == "refused" and ("\n" in value or not value):
            words[name] = "several lines"
        elif kind == "read" and name != write_again.__name__:
            unfinished = name == read_sweep.__name__ and value == "resumes"  # and then reads the checkpoint
            words[name] = "same" if value == expected[name][1] or unfinished else "silent"
        else:
            words[name] = kind
    return words


def _digest(tree: Any) -> int:
    total = 0
    for leaf in jax.tree.leaves(tree):
        total = zlib.crc32(np.ascontiguousarray(leaf).tobytes(), total)
    return total


def _work(pipe: Any, config_text: str) -> None:
    config = configs.read(config_text, "worker")
    shapes(config)
    while (path := pipe.recv()) is not None:
        pipe.send(read_all(path, config))


class Worker:
    """A process that reads, and is replaced when it hangs."""

    def __init__(self, config: RunConfig) -> None:
        self.config, self.process = config, None

    def read(self, path: Path) -> dict[str, tuple[str, Any]]:
        """Let all readers read a folder, with a time limit."""
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, other = context.Pipe()
            self.process = context.Process(target=_work, args=(other, self.config.to_json()), daemon=True)
            self.process.start()
        self.pipe.send(path)
        try:
            if self.pipe.poll(TIME_LIMIT):
                return self.pipe.recv()
            words = "hang"
        except EOFError:
            words = "crash"
        self.process.kill()
        self.process = None
        return {"all readers": (words, path.name)}

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.pipe.send(None)
            self.process.join()


def attack(
    run: Path, peers: list[Path], folder: Path, mutations: int, seed: int, read: Callable[[Path], dict[str, tuple[str, Any]]]
) -> tuple[Counter[str], list[str]]:
    """Damage copies of a run and let `read` read them; return how often each outcome occurred, and all problems."""
    choose, counts, problems = random.Random(seed), Counter(), []

    def copy(number: int) -> Path:
        shutil.copytree(run, path := folder / f"{number}" / "run")
        victim(path).write_text("precious")
        return path

    expected = read(copy(0))
    assert all(kind == "read" for kind, _ in expected.values()), expected
    for number in range(1, mutations + 1):
        path = copy(number)
        words = MUTATIONS[choose.randrange(len(MUTATIONS))](path, peers, choose)
        found = read(path)
        outcomes = judge(expected, found)
        if victim(path).read_text() != "precious":
            outcomes["victim"] = "destroyed"
        counts.update(outcomes.values())
        bad = {name: word for name, word in outcomes.items() if word not in ("same", "read", "refused")}
        problems += [f"{number}: {words}: {name}: {word}: {found.get(name, ('', ''))[1]}" for name, word in bad.items()]
        shutil.rmtree(folder / f"{number}")
        if number % REPORTED == 0:
            print(f"{number} of {mutations} mutations, {len(problems)} problems", flush=True)
    return counts, problems


def prepare(folder: Path, method: str) -> tuple[RunDir, list[Path]]:
    """Train a run; return it and its peers."""
    config = small_config(method)
    run = run_dir.create(folder / "original", config)
    trainer.train(config, run)
    return run, derive_peers(run, folder)


def derive_peers(run: RunDir, folder: Path) -> list[Path]:
    """Return runs of another time, other seeds and another learning rate, and complete the given one."""
    config = run.config
    run.write_by_task(10, WINS)
    others = {
        "later": config,
        "seeds": replace(config, train=replace(config.train, seed=5)),
        "lr": config.with_options(lr=0.1),
    }
    return [derive_peer(run, folder / name, other).path for name, other in others.items()]


def attack_sweep(folder: Path) -> list[str]:
    """Sweep into a folder in which somebody else has replaced the code of a run and removed its hash; return problems."""
    marker, mine, out = folder / "marker", folder / "my_env.py", folder / "out"
    mine.write_text("from refil.envs.group_matching import Config, build\n")
    small = small_config(METHODS[1])
    env = replace(configs.default(str(mine), METHODS[1]).env, options=small.env.options)
    run = PlannedRun("A", replace(small, env=env), out / "a")
    run.prepare()
    (folder / "small.json").write_text(run.config.to_json())
    (folder / "experiment.py").write_text(EXPERIMENT.format(folder=str(folder)))
    code = run.path / "code" / "env" / mine.name
    code.write_text(f"open({str(marker)!r}, 'w').close()\n{mine.read_text()}")
    values = json.loads((run.path / run_dir.CONFIG).read_text())
    del values["env"]["sha256"]
    values["env"]["name"] = f"code/env/{mine.name}"
    (run.path / run_dir.CONFIG).write_text(json.dumps(values))
    words = [sys.executable, "-m", "refil", "sweep", str(folder / "experiment.py"), "--out", str(out), "--gpus", "0"]
    root = {"PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(words, env=os.environ | root, capture_output=True, text=True, timeout=TIME_LIMIT)
    problems = ["foreign code ran in a sweep"] if marker.exists() else []
    return problems + ([] if done.returncode == 0 else [f"the sweep failed: {done.stdout}{done.stderr}"])


def attack_training(folder: Path, method: str) -> list[str]:
    """Put damaged models of seeds that the run does not have into its folder while it trains; return problems."""
    config = small_config(method)
    run = run_dir.create(folder / "strays", config)

    def place(line: dict[str, Any]) -> None:
        (run.path / "model_seed_7.safetensors").write_bytes(b"garbage")
        (run.path / "model_seed_8.safetensors").mkdir(exist_ok=True)

    try:
        finished = trainer.train(config, run, loggers=[place]).finished
    except Exception:
        return [f"stray models ended training: {traceback.format_exc()}"]
    return [] if finished and run.seeds == [0, 1] else [f"after stray models, the run has seeds {run.seeds}"]


def main() -> None:
    """Attack and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutations", type=int, default=250, help="number of damaged runs of each algorithm")
    parser.add_argument("--seed", type=int, default=0, help="seed of the mutations")
    args, found = parser.parse_args(), 0
    for method in METHODS:
        with tempfile.TemporaryDirectory() as temporary:
            run, peers = prepare(Path(temporary), method)
            worker = Worker(run.config)
            counts, problems = attack(run.path, peers, Path(temporary), args.mutations, args.seed, worker.read)
            worker.close()
            problems += attack_training(Path(temporary), method)
        print("\n".join(problems))
        print(f"{method}: {args.mutations} mutations: {', '.join(f'{word} {count}' for word, count in counts.most_common())}")
        print(f"{len(problems)} problems", flush=True)
        found += len(problems)
    with tempfile.TemporaryDirectory() as temporary:
        problems = attack_sweep(Path(temporary))
    print("\n".join([*problems, f"a sweep into a foreign folder: {len(problems)} problems"]))
    found += len(problems)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
