"""Show episodes of a trained team as a page that plays in a browser, as an animation or as a picture."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from refil import settings
from refil.errors import RefilError
from refil.settings import NonNegativeInt, PositiveInt
from refil.storage.progress import ProgressBar


@dataclass(frozen=True)
class WatchArgs:
    """The team to watch, and the files to write."""

    run: Annotated[Path, tyro.conf.Positional]  # Folder of the run
    html: Path | None = None  # File for a page that plays all episodes in a browser
    gif: Path | None = None  # File for an animation of the first episode
    png: Path | None = None  # File for a picture of the middle of the first episode
    episodes: PositiveInt = 5  # Number of episodes to play greedily
    task: str | None = None  # Name of the task to play (None: random tasks)
    seed: NonNegativeInt = 0  # Seed of the episodes
    model: NonNegativeInt | None = None  # Training seed whose model plays (None: the first seed of the run)
    trust: bool = False  # Run the code that the run contains, which somebody else may have written: read it first


def main(arguments: list[str]) -> None:
    """Play episodes and write them to files."""
    args = settings.from_command_line(WatchArgs, arguments, "refil watch", __doc__)
    if not (args.html or args.gif or args.png):
        raise RefilError("choose what to write: --html FILE, --gif FILE or --png FILE")
    from refil import api
    from refil.storage import run_dir
    from refil.viewer import export

    export.check_paths(args.html, args.gif, args.png)
    run_dir.open_run(args.run, args.trust).config.configure()
    team = api.load(args.run, args.model, trust=args.trust)
    with ProgressBar() as progress:
        progress.phase(f"compiling and playing {args.episodes} episode{'s' if args.episodes > 1 else ''}")
        replays = team.play(args.episodes, args.task, args.seed)
        progress.phase("writing")
        clips = [replay.clip(number) for number, replay in enumerate(replays, start=1)]
        written = export.write(clips, args.html, args.gif, args.png)
    print("\n".join(written))
