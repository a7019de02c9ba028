"""The tables of docs/reproduction.md, computed from the published runs in results/.

`python benchmarks/reproduction.py` prints them; `--write` replaces them in the document, which a test compares with them.
"""

import argparse
import functools
import json
import math
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax
import numpy as np

from refil import experiments, plugins, stats
from refil.experiments import figure_3b, figure_4
from refil.plots import PlotOptions, _runs, improvement, learning_curves
from refil.storage import serialization
from refil.storage.run_dir import RunDir
from refil.training import config

ROOT = Path(__file__).parent.parent
PAGE, RESULTS = ROOT / "docs" / "reproduction.md", ROOT / "results"
GAME, SHORT, LONG = (RESULTS / name for name in ("group_matching/figure_3b", "starcraft/figure_4", "starcraft/ten_million"))
NOT_RUN = RESULTS / "methods" / "table_1"  # short runs, which show that a method trains
REFIL, QMIX, VDN, REFIL_VDN = "REFIL", "QMIX (Attention)", "VDN (Attention)", "REFIL (VDN)"
FIXED, RANDOMIZED = "REFIL (Fixed Oracle)", "REFIL (Randomized Oracle)"
MEAN, MAX, EMP, UPDET = "QMIX (Mean Pooling)", "QMIX (Max Pooling)", "QMIX (EMP)", "QMIX (UPDeT)"
REFIL_UPDET, IMPROVED = "REFIL (UPDeT)", ("ROMA (Attention)", "Qatten (Attention)", "QTRAN (Attention)")
PAPER_TASKS = {"3-8sz": 39, "3-8csz": 66, "3-8MMM": 66}
TASKS = "3-8sz"  # the set of the paper's Figure 5, right
HOLDS, FAILS, UNCLEAR, UNKNOWN = "**holds**", "**does not hold**", "not clear", "cannot be told yet"
GPU = "--envs 128 --precision bf16"  # options of the published runs
SEEDS_3_TO_7 = [f"results/starcraft/figure_4/{method}_on_3_8sz_seeds_3_to_7" for method in ("refil", "qmix_attention")]
Runs = Sequence[RunDir]
Curves = dict[str, dict[str, list[RunDir]]]  # by method and set


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
    claims = [
        *_game_claims(game),
        *_set_claims(),
        *_ablation_claims(short, long),
        *_pooling_claims(),
        *_baseline_claims(),
        *_updet_claims(),
        *_task_claims(short),
        *_lambda_claims(short),
    ]
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
    return {"comparisons": _count_comparisons(game, short), "claims": head + claims, "final win rates": rates}


def _pairs(short: Curves) -> Iterator[tuple[str, str, str]]:
    """Yield the methods that are compared on each set, the one that should be better first."""
    for better, worse in ((REFIL, QMIX), (REFIL, VDN), (REFIL, REFIL_VDN), (VDN, REFIL_VDN)):
        for env in figure_4.TASK_SETS:
            yield better, worse, env


def _count_comparisons(game: dict[str, list[RunDir]], short: Curves) -> list[str]:
    pairs = [(game[REFIL], game[QMIX]), (game[REFIL], game[FIXED])]
    pairs += [(short[better][env], short[worse][env]) for better, worse, env in _pairs(short)]
    counts = [(_num_seeds(ours), _num_seeds(theirs)) for ours, theirs in pairs]
    few = [each for each in counts if min(each) < stats.MIN_SEEDS]
    chance = sum(1 / math.comb(ours + theirs, ours) for ours, theirs in few)
    text = (
        f"The table makes {len(counts)} such comparisons of curves, {len(few)} of them with fewer than five seeds of a method."
    )
    return [
        f"{text} If all",
        f"methods were equal, {chance:.1f} of those {len(few)} would hold all the same. Nothing is corrected for.",
    ]


def _game_claims(game: dict[str, list[RunDir]]) -> Iterator[str]:
    where, command = "4.1, Fig. 3b", "refil sweep figure_3b --precision tf32"
    yield _row(where, "REFIL outperforms QMIX (Attention)", *_compared(game[REFIL], game[QMIX], QMIX), command, GAME)
    claim = "The true groups do not significantly improve on QMIX (Attention) (Fixed Oracle)"
    yield _row(where, claim, *_not_better(game, FIXED, QMIX), command, GAME)
    claim = "Random sub-groups outperform the true groups (Fixed Oracle)"
    yield _row(where, claim, *_compared(game[REFIL], game[FIXED], FIXED), command, GAME)
    claim = "Sampling sub-groups from the true groups (Randomized Oracle) does not significantly improve on REFIL"
    yield _row(where, claim, *_not_better(game, RANDOMIZED, REFIL), command, GAME)


def _not_better(game: dict[str, list[RunDir]], oracle: str, other: str) -> tuple[str, str]:
    """Return what was measured, and the verdict on the claim that an oracle is not better than another method."""
    found = improvement.compare(game[oracle], game[other])
    text = f"{_show(oracle, game[oracle])}; {_show(other, game[other])}; {_probability(found, oracle)}"
    if found.spread is None or found.spread.low > 0.5:
        return text, FAILS
    worse = f", but our oracle is clearly worse than {other}; in the paper's figure (read off it) the two curves are close"
    return text, f"{HOLDS} as worded{worse if found.spread.high < 0.5 else ''}"


def _set_claims() -> Iterator[str]:
    found = {env: len(config.default(env, "refil").build_env().task_names) for env in PAPER_TASKS}
    claim = "3-8sz has 39 tasks, 3-8csz and 3-8MMM have 66 each"
    text = "; ".join(f"{env} {count}" for env, count in found.items())
    command = "refil evaluate 3-8csz --by-task --episodes 1"
    yield _row("4.2, text", claim, text, HOLDS if found == PAPER_TASKS else FAILS, command, SHORT)


def _ablation_claims(short: Curves, long: Curves) -> Iterator[str]:
    for better, worse, env in _pairs(short):
        found, verdict = _compared(short[better][env], short[worse][env], worse, better)
        if better == REFIL and env in long.get(worse, {}):
            found += f"; after 10M steps {_show(REFIL, long[REFIL][env])}, {_show(worse, long[worse][env])}"
        claim = f"REFIL outperforms {worse} on {env}"
        if better == VDN:
            claim = f"REFIL (VDN) is much worse than VDN (Attention) on {env}"
        seeds = max(_num_seeds(short[name][env]) for name in (better, worse))
        command = _sweep([f"{better} on {env}", f"{worse} on {env}"], f"--seeds {seeds} {GPU}")
        yield _row("4.2, Fig. 4", claim, found, verdict, command, SHORT)


def _pooling_claims() -> Iterator[str]:
    sizes = {method: _parameters(method) for method in ("qmix_mean_pooling", "qmix_attention")}
    pooling, attention = sizes.values()
    text = f"whole model on 3-8sz: {MEAN} {pooling:,}, {QMIX} {attention:,} ({pooling / attention:.0%})"
    text += "; the authors' code does the same"
    claim = "Pooling has about as many parameters as attention, thanks to linear layers before it"
    yield _row("4.2, text", claim, text, "**does not hold** for the whole model", "python benchmarks/reproduction.py", NOT_RUN)
    yield _not_run("4.2, Fig. 4", f"Mean pooling in place of attention performs poorly, and REFIL outperforms {MEAN}", [MEAN])
    yield _not_run("4.2, text", "Max pooling is marginally worse than mean pooling", [MEAN, MAX])


def _baseline_claims() -> Iterator[str]:
    where = "4.2, Fig. 4"
    yield _not_run(where, "ROMA, Qatten and QTRAN do not improve on QMIX as they do on single tasks", [*IMPROVED, QMIX])
    yield _not_run(where, "EMP underperforms attention", [EMP, QMIX])
    for env in figure_4.TASK_SETS:
        labels = [f"{name} on {env}" for name in (REFIL, EMP, *IMPROVED, *([UPDET] if env != "3-8MMM" else []))]
        names = "EMP, ROMA, Qatten and QTRAN" if env == "3-8MMM" else "EMP, ROMA, Qatten, QTRAN and QMIX (UPDeT)"
        yield _not_run(where, f"REFIL outperforms {names} on {env}", labels)


def _updet_claims() -> Iterator[str]:
    where, pair = "4.2, Fig. 4", [UPDET, REFIL_UPDET]
    yield _not_run(where, "QMIX (UPDeT) is similar to REFIL on 3-8MMM", ["REFIL on 3-8MMM", f"{UPDET} on 3-8MMM"])
    for env in ("3-8MMM", "3-8sz"):
        yield _not_run(where, f"REFIL (UPDeT) is above QMIX (UPDeT) on {env}", [f"{name} on {env}" for name in pair])
    claim = "The asymptotic win rates of REFIL (UPDeT) and QMIX (UPDeT) on 3-8MMM are similar"
    yield _not_run("4.2, text", claim, [f"{name} on 3-8MMM" for name in pair])
    attacks = _behavior("3_8mmm", "attack a healer in range", ("refil", "nearest", "attack_move", "random"))
    text = "missing for UPDeT, and `won_length_mean` is missing in all published runs, which are older than it."
    text += f" Attacks on Medivacs in range: {attacks} (REFIL without UPDeT: 1 seed, 10M steps, 100 battles)"
    claim = "On 3-8MMM REFIL (UPDeT) wins in 22% fewer timesteps than QMIX (UPDeT), by targeting Medivacs"
    yield _row("4.2, text", claim, text, UNKNOWN, _sweep([f"{name} on 3-8MMM" for name in pair], GPU), LONG)


def _task_claims(short: Curves) -> Iterator[str]:
    claim = f"Ranked by task, REFIL's win rate on {TASKS} decays more slowly than that of the two next best methods"
    command = f"refil plot {' '.join(SEEDS_3_TO_7)} --figure tasks_ranked --out tasks.png"
    yield _row("4.2, Fig. 5 top right", claim, *_ranked(short), command, SHORT)
    players = ("refil", "attack_move", "random", "stop")
    keep = _behavior("3_8csz", "keep away from splash damage (melee)", players)
    text = f"Zealots keep away from Colossi: {keep} (REFIL: 1 seed, 10M steps, 100 battles). Players that act at random or not"
    text += " at all keep away more often, so this says little"
    claim = "Zealots hang back on 3-8csz, then meet the enemy's Zealots"
    verdict = "cannot be told; [one example](#figure-5-left)"
    command = "refil report figure_5_battle --out results/starcraft/ten_million"
    yield _row("4.2, Fig. 5 left", claim, text, verdict, command, LONG)


def _ranked(short: Curves) -> tuple[str, str]:
    """Return how many tasks each seed wins half as often as its best, how the curves fall, and the verdict."""
    found, counts = [], []
    for name in (REFIL, QMIX):
        runs = [run for run in short[name][TASKS] if (run.path / "by_task.json").exists()]
        rates = _runs.by_task(runs, name)
        counts.append((rates >= rates.max(axis=1, keepdims=True) / 2).sum(axis=1).astype(float))
        ranked = 100 * -np.sort(-rates.mean(axis=0))
        slope = -np.polyfit(np.arange(len(ranked)), ranked, 1)[0]
        each = ", ".join(f"{count:.0f}" for count in counts[-1])
        ends = f"from {ranked[0]:.0f}% to {ranked[-1]:.0f}%, on average {slope:.1f} points per rank"
        episodes = f"{len(rates)} seeds, {_runs.task_episodes(runs)} episodes per task"
        found.append(
            f"{name} wins {each} of {len(ranked)} tasks at least half as often as its best one ({episodes}), and falls {ends}"
        )
    better = stats.improvement([counts[0]], [counts[1]])
    verdict = (
        f"{_verdict(better)} relative to each seed's best task, against one of the two; in points per rank REFIL falls faster"
    )
    return f"{'; '.join(found)}; {_probability(better, 'REFIL has more such tasks', '')}", verdict


def _lambda_claims(short: Curves) -> Iterator[str]:
    where = "4.2, Fig. 5 bottom right"
    claim, text = "With lambda 0 REFIL is QMIX (Attention)", "the losses are equal ([test](../tests/methods/test_refil.py))"
    yield _row(where, claim, text, HOLDS, "pytest tests/methods/test_refil.py", SHORT)
    tuned = "Win rates on 3-8sz are best at a lambda between 0 and 1; with lambda 1 nothing is learned"
    text = "; ".join(f"lambda {value}: {_show('', short[name][TASKS])}" for value, name in ((0, QMIX), (0.5, REFIL)))
    yield _row(where, tuned, f"{text}; 0.25, 0.75 and 1 not run", UNKNOWN, f"refil sweep figure_5_lambda {GPU}", SHORT)


def _not_run(where: str, claim: str, labels: list[str]) -> str:
    return _row(where, claim, "not run for 3M steps", UNKNOWN, _sweep(labels, GPU), NOT_RUN)


def _sweep(labels: Sequence[str], options: str) -> str:
    return f"refil sweep figure_4 {' '.join(f'--only {shlex.quote(label)}' for label in labels)} {options}"


def _row(where: str, claim: str, measured: str, verdict: str, command: str, data: Path) -> str:
    folder = data.relative_to(RESULTS)
    return f"| {where} | {claim} | {measured} | {verdict} | `{command}` | [{folder}](../results/{folder}) |"


def _behavior(folder: str, name: str, players: Sequence[str]) -> str:
    """Return how often REFIL after 10M steps and scripts take an opportunity, and how many they had."""
    counts = json.loads((LONG / f"refil_on_{folder}" / "behavior.json").read_text())[name]
    label = {"refil": "REFIL"}
    return ", ".join(
        f"{label.get(each, each)} {counts[each][1] / counts[each][0]:.0%} of {counts[each][0]:,}" for each in players
    )


def _parameters(method: str) -> int:
    """Return the number of a method's parameters on 3-8sz, mixing network included."""
    chosen = config.default(TASKS, method)
    module = plugins.load(config.METHODS, method)
    model = jax.eval_shape(module.build(chosen.method.options, chosen.build_env().spec).init, jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(model))


def _compared(ours: Runs, theirs: Runs, name: str, own: str = REFIL) -> tuple[str, str]:
    """Return what two curves end with after equal steps, and the verdict by the rule of the page."""
    better, options = improvement.compare(ours, theirs), improvement.equal_steps(ours, theirs)
    end = min(points[-1, 0] for points in _runs.series([*ours, *theirs], "win_rate"))
    shown = "; ".join(_show(label, runs, options) for label, runs in ((own, ours), (name, theirs)))
    return f"{shown}; {end / 1e6:.2g}M steps; {_probability(better, own)}", _verdict(better)


def _verdict(better: stats.Estimate) -> str:
    low, high = (better.value, better.value) if better.spread is None else better.spread[:2]
    all_above, all_below = (low > 0.5, high < 0.5) if better.spread else (low == 1, high == 0)
    return HOLDS if all_above else FAILS if all_below else UNCLEAR


def _probability(better: stats.Estimate, name: str, word: str = " better") -> str:
    interval = "" if better.spread is None else f" ({better.spread.low:.2f} to {better.spread.high:.2f})"
    return f"P({name}{word}) {better.value:.2f}{interval}"


def _show(name: str, runs: Runs, options: PlotOptions = improvement.DEFAULT) -> str:
    values = learning_curves.final_values(runs, options)
    spread = stats.spread(values, (0.0, 1.0))
    ends = "" if spread is None else f"{spread.low:.0%} to {spread.high:.0%}, "
    count = f"{len(values)} seed{'s' if len(values) > 1 else ''}, {learning_curves._episodes(runs, options)} episodes each"
    return f"{name} {values.mean():.0%} ({ends}{count})".strip()


def _num_seeds(runs: Runs) -> int:
    return len(learning_curves.final_values(runs))


def _rate_row(name: str, runs: Runs) -> str:
    table = list(learning_curves.table({"": list(runs)}))[2]
    steps, _, mean, spread, episodes, _ = (cell.strip() for cell in table.split("|")[2:-1])
    finals = learning_curves.final_values(runs)
    iqm = stats.aggregate([finals], "iqm", (0.0, 1.0))
    between = f" ({iqm.spread.low:.0%} to {iqm.spread.high:.0%})" if iqm.spread and len(finals) >= stats.MIN_SEEDS else ""
    return f"| {name} | {steps} | {len(finals)} | {episodes} | {mean} | {spread} | {iqm.value:.0%}{between} |"


if __name__ == "__main__":
    main()
