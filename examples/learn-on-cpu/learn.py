"""Let NeMo RL's own GRPO learn on this machine: python learn.py [--device cpu | cuda] [--seed N] [--steps N].

On the CPU, everything runs in a network and mount namespace of its own, where only the loopback interface exists. Needs
root on Linux and what tools/learn.sh makes; anything missing is exit code 3. Exit code 1: the run did not learn, or
broke.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# The namespace, the processes and their end are those of the end-to-end tests.
sys.path.insert(0, str(ROOT / "tests/e2e"))
from harness import leftovers, sandbox, suite  # noqa: E402 - from the folder above

INSIDE = "GRPO_LEARN_INSIDE"
FAILED, CANNOT_RUN = 1, 3
TOOLS = ROOT / ".tools/learn"


def missing() -> list[str]:
    """List what this machine lacks, each entry with what to do about it."""
    lacking = []
    if os.geteuid() != 0:
        lacking.append("root (a network namespace needs it): run as root, for example in a privileged container")
    lacking += [f"{name} on PATH: install util-linux" for name in ("unshare", "mount") if shutil.which(name) is None]
    if not (TOOLS / "venv/.stamp").is_file() or not (TOOLS / "source/nemo_rl").is_dir():
        lacking.append(".tools/learn: run `tools/learn.sh`")
    return lacking


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: one GPU, with vLLM")
    parser.add_argument("--seed", type=int, default=1, help="of the model, the questions and the run")
    parser.add_argument(
        "--steps", type=int, default=60, help="at least 30; with less than 60 the rewards are not judged"
    )
    found = parser.parse_args()
    if found.steps < 30:
        parser.error("--steps must be at least 30: the trainer is killed after step 23")
    return found


def main() -> int:
    """Run the story; on the CPU, enter the namespaces and run this file again in them."""
    asked = arguments()
    if INSIDE in os.environ:
        return inside(Path(os.environ[INSIDE]), asked)
    import gpu

    on_gpu = asked.device == "cuda"
    if lacking := gpu.missing() if on_gpu else missing():
        print("\n".join(f"learn: SKIPPED: needs {entry}" for entry in lacking), file=sys.stderr)
        return CANNOT_RUN
    with tempfile.TemporaryDirectory(prefix="learn-", dir="/tmp") as work:
        if on_gpu:
            return outcome(gpu.run, Path(work), asked)
        os.environ[INSIDE] = work
        namespaces = ["unshare", "--net", "--mount", "--propagation", "private", "--"]
        return suite.supervise([*namespaces, sys.executable, *sys.argv])


def inside(work: Path, asked: argparse.Namespace) -> int:
    """Run the story in the namespaces."""
    import story

    leftovers.end_with_parent()
    sandbox.enter(work)
    return outcome(story.run, work, asked)


def outcome(run: Callable[[Path, dict[str, Any]], None], work: Path, asked: argparse.Namespace) -> int:
    """Run the story, then make sure that no process outlives it."""
    import story

    leftovers.adopt_orphans()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run(work, {"device": asked.device, "seed": asked.seed, "steps": asked.steps})
        code = 0
    except (story.StoryError, KeyboardInterrupt) as error:
        print(f"learn: {error or 'interrupted'}", file=sys.stderr)
        code = FAILED
    if survivors := leftovers.sweep():
        print("learn: processes were still running at the end: " + "; ".join(survivors), file=sys.stderr)
        code = FAILED
    return code


if __name__ == "__main__":
    sys.exit(main())
