"""The page of the lab: the replay page with an editor of battles, in one piece, which loads nothing else."""

import base64
import hashlib
import re
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import Any

from refil.envs.starcraft.sim.state import Arena
from refil.lab import field
from refil.scene import SHAPES
from refil.viewer import encode, export

SCRIPTS = ("model.js", "editor.js", "panels.js", "runs.js", "keys.js", "lab.js")  # in order
STATS = ("max_health", "max_shield", "max_energy", "start_energy", "radius", "collision_radius", "collision_layers", "range")


@cache
def page() -> str:
    """Return the HTML of the page."""
    folder = resources.files("refil.lab") / "pages"
    top, side, style, *scripts = (
        folder.joinpath(name).read_text(encoding="utf-8") for name in ("top.html", "side.html", "lab.css", *SCRIPTS)
    )
    return export.assemble(encode.page_json([], None), export.Extra(top, side, style, "\n".join(scripts)))


@cache
def policy() -> str:
    """Return the Content-Security-Policy of the page: its own script and style, and requests to its own server only."""
    (script,) = re.findall(r"<script>(.*?)</script>", page(), re.DOTALL)
    sha256 = base64.b64encode(bytes.fromhex(hashlib.sha256(script.encode()).hexdigest())).decode()
    sources = {"default-src": "'none'", "script-src": f"'sha256-{sha256}'", "style-src": "'unsafe-inline'"}
    sources |= {"connect-src": "'self'", "img-src": "data: blob:", "base-uri": "'none'", "form-action": "'none'"}
    return "; ".join(f"{name} {source}" for name, source in sources.items())


def unit_types() -> list[dict[str, Any]]:
    """Return what the page knows about every unit type."""
    table = field.unit_table()
    assert set(SHAPES) >= {unit.shape for unit in table.units}
    found = []
    for name, unit in sorted(zip(table.names, table.units, strict=True), key=lambda pair: pair[0]):
        stats = {stat: getattr(unit, stat) for stat in STATS}
        found.append({"name": name, "letter": unit.letter, "shape": unit.shape, **stats})
    return found


def limits() -> dict[str, Any]:
    """Return the sizes of the map and of armies."""
    return {"map": Arena.size, "units": field.SIZES[-1], "arena": asdict(Arena())}
