"""Run the end-to-end tests inside a network and mount namespace of their own.

usage: python tests/e2e/run.py [pytest arguments]

Only the loopback interface exists inside, so nothing that the tests start can be reached from outside or reach out.
Needs root, util-linux' `unshare`, the programs of `tools/build.sh` and Ray (`tools/ray.sh`); anything missing is exit
code 3.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import leftovers, sandbox

REPOSITORY = Path(__file__).resolve().parents[2]
INSIDE = "GRPO_E2E_INSIDE"
CANNOT_RUN = 3
PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
    "ray-operator",
    "kueue",
    "helm3",
    "helm4",
)
MANIFESTS = (
    "gke-crds",
    "jobset-crds",
    "kuberay-crds",
    "kuberay-1.5-crds",
    "kuberay-ray-cluster",
    "kueue-crds",
    "kueue-webhooks",
    "kwok-stages",
)


def missing() -> list[str]:
    """List what this machine lacks, each entry with what to do about it."""
    lacking = []
    if os.geteuid() != 0:
        lacking.append("root (a network namespace needs it): run as root, for example in a privileged container")
    for name in ("unshare", "mount", "umount", "openssl", "bash"):
        if shutil.which(name) is None:
            lacking.append(f"{name} on PATH: install util-linux, openssl and bash")
    for name in PROGRAMS:
        if not os.access(REPOSITORY / ".tools/bin" / name, os.X_OK):
            lacking.append(f".tools/bin/{name}: run `tools/build.sh`")
    for name in MANIFESTS:
        if not (REPOSITORY / ".tools/share" / name).is_dir():
            lacking.append(f".tools/share/{name}: run `tools/build.sh`")
    if not os.access(REPOSITORY / ".tools/ray/bin/ray", os.X_OK):
        lacking.append(".tools/ray: run `tools/ray.sh`")
    return lacking


def main(arguments: list[str]) -> int:
    """Enter the namespaces, run pytest with `arguments` and return its exit code (3: could not run)."""
    if INSIDE in os.environ:
        return run_inside(arguments)
    lacking = missing()
    if lacking:
        print("\n".join(f"e2e: needs {entry}" for entry in lacking), file=sys.stderr)
        return CANNOT_RUN
    with tempfile.TemporaryDirectory(prefix="e2e-", dir="/tmp") as work:
        os.environ[INSIDE] = work
        namespace = ["unshare", "--net", "--mount", "--propagation", "private", "--"]
        return supervise([*namespace, sys.executable, __file__, *arguments])


def run_inside(arguments: list[str]) -> int:
    """Prepare the sandbox, run pytest, then make sure that no process outlives it."""
    leftovers.end_with_parent()
    work = Path(os.environ[INSIDE])
    try:
        sandbox.enter(work)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"e2e: cannot prepare the namespace: {error}", file=sys.stderr)
        return CANNOT_RUN
    leftovers.adopt_orphans()
    code = run_pytest(arguments)
    survivors = leftovers.sweep()
    if survivors:
        print("e2e: processes were still running at the end: " + "; ".join(survivors), file=sys.stderr)
        code = code or 1
    keep_logs(work, code)
    return code


def run_pytest(arguments: list[str]) -> int:
    """Run pytest on these tests with `arguments`, on all of them when no path is among the arguments."""
    here = Path(__file__).resolve().parent
    options = ["-c", str(here / "pytest.ini"), "--rootdir", str(here), "-p", "no:cacheprovider"]
    chosen = any(Path(word.split("::")[0]).exists() for word in arguments if not word.startswith("-"))
    return supervise([sys.executable, "-m", "pytest", *options, *([] if chosen else [str(here)]), *arguments])


def supervise(command: list[str]) -> int:
    """Run a child in a session of its own and return its exit code.

    SIGINT and SIGTERM reach the child once, as the SIGINT on which pytest tears its fixtures down.
    """
    asked: list[int] = []
    with subprocess.Popen(command, start_new_session=True) as child:

        def forward(number: int, _frame: object) -> None:
            if not asked:
                child.send_signal(signal.SIGINT)
            asked.append(number)

        signal.signal(signal.SIGINT, forward)
        signal.signal(signal.SIGTERM, forward)
        code = child.wait()
    return 128 + asked[0] if asked else abs(code)


def keep_logs(work: Path, code: int) -> None:
    """Copy the logs to ./e2e-logs when something failed; an old copy never survives a newer run."""
    kept = REPOSITORY / "e2e-logs"
    shutil.rmtree(kept, ignore_errors=True)
    if code != 0 and (work / "logs").is_dir():
        shutil.copytree(work / "logs", kept)
        print(f"e2e: logs are in {kept}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
