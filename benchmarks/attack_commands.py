"""Run bad command lines and check that each is refused in one sentence, soon, and without leaving anything behind.

    python benchmarks/attack_commands.py [TEXT]

Only command lines that contain TEXT are run, if it is given. All of them run in one process, in a folder of their own with the
files that `prepare` writes. A command passes if its exit code is 2, it prints one sentence and no traceback, it takes less than
SECONDS, and the folder has the same files as before.
"""

import contextlib
import hashlib
import io
import os
import shlex
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SECONDS = 20.0
LONGEST = 1500  # characters of a message: some list all choices

ATTACKS = """
tran
plto run
train ""
train nowhere
train 3-8zs
train corridor
train 3x5z
train 5marines
train 3s5z-vs-3s6z
train 0m
train 999999m
train missing.py
train folder.py
train syntax.py
train empty.py
train binary.py
train sibling.py
train run
train group_matching extra
train --method refill
train --method ""
train --method
train --method missing.py
train --method empty.py
train --lr inf
train --lr nan
train --lr -1
train --lr fast
train --steps 0
train --steps 1e6
train --method refil --method=qtran
train --steps 10
train --stepz 5
train --seeds 0
train --seeds 100000000
train --seed -1
train --envs 100000 --buffer 10
train --batch 100 --buffer 10
train --buffer 100000000
train --batch 10000000 --buffer 10000000
train --eval-episodes 1000000000
train --precision float8
train --pack 2
train --env.agents 0
train --env.groups 99
train --method.heads 3
train --method.mixer none
train --out one --out two
train --out notes.txt
train --out notes.txt/run
train --resume nowhere
train --resume ""
train --resume notes.txt
train --resume run group_matching
train --resume run --out other
train --resume run --method.groups 3
train --resume foreign
train --config nowhere.json
train --config folder.py
train --config notes.txt
train --config broken.json
train --config foreign/config.json
train --config run/config.json --method refil
train --init-from nowhere
train --init-from empty
train --init-from notes.txt
train --trust=yes
train --learnability 0.5
train --rollout 16
train --method vdn_pqn --learnability 2
train --method vdn_pqn --learnability nan
train --method vdn_pqn --batch 5
train --method vdn_pqn --buffer 100
train --method vdn_pqn --compact-checkpoints maybe
train --method vdn_pqn --envs 10 --minibatches 3
train --method vdn_pqn --rollout 20 --reset-every 16
train --method vdn_pqn --td-lambda 2
train --method vdn_pqn --average -1
train --method vdn_pqn --targets newest
train --method vdn_pqn --optimizer sgd
train --method vdn_pqn --epsilon-fraction 1.5
train --method vdn_pqn --envs 100000000
train --method vdn_pqn --rollout 1000000000
train --method vdn_pqn --method.heads 5
train --method vdn_pqm
train 3m --method vdn_pqn --env.tags 1
train 3m --method vdn_pqn --precision half
train noscene.py --replay
train --method algorithm.py
train --resume onpolicy --learnability 0.5
train --resume onpolicy --method vdn_pqn
train --resume onpolicy --batch 5
train --config onpolicy/config.json --batch 5
evaluate
evaluate nowhere
evaluate notes.txt
evaluate empty
evaluate run
evaluate foreign
evaluate run --episodes 0
evaluate run --episodes many
evaluate run run
evaluate run --best --by-task
evaluate onpolicy
evaluate trained
export
export nowhere --out policy
export nosuchteam --out policy
export run --out policy
fidelity
fidelity nowhere
fidelity 3m --battles 1
fidelity 3m --scripts dance
info --jsn
info run
record
record nowhere --out data.npz
record group_matching --out data.txt
record group_matching --out nowhere/data.npz
record group_matching --out data.npz --epsilon 0.5
report
report nowhere
report figure_99
sc2-peer
sc2-peer notes.txt
sc2-peer game --env nowhere
sc2-peer game --fault sneeze:step:1
status
status nowhere
status notes.txt
lab nowhere
lab --port 65536
lab --port -1
lab group_matchin
lab noscene.py
lab broken.json
lab run
lab 3-8sz --model 7
lab foreign
lab syntax.py
teams nowhere
teams 3-8szz
plot
plot nowhere
plot run --out nowhere/curves.png
plot run --out curves.docx
plot run --out folder.py
plot run --figure pie
plot run --figure empty.py
plot run --labels a b
plot run run
plot run --until 0
plot run --until many
plot run --level high
plot run --level nan
plot run --smooth 0
plot run --size 0 0
plot run --metric ""
plot run --metric win_rat
plot trained --until 5
plot trained --level nan
plot trained --level inf
plot trained --metric win_rat
plot trained --figure tasks_ranked --until 500
plot trained --figure tasks_ranked --level 0.5
plot trained onpolicy
watch run
watch run --html nowhere/page.html
watch run --html page.txt
watch run --gif page.html
watch run --png folder.py
watch run --html page.html
watch nowhere --html page.html
watch foreign --html page.html
behavior nowhere
behavior run
behavior foreign
behavior run --scripts dance
battle
battle --allies ""
battle --allies 3q
battle --allies 3s --enemies z
battle --allies 3s --script focis
battle --allies 3s --script empty.py
battle --allies 3s --html nowhere/page.html
battle --allies 3s --episodes 0
battle --allies 3s --episodes 1000000000
battle --tasks corridor
battle --tasks group_matching
battle --placement nowhere.json
battle --placement notes.txt
battle --allies 3s --tasks 3-8sz
bench nowhere
bench --out x
bench --init-from run
bench --repeats 0
bench --random --envs 1000000000
bench --buffer 1000000000
check nowhere
check missing.py
check empty.py
check
sweep
sweep figure_9
sweep missing.py
sweep empty.py
sweep figure_3b --only nothing
sweep figure_3b --seeds 0
list --env nowhere --methods
list everything
"""


@dataclass(frozen=True)
class Result:
    """What a command line did, and what is wrong with that, if anything."""

    command: str
    code: int
    message: str
    seconds: float
    faults: tuple[str, ...]


def commands() -> list[str]:
    """Return all command lines."""
    return [line for line in ATTACKS.splitlines() if line]


def prepare(folder: Path) -> None:
    """Write files that look like runs, configs and plug-ins, but are none; `run` is one without models."""
    from refil.storage import run_dir
    from refil.training import config

    texts = {"notes.txt": "Remember the milk.", "broken.json": '{"env": {"name": "group_matching"}, "method": 3}'}
    texts |= {"syntax.py": "def build(:\n", "empty.py": '"""Nothing."""\n', "sibling.py": "import no_such_sibling\n"}
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "binary.py").write_bytes(bytes(range(256)))
    (folder / "folder.py").mkdir()
    (folder / "empty").mkdir()
    example = (Path(__file__).parent.parent / "refil" / "examples" / "beacon.py").read_text()
    (folder / "noscene.py").write_text(example.replace("def scene(", "def draw("))
    (folder / "algorithm.py").write_text(f'{example}\nALGORITHM = "on-policy"\n')
    run_dir.create(folder / "run", config.default("group_matching", "refil"))
    run_dir.create(folder / "onpolicy", config.default("group_matching", "vdn_pqn"))
    trained = run_dir.create(folder / "trained", config.default("group_matching", "refil"))
    trained.append_metrics([{"seed": 0, "env_steps": 9000 * n, "win_rate": 0.5, "seconds": n} for n in range(1, 4)])
    foreign = run_dir.create(folder / "foreign", config.default("group_matching", "refil"))
    evil = foreign.path / "code" / "env" / "evil.py"
    evil.parent.mkdir(parents=True)
    evil.write_text("open('marker', 'w')\n")
    sha256 = hashlib.sha256(evil.read_bytes()).hexdigest()
    text = (foreign.path / "config.json").read_text()
    (foreign.path / "config.json").write_text(text.replace('"group_matching"', f'"evil.py", "sha256": "{sha256}"'))


def files(folder: Path) -> dict[str, bytes | None]:
    """Return the content of every file below a folder; locks, which are empty, may come and go."""
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.name != "lock"}
    return {name: path.read_bytes() if path.is_file() else None for name, path in found.items()}


def attack(command: str, folder: Path) -> Result:
    """Run one command line in a folder, which must be the working directory."""
    from refil.__main__ import main

    before, started, code = files(folder), time.monotonic(), 0
    output, errors, argv = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["refil", *shlex.split(command)]
    raised = None
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException as error:
        raised, code = error, 1
    finally:
        sys.argv = argv
    seconds, message = time.monotonic() - started, errors.getvalue().strip()
    changed = sorted(name for name, _ in files(folder).items() ^ before.items())
    faults = {
        f"raised {raised!r}": raised is not None,
        f"exit code {code}": code != 2 and raised is None,
        "a traceback": "Traceback" in message + output.getvalue(),
        "no message": not message,
        "a long message": len(message) > LONGEST,
        f"{seconds:.0f} s": seconds > SECONDS,
        f"left {', '.join(changed)}": bool(changed),
    }
    return Result(command, code, message, seconds, tuple(fault for fault, present in faults.items() if present))


@contextlib.contextmanager
def working_folder():
    """Prepare an empty working directory, and a list of trusted code for this attack alone."""
    before = Path.cwd(), os.environ.get("XDG_STATE_HOME")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve() / "work"
        folder.mkdir()
        os.environ["XDG_STATE_HOME"] = str(folder.parent / "state")
        os.chdir(folder)
        try:
            prepare(folder)
            yield folder
        finally:
            os.chdir(before[0])
            if before[1] is None:
                del os.environ["XDG_STATE_HOME"]
            else:
                os.environ["XDG_STATE_HOME"] = before[1]


def main() -> None:
    """Run all attacks, print each with its message, and a summary."""
    text = sys.argv[1] if len(sys.argv) > 1 else ""
    with working_folder() as folder:
        results = []
        for command in commands():
            if text in command:
                results.append(result := attack(command, folder))
                status = f"FAILED ({'; '.join(result.faults)})" if result.faults else f"refused in {result.seconds:.1f} s"
                print(f"refil {command}: {status}\n    {' '.join(result.message.split())[:300]}", flush=True)
    failed = [result for result in results if result.faults]
    slowest = max(result.seconds for result in results)
    print(f"{len(results) - len(failed)} of {len(results)} bad command lines refused; the slowest took {slowest:.1f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
