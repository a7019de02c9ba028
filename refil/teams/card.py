"""Cards of teams: what a team is, where it comes from, and how often it wins."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

from refil import stats
from refil.errors import RefilError
from refil.training import config as configs
from refil.training.config import RunConfig

LICENSE = "MIT"


@dataclass(frozen=True)
class Evaluation:
    """Greedy battles on every task, played after the team was chosen, with random seeds that no run has used.

    Each of the `seeds` was played with `refil evaluate TEAM --by-task --episodes EPISODES --seed SEED`, and `won` are the sums.
    """

    episodes: int  # per task and seed
    seeds: tuple[int, ...]
    won: dict[str, int]  # per task
    return_mean: dict[str, float]
    length_mean: dict[str, float]

    @property
    def per_task(self) -> int:
        """The number of episodes of each task."""
        return self.episodes * len(self.seeds)

    @property
    def win_rate(self) -> float:
        """The mean win rate over tasks, each with the same number of episodes."""
        return sum(self.won.values()) / (self.per_task * len(self.won))

    @property
    def ci95(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the win rate over all episodes."""
        return stats.wilson_interval(self.win_rate, self.per_task * len(self.won))

    def task_rates(self) -> dict[str, tuple[float, tuple[float, float]]]:
        """Return the win rate of every task with Wilson's 95 % interval."""
        rates = {task: won / self.per_task for task, won in self.won.items()}
        return {task: (rate, stats.wilson_interval(rate, self.per_task)) for task, rate in rates.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the values to store; rates and intervals are there for readers and follow from the counts."""
        tasks = {
            task: {
                "won": self.won[task],
                "win_rate": round(rate, 4),
                "ci95": _rounded(interval),
                "return_mean": round(self.return_mean[task], 3),
                "length_mean": round(self.length_mean[task], 2),
            }
            for task, (rate, interval) in self.task_rates().items()
        }
        own = {"episodes": self.episodes, "seeds": list(self.seeds), "win_rate": round(self.win_rate, 4)}
        return own | {"ci95": _rounded(self.ci95), "tasks": tasks}


@dataclass(frozen=True)
class Card:
    """The description and the origin of a team; `commit` is the version of refil that trained it, `run` the run's folder."""

    name: str
    version: int
    summary: str
    method: str
    environment: str
    steps: int
    seed: int
    commit: str
    run: str
    evaluation: Evaluation
    config: dict[str, Any]
    license: str = LICENSE
    sha256: str = ""
    size: int = 0  # bytes of the weights

    @classmethod
    def parse(cls, text: str, source: str) -> "Card":
        """Read a card from JSON."""
        try:
            values = json.loads(text)
            stored = values["evaluation"]
            tasks = stored["tasks"]
            columns = {name: {task: row[name] for task, row in tasks.items()} for name in ("won", "return_mean", "length_mean")}
            evaluation = Evaluation(stored["episodes"], tuple(stored["seeds"]), **columns)
            return cls(**(values | {"evaluation": evaluation}))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RefilError(f"{source} is not the card of a team: {error}") from error

    def to_json(self) -> str:
        """Return the text that `parse` reads."""
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return json.dumps(values | {"evaluation": self.evaluation.to_dict()}, indent=2) + "\n"

    def run_config(self) -> RunConfig:
        """Return the config of training."""
        return configs.read(json.dumps(self.config), f"the card of team {self.name}")

    def with_weights(self, content: bytes) -> "Card":
        """Return the card of a team whose weights are in a file of this content."""
        return replace(self, sha256=hashlib.sha256(content).hexdigest(), size=len(content))

    def render(self) -> str:
        """Return the card as text, tasks with the lowest win rates first."""
        low, high = self.evaluation.ci95
        battles = self.evaluation.per_task * len(self.evaluation.won)
        lines = [
            f"{self.name} (version {self.version}): {self.summary}",
            f"  environment  {self.environment}",
            f"  method       {self.method}, {self.steps:,} steps, seed {self.seed}",
            f"  trained at   {self.commit}, in {self.run}",
            f"  weights      {self.size / 1e6:.2f} MB, SHA-256 {self.sha256}",
            f"  license      {self.license}",
            f"  win rate     {self.evaluation.win_rate:.3f} ({low:.3f} to {high:.3f}, 95 % Wilson interval)",
            f"               {battles:,} greedy battles after the team was chosen, {self.evaluation.per_task} of each task:",
            f"               refil evaluate {self.name} --by-task --episodes {self.evaluation.episodes} --seed SEED,",
            f"               SEED from {min(self.evaluation.seeds)} to {max(self.evaluation.seeds)}",
            f"  {'task':<24} win rate   interval        return   length",
        ]
        for task, (rate, (low, high)) in sorted(self.evaluation.task_rates().items(), key=lambda item: item[1][0]):
            means = self.evaluation.return_mean[task], self.evaluation.length_mean[task]
            lines.append(f"  {task:<24} {rate:8.3f}   {low:.3f} to {high:.3f} {means[0]:8.2f} {means[1]:8.1f}")
        return "\n".join(lines)


def _rounded(interval: tuple[float, float]) -> list[float]:
    return [round(bound, 4) for bound in interval]
