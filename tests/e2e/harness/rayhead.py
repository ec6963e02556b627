"""Running the head pods of Ray clusters for real, one at a time.

A kubelet for one kind of pod: in the namespaces that a test names it takes a head pod that kwok calls ready, and runs
the command of its first container with the environment that the API server holds, on the loopback interface. When the
pod goes, its preStop program runs before SIGTERM, though kwok takes the pod away a second after its deletion. The
worker pods are Ray nodes with as many GPUs as their group says and without the pods' commands: a job waits for them.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from harness import containers, pods
from harness.controlplane import answers
from harness.image import CODE, VENV
from harness.kube import Kube, KubectlError, Manifest
from harness.processes import Program
from harness.stack import Stack
from harness.waiting import until

RAY = VENV / "bin/ray"
# Open without the token that a cluster may ask for.
DASHBOARD = "http://127.0.0.1:8265/api/gcs_healthz"
# For the sake of this machine: no pool of idle workers as large as the node. And for the sake of time: an owner of a
# run that was killed counts as gone after 8 seconds instead of 30.
EXTRA = {
    "RAY_prestart_worker_first_driver": "0",
    "RAY_ENABLE_METRICS_COLLECTION": "0",
    "GRPO_OWNER_BEAT_SECONDS": "1",
    "GRPO_OWNER_LAPSE_SECONDS": "8",
}


class RayHeads:
    """A thread that runs the Ray head of the registered namespaces while its pod exists."""

    def __init__(self, kube: Kube, work: Path, every: float = 0.5) -> None:
        self.kube = kube
        self.work = work
        self.every = every
        self.namespaces: set[str] = set()
        # Hooks run on the head alone: no Ray nodes for the worker pods of these.
        self.without_workers: set[str] = set()
        self.current: RunningHead | None = None
        self.problem = ""
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._loop, name="ray-heads", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self.thread.start()

    def stop(self) -> None:
        """End the thread and the head that runs."""
        self.stopped.set()
        self.thread.join()
        self._stop_current()

    @property
    def token(self) -> str:
        """What the head that runs asks for; empty if it asks for nothing."""
        return self.current.environment.get("RAY_AUTH_TOKEN", "") if self.current else ""

    def until_up(self, namespace: str, seconds: float = 60) -> None:
        """Wait until the head of a namespace answers."""
        until(
            lambda: self.current is not None and self.current.namespace == namespace and answers(DASHBOARD),
            f"a Ray head for namespace {namespace}",
            seconds,
            seen=lambda: self.problem or (self.current.program.tail() if self.current else "no head pod is ready"),
        )

    @contextlib.contextmanager
    def running(self, stack: Stack) -> Iterator[Stack]:
        """Install storage and cluster of a stack, give it a real head, and uninstall both in the end."""
        self.namespaces.add(stack.namespace)
        try:
            stack.install("storage", "raycluster")
            stack.until_ready()
            self.until_up(stack.namespace)
            yield stack
            stack.uninstall("raycluster", "storage")
        finally:
            self.namespaces.discard(stack.namespace)

    def _loop(self) -> None:
        while not self.stopped.wait(self.every):
            try:
                self._step()
            except (KubectlError, AssertionError, OSError) as error:
                self.problem = str(error)

    def _step(self) -> None:
        found = self.kube.list("pods", selector="ray.io/node-type=head")
        ready = {pod["metadata"]["uid"]: pod for pod in found if pods.is_ready(pod)}
        if self.current and (self.current.uid not in ready or self.current.namespace not in self.namespaces):
            self._stop_current()
        wanted = [pod for pod in ready.values() if pod["metadata"]["namespace"] in self.namespaces]
        if wanted and not self.current:
            first = min(wanted, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
            self.current = RunningHead(self.kube, first, self.work)
            self.problem = ""
        if self.current and self.current.namespace not in self.without_workers and answers(DASHBOARD):
            self.current.start_worker()

    def _stop_current(self) -> None:
        # While a head stops it may still answer, and is no longer the one that `until_up` waits for.
        stopping, self.current = self.current, None
        if stopping:
            stopping.stop()


class RunningHead:
    """The first container of one head pod, as processes of this machine."""

    def __init__(self, kube: Kube, pod: Manifest, work: Path) -> None:
        self.uid = str(pod["metadata"]["uid"])
        self.namespace = str(pod["metadata"]["namespace"])
        place = work / f"ray-{self.uid[:6]}"
        place.mkdir()
        container = pod["spec"]["containers"][0]
        extra = {**EXTRA, "RAY_TMPDIR": str(place)}
        start = containers.prepare(kube, pod, container, work, extra)
        self.pre_stop = containers.prepare(kube, pod, containers.pre_stop(container), work, extra)
        # A worker pod has the head's volumes.
        self.worker = containers.prepare(
            kube, pod, {**container, "command": [str(RAY), "start"], "args": []}, work, extra
        )
        self.grace = float(pod["spec"]["terminationGracePeriodSeconds"])
        self.log = work / "logs" / f"ray-head-{self.namespace}-{self.uid[:6]}.log"
        self.program = Program("ray head", start.command, self.log, start.environment, CODE)
        self.environment = start.environment
        cluster = kube.get("raycluster", str(pod["metadata"]["labels"]["ray.io/cluster"]), self.namespace)
        groups = cluster["spec"].get("workerGroupSpecs") or []
        self.missing = [group["rayStartParams"]["num-gpus"] for group in groups for _ in range(group["replicas"])]
        self.workers: list[Program] = []

    def start_worker(self) -> None:
        """Start the Ray node of the next worker pod, one at a time: Ray gives each only 30 seconds to start."""
        if not self.missing or (self.workers and "Ray runtime started" not in self.workers[-1].log.read_text()):
            return
        options = ["--block", "--address=127.0.0.1:6379", "--num-cpus=16", f"--num-gpus={self.missing.pop()}"]
        log = self.log.with_name(f"{self.log.stem}-worker-{len(self.workers)}.log")
        words = [*self.worker.command, *options]
        self.workers.append(Program("ray worker", words, log, self.worker.environment, CODE))

    def stop(self) -> None:
        """End Ray and all that it has started, as a kubelet does."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            containers.run(self.pre_stop, self.grace)
        for program in [*self.workers, self.program]:
            program.stop(grace=0 if program in self.workers else 3)
