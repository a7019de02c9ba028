"""Trained teams that ship with the package: weights of the utility, and a card that says where they come from.

    NAME.safetensors   the utility's weights, float32; acting needs no mixing network
    NAME.json          the card (`refil.teams.card.Card`), with the SHA-256 of the weights

`benchmarks/make_team.py` creates both from a run. A team is found by the name of its files.
"""

import hashlib
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp

from refil.errors import RefilError, list_choices
from refil.storage import run_dir, serialization
from refil.team import Team
from refil.teams.card import Card
from refil.training.config import RunConfig
from refil.types import Utility

FOLDER = Path(__file__).parent


class UtilityOnly(eqx.Module):
    """A model without its mixing network: enough to act, not to learn."""

    utility: Utility


def names() -> list[str]:
    """Return the names of all teams."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def find(name: str | Path) -> str | None:
    """Return the name of the team that a user asks for, or None for the folder of a run.

    A string without a path separator is the name of a team first; a folder needs a separator (`./3-8sz`) or a config.json.
    A `Path` is always a folder. Raise if the string is neither.
    """
    if not isinstance(name, str) or "/" in name or name in ("", ".", ".."):
        return None
    if name in names():
        return name
    if Path(name).exists():  # a folder without config.json is explained where it is opened
        return None
    raise RefilError(f"there is no team and no folder {name!r}; {list_choices(name, names())}, or the folder of a run")


def card(name: str, folder: Path = FOLDER) -> Card:
    """Return the card of a team."""
    return Card.parse(serialization.read_text(folder / f"{name}.json"), str(folder / f"{name}.json"))


def config(name: str, folder: Path = FOLDER) -> RunConfig:
    """Return the config that a team was trained with."""
    return card(name, folder).run_config()


def load(name: str, seed: int | None = None, folder: Path = FOLDER) -> Team:
    """Load a team; raise if its weights are not those that its card describes."""
    about, path = card(name, folder), folder / f"{name}.safetensors"
    if seed not in (None, about.seed):
        raise RefilError(f"team {name} has no model of seed {seed}; it was trained with seed {about.seed}")
    if hashlib.sha256(serialization.read_bytes(path)).hexdigest() != about.sha256:
        raise RefilError(f"{path} is damaged: its SHA-256 is not the one on the card of team {name}")
    setup = about.run_config().build()
    like = UtilityOnly(jax.eval_shape(setup.method.init, jax.random.key(0)).utility)
    model, _ = serialization.read_arrays(path, like, finite="")
    return Team(jax.tree.map(jnp.asarray, model), setup.env, name, about.seed)


def load_any(name: str | Path, seed: int | None = None, trust: bool = False) -> Team:
    """Load a team by its name, or the model of one seed (the first one unless given) from the folder of a run."""
    if (found := find(name)) is not None:
        return load(found, seed)
    run = run_dir.open_run(Path(name), trust)
    if not run.seeds:
        run.metrics()  # raises where the config has other seeds than the checkpoint
        raise RefilError(f"{name} has no model yet")
    seed = run.seeds[0] if seed is None else seed
    if seed not in run.seeds:
        raise RefilError(f"{name} has no model of seed {seed}; available: {', '.join(map(str, run.seeds))}")
    setup = run.config.build()
    model = run.load_model(seed, jax.eval_shape(setup.method.init, jax.random.key(0)))
    return Team(jax.tree.map(jnp.asarray, model), setup.env, str(name), seed)


def config_of(name: str | Path, trust: bool = False) -> RunConfig:
    """Return the config of a team or of the run in a folder."""
    found = find(name)
    return run_dir.open_run(Path(name), trust).config if found is None else config(found)


def write(folder: Path, about: Card, team: Team) -> Card:
    """Write a team's weights and its card, and return the card with the checksum of the weights."""
    path = folder / f"{about.name}.safetensors"
    metadata = {"team": about.name, "version": str(about.version)}
    serialization.write_arrays(path, UtilityOnly(team.model.utility), metadata)
    done = about.with_weights(serialization.read_bytes(path))
    serialization.write_atomic(folder / f"{about.name}.json", done.to_json().encode())
    return done
