"""List the trained teams that ship with refil, or show the card of one."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from refil import settings


@dataclass(frozen=True)
class TeamsArgs:
    """Without a name, one line for every team."""

    # Name of the team whose card to show
    team: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[TEAM]")] = None
    json: bool = False  # Print cards as JSON


def main(arguments: list[str]) -> None:
    """Print the list, or one card."""
    args = settings.from_command_line(TeamsArgs, arguments, "refil teams", __doc__)
    from refil import teams
    from refil.errors import RefilError, list_choices

    if args.team is not None and args.team not in teams.names():
        raise RefilError(f"there is no team {args.team!r}; {list_choices(args.team, teams.names())}")
    cards = [teams.card(name) for name in ([args.team] if args.team else teams.names())]
    if args.json:
        print(cards[0].to_json() if args.team else f"[{', '.join(card.to_json() for card in cards)}]")
    elif args.team:
        print(cards[0].render())
    else:
        print(f"{'team':<14} {'environment':<12} {'win rate':<24} trained")
        for card in cards:
            low, high = card.evaluation.ci95
            rate = f"{card.evaluation.win_rate:.3f} ({low:.3f} to {high:.3f})"
            print(f"{card.name:<14} {card.environment:<12} {rate:<24} {card.summary}")
        print("\n'refil watch TEAM' plays battles in a browser, 'refil teams TEAM' shows its card, refil.load(TEAM) loads it.")
