"""The example of docs/adapters.md runs."""

import re
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs" / "adapters.md"


def test_the_loop_of_the_page_plays_three_episodes(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(code.splitlines()) <= 30
    exec(code, {})
    printed = capsys.readouterr().out
    assert printed.count("steps, return") == 3
    assert "episode 0: agent_0, agent_1" in printed
