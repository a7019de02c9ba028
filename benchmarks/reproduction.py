"""The tables of docs/reproduction.md, computed from the published runs in results/.

`python benchmarks/reproduction.py` prints them; `--write` replaces them in the document, which a test compares with them.
"""

import argparse
import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from refil import experiments, stats
from refil.experiments import figure_3b, figure_4
from refil.plots import _runs, improvement, learning_curves
from refil.storage import serialization
from refil.storage.run_dir import RunDir

ROOT = Path(__file__).parent.parent
PAGE, RESULTS = ROOT / "docs" / "reproduction.md", ROOT / "results"
GAME, SHORT, LONG = (RESULTS / name for name in ("group_matching/figure_3b", "starcraft/figure_4", "starcraft/ten_million"))
REFIL, QMIX, VDN, REFIL_VDN = "REFIL", "QMIX (Attention)", "VDN (Attention)", "REFIL (VDN)"
FIXED, RANDOMIZED = "REFIL (Fixed Oracle)", "REFIL (Randomized Oracle)"
PLAYERS = (("refil", "REFIL"), ("attack_move", "the script attack_move"), ("nearest", "the script nearest"))  # of behavior.json
HOLDS, FAILS, UNCLEAR, UNKNOWN = "**holds**", "**does not hold**", "not clear", "cannot be told yet"
Runs = Sequence[RunDir]


def main() -> None:
    """Print the tables, or write them into the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the tables in docs/reproduction.md")
    if parser.parse_args().write:
        serialization.write_atomic(PAGE, filled(PAGE.read_text()).encode())
    else:
        print("\n\n".join("\n".join(lines) for lines in tables().values()))


def filled(text: str) -> str:
    """Return the document with its tables computed anew; each stands between two comments with its name."""
    for name, lines in tables().items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = text.partition(start)
        _, found, after = rest.partition(end)
        assert found, name
        text = "\n".join([before + start.strip(), *lines, end + after])
    return text


def tables() -> dict[str, list[str]]:
    """Return the lines of every table by its name."""
    game = {label: [run] for label, run in experiments.find_runs(GAME, list(figure_3b.runs())).items()}
    short, long = (figure_4.curves(experiments.find_runs(path, list(figure_4.runs()))) for path in (SHORT, LONG))
    for curves in (game, *short.values(), *long.values()):
        for runs in curves.values():
            for run in runs:
                run.metrics = functools.cache(run.metrics)  # every table reads them
    claims = [*_game_claims(game), *_ablation_claims(short, long), *_task_claims(short), *_claims_without_runs(short)]
    head = ["| where | the paper's claim | measured here | verdict | command | data |", "|---|---|---|---|---|---|"]
    rates = [
        "| | million steps | seeds | episodes per seed | mean | interval or range | IQM |",
        "|---|---:|---:|---:|---:|---|---:|",
    ]
    rates += [_rate_row(f"group matching, {name}", runs) for name, runs in game.items()]
    for curves in (short, long):
        rates += [
            _rate_row(f"{env}, {name}", by_env[env])
            for env in figure_4.TASK_SETS
            for name, by_env in curves.items()
            if env in by_env
        ]
    return {"claims": head + claims, "final win rates": rates}


def _game_claims(game: dict[str, list[RunDir]]) -> Iterator[str]:
    where, command = "4.1, Fig. 3b", "`refil sweep figure_3b`"
    yield _row(where, "REFIL outperforms QMIX (Attention)", *_compared(game[REFIL], game[QMIX], QMIX), command, GAME)
    fixed = _show(FIXED, game[FIXED]), _show(QMIX, game[QMIX])
    better = improvement.compare(game[FIXED], game[QMIX])
    text = f"{fixed[0]}; {fixed[1]}; {_probability(better, FIXED)}"
    verdict = f"{HOLDS}, but the oracle is far below QMIX (Attention) here and level with it in the paper"
    knowledge = "The true groups do not significantly improve on QMIX (Attention) (Fixed Oracle)"
    yield _row(where, knowledge, text, verdict if better.spread and better.spread.low <= 0.5 else FAILS, command, GAME)
    claim = "Random sub-groups outperform the true groups (Fixed Oracle)"
    yield _row(where, claim, *_compared(game[REFIL], game[FIXED], FIXED), command, GAME)
    better = improvement.compare(game[RANDOMIZED], game[REFIL])
    text = f"{_show(RANDOMIZED, game[RANDOMIZED])}; {_probability(better, RANDOMIZED)}"
    claim = "Sampling sub-groups from the true groups (Randomized Oracle) does not significantly improve on REFIL"
    verdict = f"{HOLDS}, but the oracle is far below REFIL here and level with it in the paper"
    yield _row(where, claim, text, verdict if better.spread and better.spread.low <= 0.5 else FAILS, command, GAME)


def _ablation_claims(short: dict, long: dict) -> Iterator[str]:
    command = "`refil sweep figure_4 --only 'SET'`"
    for name in (QMIX, VDN, REFIL_VDN):
        for env in figure_4.TASK_SETS:
            found, verdict = _compared(short[REFIL][env], short[name][env], name)
            if env in long.get(name, {}):
                more = f"; after 10M steps {_show(REFIL, long[REFIL][env])}, {_show(name, long[name][env])}"
                found += more
            yield _row("4.2, Fig. 4", f"REFIL outperforms {name} on {env}", found, verdict, command, SHORT)
    for env in figure_4.TASK_SETS:
        compared = _compared(short[VDN][env], short[REFIL_VDN][env], REFIL_VDN, VDN)
        yield _row("4.2, Fig. 4", f"REFIL (VDN) is much worse than VDN (Attention) on {env}", *compared, command, SHORT)


def _task_claims(short: dict) -> Iterator[str]:
    found, fractions = [], {}
    for name in (REFIL, QMIX):
        runs = [run for run in short[name]["3-8sz"] if (run.path / "by_task.json").exists()]
        rates = _runs.by_task(runs, name)
        ranked = -np.sort(-rates.mean(axis=0))
        fractions[name] = (ranked >= ranked[0] / 2).sum()
        count = f"{fractions[name]} of {len(ranked)} tasks at half of its best task ({ranked[0]:.0%}) or more"
        found.append(f"{name} has {count} ({len(rates)} seeds, {_runs.task_episodes(runs)} episodes each)")
    verdict = HOLDS if fractions[REFIL] > fractions[QMIX] else FAILS
    claim = "Ranked by task, REFIL's win rate on 3-8sz decays more slowly than that of the two next best methods"
    command = "`refil plot --figure tasks_ranked`"
    yield _row("4.2, Fig. 5 top right", claim, "; ".join(found), f"{verdict} against one of them", command, SHORT)
    behavior = json.loads((LONG / "refil_on_3_8csz" / "behavior.json").read_text())
    keep = behavior["keep away from splash damage (melee)"]
    players = ", ".join(f"{label} in {keep[name][1] / keep[name][0]:.0%}" for name, label in PLAYERS[:2])
    chances = f"{keep['refil'][0]:,} and {keep['attack_move'][0]:,} chances"
    text = f"Zealots keep away from Colossi: {players} of {chances} (REFIL: 1 seed, 10M steps, 100 battles)"
    claim = "Zealots hang back on 3-8csz, then meet the enemy's Zealots"
    command = "`refil report figure_5_battle`"
    yield _row("4.2, Fig. 5 left", claim, text, f"{HOLDS} for one seed; [one battle](#figure-5-left)", command, LONG)


def _claims_without_runs(short: dict) -> Iterator[str]:
    sweep, lambdas = "`refil sweep figure_4 --only 'METHOD'`", "`refil sweep figure_5_lambda`"
    text = "; ".join(f"lambda {value}: {_show('', short[name]['3-8sz'])}" for value, name in ((0, QMIX), (0.5, REFIL)))
    tuned = "Win rates on 3-8sz are best at a lambda between 0 and 1; with lambda 1 nothing is learned"
    yield _row("4.2, Fig. 5 bottom right", tuned, f"{text}; 0.25, 0.75 and 1 not run", UNKNOWN, lambdas, SHORT)
    for where, claim in (
        ("4.2, Fig. 4", "Mean pooling in place of attention performs poorly"),
        ("4.2, text", "Max pooling is marginally worse than mean pooling"),
        ("4.2, Fig. 4", "ROMA, Qatten and QTRAN do not improve on QMIX, and REFIL outperforms them"),
        ("4.2, Fig. 4", "EMP underperforms attention"),
        ("4.2, Fig. 4", "QMIX (UPDeT) is behind REFIL on two sets and similar on 3-8MMM"),
        ("4.2, Fig. 4", "REFIL (UPDeT) is above QMIX (UPDeT) on 3-8MMM and 3-8sz"),
    ):
        yield _row(where, claim, "not run for 3M steps", UNKNOWN, sweep, RESULTS / "methods" / "table_1")
    behavior = json.loads((LONG / "refil_on_3_8mmm" / "behavior.json").read_text())["attack a healer in range"]
    attacks = ", ".join(f"{label} {behavior[name][1] / behavior[name][0]:.0%}" for name, label in PLAYERS[::2])
    text = "missing for UPDeT, and the length of won battles for all methods (`length_mean` includes lost battles)."
    text += f" Attacks on Medivacs in range: {attacks} (REFIL without UPDeT: 1 seed, 10M steps, 100 battles)"
    claim = "On 3-8MMM REFIL (UPDeT) wins in 22% fewer timesteps than QMIX (UPDeT), by targeting Medivacs"
    yield _row("4.2, text", claim, text, UNKNOWN, "`refil behavior RUN`", LONG)


def _row(where: str, claim: str, measured: str, verdict: str, command: str, data: Path) -> str:
    folder = data.relative_to(RESULTS)
    return f"| {where} | {claim} | {measured} | {verdict} | {command} | [{folder}](../results/{folder}) |"


def _compared(ours: Runs, theirs: Runs, name: str, own: str = REFIL) -> tuple[str, str]:
    """Return what two curves end with after equal steps, and the verdict by the rule of the page."""
    better, values = improvement.compare(ours, theirs), improvement.final_values(ours, theirs)
    end = min(points[-1, 0] for points in _runs.series([*ours, *theirs], "win_rate"))
    shown = "; ".join(_values(label, each) for label, each in zip((own, name), values, strict=True))
    text = f"{shown}; {end / 1e6:.2g}M steps; {_probability(better, own)}"
    low, high = (better.value, better.value) if better.spread is None else better.spread[:2]
    all_above, all_below = (low > 0.5, high < 0.5) if better.spread else (low == 1, high == 0)
    return text, HOLDS if all_above else FAILS if all_below else UNCLEAR


def _probability(better: stats.Estimate, name: str) -> str:
    interval = "" if better.spread is None else f" ({better.spread.low:.2f} to {better.spread.high:.2f})"
    return f"P({name} better) {better.value:.2f}{interval}"


def _show(name: str, runs: Runs) -> str:
    return _values(name, learning_curves.final_values(runs))


def _values(name: str, values: np.ndarray) -> str:
    spread = stats.spread(values, (0.0, 1.0))
    ends = "" if spread is None else f"{spread.low:.0%} to {spread.high:.0%}, "
    count = f"{len(values)} seed{'s' if len(values) > 1 else ''}"
    return f"{name} {values.mean():.0%} ({ends}{count})".strip()


def _rate_row(name: str, runs: Runs) -> str:
    table = list(learning_curves.table({"": list(runs)}))[2]
    steps, _, mean, spread, episodes, _ = (cell.strip() for cell in table.split("|")[2:-1])
    finals = learning_curves.final_values(runs)
    iqm = stats.aggregate([finals], "iqm", (0.0, 1.0))
    between = f" ({iqm.spread.low:.0%} to {iqm.spread.high:.0%})" if iqm.spread and len(finals) >= stats.MIN_SEEDS else ""
    return f"| {name} | {steps} | {len(finals)} | {episodes} | {mean} | {spread} | {iqm.value:.0%}{between} |"


if __name__ == "__main__":
    main()
