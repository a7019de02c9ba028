"""Training from the command line: when it stops."""

import os
import signal

import pytest

from refil.cli._training import graceful_shutdown


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_to_stop_and_a_second_one_interrupts(number):
    messages, before = [], signal.getsignal(number)
    with graceful_shutdown(None, messages.append) as should_stop:
        assert not should_stop()
        os.kill(os.getpid(), number)
        assert should_stop()
        assert "stop without saving" in messages[0]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


def test_the_time_limit_asks_to_stop():
    with graceful_shutdown(0.0, print) as should_stop:
        assert should_stop()
    with graceful_shutdown(1.0, print) as should_stop:
        assert not should_stop()
