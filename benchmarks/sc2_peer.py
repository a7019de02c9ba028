"""Compare battles through the StarCraft II client and a peer with the same team's battles in the simulator.

    python benchmarks/sc2_peer.py
    python benchmarks/sc2_peer.py --teams 3-8sz --battles 50

The team that ships for each task set plays as many battles through the client, with a process and a websocket for each game, as
directly; tasks are sampled in the same way.
Prints both win rates and their difference with its 95 % interval for two proportions, and the steps per second of the former.
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import jax.numpy as jnp
import numpy as np

from refil import teams
from refil.envs.sc2 import env as sc2
from refil.envs.sc2 import install
from refil.envs.sc2.client import GameClient, Timeouts
from refil.envs.sc2.config import Config
from refil.envs.sc2.env import StarCraft2
from refil.envs.sc2.peer import installation
from refil.envs.sc2.peer.server import Peer
from refil.envs.starcraft import env as starcraft
from refil.envs.starcraft import scenarios
from refil.envs.starcraft.config import Config as SimulatorConfig
from refil.nn.utilities import team_policy, team_state
from refil.rollout import rollout_random_tasks
from refil.stats import Z95
from refil.team import Team
from refil.types import Env, Trajectory

SETS = ("3-8sz", "3-8csz", "3-8MMM")


def main() -> None:
    """Play and print."""
    args = parse_arguments()
    print(f"{'team':<14}{'battles':>8}{'client':>9}{'simulator':>11}{'difference':>12}  95 % interval     steps/s")
    for name in args.teams:
        team = teams.load(name)
        with games_of_a_peer(name.removesuffix("-refil"), args.parallel) as env:
            play(team, env, args.parallel, seed=10_000)  # launches and compiles
            started = time.perf_counter()
            through = play(team, env, args.battles, args.seed)
            seconds = time.perf_counter() - started
        directly = play(team, team.env, args.battles, args.seed + 1)
        won, expected = float(through.won.mean()), float(directly.won.mean())
        low, high = interval(won, expected, args.battles)
        speed = float(through.valid.sum()) / seconds
        numbers = f"{args.battles:>8}{won:>9.3f}{expected:>11.3f}{won - expected:>+12.3f}"
        print(f"{name:<14}{numbers}  {low:+.3f} to {high:+.3f}{speed:>9.0f}", flush=True)


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teams", nargs="+", default=SETS, help=f"teams that ship with refil (default: {' '.join(SETS)})")
    parser.add_argument("--battles", type=int, default=200, help="battles of each team either way (default: 200)")
    parser.add_argument("--parallel", type=int, default=8, help="games that run at once (default: 8)")
    parser.add_argument("--seed", type=int, default=0, help="random seed of the battles (default: 0)")
    return parser.parse_args()


def play(team: Team, env: Env, battles: int, seed: int) -> Trajectory:
    """Let a team play greedily; return the trajectories of the only seed."""
    models = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], team.model)
    policy, state = team_policy(models, jnp.zeros(1)), team_state(models, battles, env.spec.agents)
    keys = jax.random.split(jax.random.key(seed), 1)
    if isinstance(env, StarCraft2):
        return rollout_random_tasks(env, policy, state, battles, keys)
    return jax.jit(lambda keys: rollout_random_tasks(env, policy, state, battles, keys))(keys)


def interval(won: float, expected: float, battles: int) -> tuple[float, float]:
    """Return the 95 % interval of the difference of two proportions."""
    half = Z95 * np.sqrt((won * (1 - won) + expected * (1 - expected)) / battles)
    return won - expected - half, won - expected + half


@contextmanager
def games_of_a_peer(name: str, games: int) -> Iterator[StarCraft2]:
    """Play in games with a process and a websocket each, all of one peer in this process."""
    scenario = scenarios.SCENARIOS[name]
    with TemporaryDirectory() as folder, Peer(starcraft.build(scenario, SimulatorConfig())) as peer:
        installation.write(Path(folder), peer.port)
        executable = Path(folder) / "Versions" / "Base0" / install.EXECUTABLE
        installed = install.Installation(Path(folder), executable, install.MAP, install.NOT_A_MAP)
        timeouts = Timeouts.of_requests(300)  # machines may be busy
        env = sc2.build(scenario, Config(games=games), lambda number: GameClient(installed, number, timeouts))
        yield env
        env.games.close()


if __name__ == "__main__":
    main()
