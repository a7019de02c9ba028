"""Datasets of trajectories for offline reinforcement learning: one file, NumPy's (.npz) or safetensors, checked when read.

Observations have one timestep more than actions. Entries after the end of an episode are zero, or False in masks.
"""

import io
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from refil.errors import RefilError
from refil.storage import serialization

FORMAT = "refil dataset 1"
SUFFIXES = ("npz", "safetensors")
METADATA = "metadata"  # the entry of an .npz file that holds the metadata as JSON


@dataclass(frozen=True, eq=False)
class Dataset:
    """Episodes of one environment; the first agents of `entities` act.

    `metadata` has the environment and its options, the names of tasks, features and actions, the policy, and the seed.
    """

    entities: Float[np.ndarray, "episodes timesteps entities features"]
    present: Bool[np.ndarray, "episodes timesteps entities"]
    alive: Bool[np.ndarray, "episodes timesteps entities"]
    visible: Bool[np.ndarray, "episodes timesteps agents entities"]
    available: Bool[np.ndarray, "episodes timesteps agents actions"]
    actions: Int[np.ndarray, "episodes time agents"]
    rewards: Float[np.ndarray, "episodes time"]
    terminated: Bool[np.ndarray, "episodes time"]
    valid: Bool[np.ndarray, "episodes time"]
    won: Bool[np.ndarray, " episodes"]
    task: Int[np.ndarray, " episodes"]
    metadata: dict[str, Any]

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays by their names."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "metadata"}


DTYPES = {"entities": np.float32, "rewards": np.float32, "actions": np.int32, "task": np.int32}  # the others are bool
AXES = {
    "entities": ("episodes", "timesteps", "entities", "features"),
    "present": ("episodes", "timesteps", "entities"),
    "alive": ("episodes", "timesteps", "entities"),
    "visible": ("episodes", "timesteps", "agents", "entities"),
    "available": ("episodes", "timesteps", "agents", "action choices"),
    "actions": ("episodes", "time", "agents"),
    "rewards": ("episodes", "time"),
    "terminated": ("episodes", "time"),
    "valid": ("episodes", "time"),
    "won": ("episodes",),
    "task": ("episodes",),
}


def check_path(path: Path) -> None:
    """Raise if no dataset can be written to a path."""
    serialization.check_suffix(path, SUFFIXES)
    serialization.check_folder(path)


def write_dataset(dataset: Dataset, path: str | Path) -> None:
    """Write a dataset to a file that ends in .npz or .safetensors, atomically and with a checksum."""
    path = Path(path)
    check_path(path)
    arrays = {name: array.astype(DTYPES.get(name, np.bool_)) for name, array in dataset.arrays.items()}
    metadata = {"format": FORMAT, "about": json.dumps(dataset.metadata, sort_keys=True)}
    if path.suffix == ".safetensors":
        serialization.write_arrays(path, arrays, metadata)
        return
    metadata["checksum"] = serialization.checksum(arrays, metadata)
    content = io.BytesIO()
    text = np.frombuffer(json.dumps(metadata, sort_keys=True).encode(), np.uint8)
    np.savez_compressed(content, allow_pickle=False, **arrays, **{METADATA: text})
    serialization.write_atomic(path, content.getvalue())


def read_dataset(path: str | Path) -> Dataset:
    """Read a dataset that `refil record` wrote; raise if it is damaged."""
    path = Path(path)
    serialization.check_suffix(path, SUFFIXES)
    arrays, metadata = serialization.read_raw(path) if path.suffix == ".safetensors" else _read_npz(path)
    if metadata.get("format") != FORMAT:
        raise RefilError(f"{path} is not a dataset of refil: its format is {metadata.get('format')!r}, not {FORMAT!r}")
    _check(path, arrays)
    return Dataset(**arrays, metadata=json.loads(metadata["about"]))


def _read_npz(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    content = io.BytesIO(serialization.read_bytes(path))
    try:
        with np.load(content, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        metadata = json.loads(arrays.pop(METADATA).tobytes())
        expected = metadata.pop("checksum")
    except Exception as error:  # zip files fail in many ways
        raise RefilError(f"{path} is not a dataset of refil, or it is damaged: {error}") from error
    if serialization.checksum(arrays, metadata) != expected:
        raise RefilError(f"{path} is damaged: its checksum does not match its content")
    return arrays, metadata


def _check(path: Path, arrays: dict[str, np.ndarray]) -> None:
    if arrays.keys() != AXES.keys():
        raise RefilError(f"{path} is damaged: it has the arrays {', '.join(sorted(arrays))}, not {', '.join(sorted(AXES))}")
    found: dict[str, int] = {}
    for name, axes in AXES.items():
        array, dtype = arrays[name], np.dtype(DTYPES.get(name, np.bool_))
        if array.ndim != len(axes) or array.dtype != dtype:
            raise RefilError(
                f"{path} is damaged: {name} is {array.dtype}{list(array.shape)}, not {dtype} with {len(axes)} axes"
            )
        for axis, size in zip(axes, array.shape, strict=True):
            if found.setdefault(axis, size) != size:
                raise RefilError(f"{path} is damaged: {name} has {size} {axis}, other arrays have {found[axis]}")
    if found["timesteps"] != found["time"] + 1:
        raise RefilError(f"{path} is damaged: observations have {found['timesteps']} timesteps for {found['time']} actions")


def describe(env_name: str, env_options: Any, env: Any, policy: str, seed: int) -> dict[str, Any]:
    """Return the metadata of a dataset."""
    names = {name: list(getattr(env, name, ())) for name in ("task_names", "feature_names", "action_names")}
    return {"env": env_name, "env_options": asdict(env_options), "policy": policy, "seed": seed} | names
