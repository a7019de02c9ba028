"""A sample of the attack on extensions: broken files are refused in one sentence, and leave nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_broken_extensions_are_refused_in_one_sentence():
    script = ROOT / "benchmarks" / "attack_extensions.py"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, str(script), "--every", "7"], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "7 of 7 mistakes were named in one sentence" in result.stdout
