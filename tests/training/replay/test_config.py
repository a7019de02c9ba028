"""Options of training from a replay buffer."""

import pytest

from refil.errors import RefilError
from refil.training.config import default
from refil.training.replay import config
from refil.training.replay.config import ReplayConfig
from refil.training.setup import TrainConfig


def test_the_defaults_are_the_papers():
    defaults = ReplayConfig()
    assert (defaults.batch, defaults.lr, defaults.max_grad_norm, defaults.target_every) == (32, 5e-4, 10.0, 200)
    assert default("3-8sz", "refil").algorithm.buffer == 5000
    config.check(defaults, TrainConfig())


@pytest.mark.parametrize(
    ("changes", "train", "message"),
    [
        ({"buffer": 31}, {}, "algorithm.batch 32 is larger than algorithm.buffer 31"),
        ({"buffer": 40}, {"envs": 41}, "train.envs 41 is larger than algorithm.buffer 40"),
    ],
)
def test_a_buffer_that_is_too_small_is_refused(changes, train, message):
    with pytest.raises(RefilError, match=message):
        config.check(ReplayConfig(**changes), TrainConfig(**train))
