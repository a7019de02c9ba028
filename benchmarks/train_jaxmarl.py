"""Train with JaxMARL's own PQN-VDN script, unchanged, on an environment of refil, and print its returns.

    python benchmarks/train_jaxmarl.py JaxMARL/baselines/QLearning/pqn_vdn_rnn.py --env 3m --steps 400000

It needs JaxMARL in the environment of refil (docs/adapters.md), and what the script imports: `pip install hydra-core wandb`.
The settings are those of its `pqn_vdn_rnn_smax.yaml`, except for smaller networks and fewer environments, which suit a CPU.
"""

import argparse
import importlib.util
import time

import jax
import numpy as np
from jaxmarl.wrappers.baselines import SMAXLogWrapper

from refil.adapters.jaxmarl import JaxMarlEnv

SETTINGS = {
    "MEMORY_WINDOW": 4,
    "NUM_STEPS": 32,
    "NUM_LAYERS": 2,
    "NORM_INPUT": True,
    "NORM_TYPE": "batch_norm",
    "EPS_START": 1.0,
    "EPS_FINISH": 0.01,
    "EPS_DECAY": 0.1,
    "MAX_GRAD_NORM": 1,
    "NUM_MINIBATCHES": 4,
    "NUM_EPOCHS": 4,
    "LR": 0.00025,
    "LR_LINEAR_DECAY": True,
    "GAMMA": 0.99,
    "LAMBDA": 0.85,
    "REW_SCALE": 1.0,
    "TEST_DURING_TRAINING": True,
    "TEST_INTERVAL": 0.05,
    "TEST_NUM_ENVS": 64,
    "WANDB_MODE": "disabled",
}


def main() -> None:
    """Train one seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", help="path of JaxMARL's pqn_vdn_rnn.py")
    parser.add_argument("--env", default="3m", help="environment of refil")
    parser.add_argument("--steps", type=int, default=400_000, help="environment steps")
    parser.add_argument("--envs", type=int, default=64, help="environments")
    parser.add_argument("--size", type=int, default=64, help="size of the hidden layers")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    spec = importlib.util.spec_from_file_location("pqn_vdn_rnn", args.script)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    env = JaxMarlEnv(args.env)
    config = SETTINGS | {
        "TOTAL_TIMESTEPS": args.steps,
        "NUM_ENVS": args.envs,
        "HIDDEN_SIZE": args.size,
        "TEST_NUM_STEPS": env.environment.spec.horizon,
    }
    start = time.perf_counter()
    train = jax.jit(script.make_train(config, SMAXLogWrapper(env)))
    metrics = jax.device_get(train(jax.random.PRNGKey(args.seed))["metrics"])
    print(f"{time.perf_counter() - start:.0f} s")
    print("  steps  greedy return  greedy win rate")
    tests = np.unique(metrics["test_returned_episode_returns"], return_index=True)[1]
    for row in np.sort(tests):
        shown = (metrics[f"test_{name}"][row] for name in ("returned_episode_returns", "won"))
        print("{:7,}  {:13.2f}  {:15.2f}".format(int(metrics["env_step"][row]), *map(float, shown)))


if __name__ == "__main__":
    main()
