"""Show episodes of a trained team as a page that plays in a browser, as an animation, a video or pictures."""

import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from refil import settings
from refil.errors import RefilError
from refil.settings import NonNegativeInt, PositiveInt
from refil.storage.progress import ProgressBar

if TYPE_CHECKING:
    from refil.viewer.replay import Replay


@dataclass(frozen=True)
class WatchArgs:
    """The team to watch, and the files to write; without any, a page named after the team in the current folder."""

    # Team that ships with refil (see 'refil teams'), or folder of a run
    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    html: Path | None = None  # File for a page that plays all episodes in a browser
    gif: Path | None = None  # File for an animation of the first episode
    mp4: Path | None = None  # File for a video of the first episode; needs ffmpeg
    png: Path | None = None  # File for a picture of the middle of the first episode
    frames: Path | None = None  # Folder for a picture of every step of the first episode
    compare: str | None = None  # Another team or run, which plays the same episodes next to the first one on the page
    open: bool = False  # Open the page in the browser
    episodes: PositiveInt = 5  # Number of episodes to play greedily
    task: str | None = None  # Name of the task to play (None: random tasks)
    seed: NonNegativeInt = 0  # Seed of the episodes
    model: NonNegativeInt | None = None  # Training seed whose model plays (None: the first seed of the run)
    trust: bool = False  # Run the code that the run contains, which somebody else may have written: read it first


def main(arguments: list[str]) -> None:
    """Play episodes and write them to files."""
    args = settings.from_command_line(WatchArgs, arguments, "refil watch", __doc__)
    from refil.viewer import export

    nothing = not (args.html or args.gif or args.mp4 or args.png or args.frames)
    html = Path(f"{Path(args.run).resolve().name}.html") if nothing else args.html
    outputs = export.Outputs(html, args.gif, args.png, args.mp4, args.frames)
    outputs.check()
    if args.compare is not None and html is None:
        raise RefilError("--compare shows two teams on a page; give --html FILE")
    from refil import teams

    teams.config_of(args.run, args.trust).configure()
    if args.compare is not None:
        _check_comparable(args)
    with ProgressBar() as progress:
        clips, names = [], [args.run, *([args.compare] if args.compare is not None else [])]
        for name in names:
            progress.phase(f"compiling and playing {args.episodes} episode{'s' if args.episodes > 1 else ''} of {name}")
            replays = _play(name, args, args.model if name == args.run else None)
            clips.append([replay.clip(number) for number, replay in enumerate(replays, start=1)])
        progress.phase("writing")
        compared = clips[1] if args.compare is not None else None
        written = export.write(clips[0], outputs, compared, tuple(Path(name).name for name in names))
    print("\n".join(written))
    if args.open and html is not None:
        webbrowser.open(html.resolve().as_uri())


def _play(name: str, args: WatchArgs, model: int | None) -> "list[Replay]":
    from refil import teams

    return teams.load_any(name, model, args.trust).play(args.episodes, args.task, args.seed)


def _check_comparable(args: WatchArgs) -> None:
    from refil import teams

    other, own = (teams.config_of(str(each), args.trust).env for each in (args.compare, args.run))
    if (other.name, other.options) != (own.name, own.options):
        raise RefilError(
            f"{args.compare} plays {other.name} and {args.run} plays {own.name}; only teams of one environment compare"
        )
