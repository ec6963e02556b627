"""Let a framework's own GRPO learn on this machine: python learn.py [--framework verl] [--in-pods | --device cuda].

On the CPU everything runs in a network and mount namespace of its own, which nothing can be reached from or reach.
With --stall a worker hangs instead of SIGKILL of the trainer.
Needs root on Linux and what tools/learn.sh makes; --in-pods also what real nodes need, and tools/learn-image.sh.
Anything missing is exit code 3. Exit code 1: the run did not learn, or broke.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# The namespace, the processes and their end are those of the end-to-end tests.
sys.path.insert(0, str(ROOT / "tests/e2e"))
from cluster import Cluster  # noqa: E402
from frameworks import FRAMEWORKS, TOOLS  # noqa: E402
from harness import leftovers, suite  # noqa: E402 - from the folder above

INSIDE = "GRPO_LEARN_INSIDE"
FAILED, CANNOT_RUN = 1, 3


def missing(asked: argparse.Namespace) -> list[str]:
    """List what this machine lacks, each entry with what to do about it."""
    if asked.device == "cuda":
        import gpu

        return gpu.missing()
    lacking = []
    if os.geteuid() != 0:
        lacking.append("root (a network namespace needs it): run as root, for example in a privileged container")
    lacking += [f"{name} on PATH: install util-linux" for name in ("unshare", "mount") if shutil.which(name) is None]
    framework = FRAMEWORKS[asked.framework]
    if framework.missing():
        lacking.append(f".tools/learn: run `FRAMEWORK={framework.name} tools/learn.sh`")
    if asked.in_pods and not lacking:
        import pods

        return pods.missing()
    return lacking


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--framework", choices=list(FRAMEWORKS), default="nemo-rl")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--in-pods", action="store_true", help="install the charts on real nodes, with KubeRay")
    where.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: one GPU, with vLLM")
    parser.add_argument("--seed", type=int, default=1, help="of the model, the questions and the run")
    parser.add_argument(
        "--steps", type=int, default=60, help="at least 30; with less than 60 the rewards are not judged"
    )
    parser.add_argument(
        "--stall", action="store_true", help="a worker hangs, instead of SIGKILL of the trainer; not with cuda"
    )
    found = parser.parse_args()
    if found.steps < 30:
        parser.error("--steps must be at least 30: the trainer is killed after step 23")
    if found.stall and found.device == "cuda":
        parser.error("--stall needs --device cpu")
    if found.framework == "verl" and (found.in_pods or found.device == "cuda" or found.stall):
        parser.error("--framework verl runs without --in-pods, --stall and --device cuda only")
    return found


def main() -> int:
    """Run the story; on the CPU, enter the namespaces and run this file again in them."""
    asked = arguments()
    if INSIDE in os.environ:
        leftovers.end_with_parent()
        return run(Path(os.environ[INSIDE]), asked)
    if lacking := missing(asked):
        print("\n".join(f"learn: SKIPPED: needs {entry}" for entry in lacking), file=sys.stderr)
        return CANNOT_RUN
    # The machines link the files of images, so they lie beside them.
    with tempfile.TemporaryDirectory(prefix="learn-", dir=TOOLS.resolve() if asked.in_pods else "/tmp") as work:
        if asked.device == "cuda":
            return run(Path(work), asked)
        os.environ[INSIDE] = work
        namespaces = ["unshare", "--net", "--mount", "--propagation", "private", "--"]
        return suite.supervise([*namespaces, sys.executable, *sys.argv])


def tell(work: Path, asked: argparse.Namespace) -> None:
    """Run the story on the cluster that is asked for; only pods need the libraries of the end-to-end tests."""
    import story

    if asked.device == "cuda":
        import gpu

        return gpu.tell(work, asked.seed, asked.steps)
    framework = FRAMEWORKS[asked.framework]
    cluster: Cluster
    if asked.in_pods:
        import pods

        cluster = pods.PodCluster(work, framework)
    else:
        import processes

        processes.enter(work, framework)
        cluster = processes.ProcessCluster(work, framework)
    if asked.stall:
        import stall

        return story.tell(cluster, asked.seed, asked.steps, functools.partial(story.learn, train=stall.stand_still))
    return story.tell(cluster, asked.seed, asked.steps)


def run(work: Path, asked: argparse.Namespace) -> int:
    """Run the story, then make sure that no process outlives it."""
    import story

    leftovers.adopt_orphans()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        tell(work, asked)
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
