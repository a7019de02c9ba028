"""Turn the model of a run into a team that ships with the package: its weights and its card.

    python benchmarks/make_team.py 3-8sz RUN --model 1 --commit ddd4e73 --rounds 2

A round plays some greedy episodes of every task with a random seed of its own. Rounds are appended to results/teams/NAME.jsonl,
and those that are there already are not played again, so that a killed evaluation resumes and more rounds can follow later.
The model was chosen by other evaluations; these do not enter the card.
"""

import argparse
import json
import subprocess
from pathlib import Path

import numpy as np

from refil import api, methods, teams
from refil.storage import run_dir, serialization
from refil.team import Team
from refil.teams.card import Card, Evaluation

EPISODES, FIRST_SEED = 32, 1000  # per task and round; random seed of the first round
FOLDER = Path("results/teams")


def main() -> None:
    """Evaluate, and write weights and card."""
    args = parse_arguments()
    api.configure()
    team, run = teams.load_any(args.run, args.model), run_dir.open_run(args.run)
    config = run.config
    rounds = evaluate(team, FOLDER / f"{args.name}.jsonl", args)
    label = methods.method_info(config.method.name).label
    about = Card(
        name=args.name,
        version=args.version,
        summary=args.summary or f"{label} after {config.train.steps / 1e6:.0f}M steps",
        method=config.method.name,
        environment=config.env.name,
        steps=config.train.steps,
        seed=team.seed,
        commit=args.commit,
        run=str(args.run),
        evaluation=summarize(rounds),
        config=json.loads(config.to_json()),
    )
    print(teams.write(teams.FOLDER, about, team).render())


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="name of the team")
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument("--model", type=int, help="seed whose model becomes the team (default: the first one)")
    parser.add_argument("--commit", default=head(), help="commit that the run was trained at (default: the current one)")
    parser.add_argument("--summary", default="", help="description in a few words (default: method and steps)")
    parser.add_argument("--version", type=int, default=1, help="number to raise when a team is replaced (default: 1)")
    parser.add_argument("--rounds", type=int, default=2, help=f"rounds of {EPISODES} episodes of every task (default: 2)")
    return parser.parse_args()


def head() -> str:
    """Return the short hash of the current commit."""
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


def evaluate(team: Team, path: Path, args: argparse.Namespace) -> list[dict]:
    """Return the first rounds, after playing those that are missing."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for seed in range(FIRST_SEED + len(lines), FIRST_SEED + args.rounds):
        played = api.evaluate(team, episodes=EPISODES, by_task=True, seed=seed).by_task
        assert played is not None
        won = {task: int(np.rint(EPISODES * result.win_rate)) for task, result in played.items()}
        means = {
            name: {task: getattr(result, name) for task, result in played.items()} for name in ("return_mean", "length_mean")
        }
        lines.append({"team": args.name, "seed": seed, "episodes": EPISODES, "won": won} | means)
        serialization.make_folder(path.parent)
        serialization.write_atomic(path, "".join(json.dumps(line) + "\n" for line in lines).encode())
        print(f"{args.name}, seed {seed}: {sum(won.values()) / EPISODES / len(won):.3f}", flush=True)
    return lines[: args.rounds]


def summarize(rounds: list[dict]) -> Evaluation:
    """Return the sums of wins and the means of all rounds."""
    tasks = rounds[0]["won"]
    means = {
        name: {task: float(np.mean([each[name][task] for each in rounds])) for task in tasks}
        for name in ("return_mean", "length_mean")
    }
    won = {task: sum(each["won"][task] for each in rounds) for task in tasks}
    return Evaluation(EPISODES, tuple(each["seed"] for each in rounds), won, **means)


if __name__ == "__main__":
    main()
