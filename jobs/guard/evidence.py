"""Collect evidence of why training hangs or has failed, in a folder of the run.

The guard starts it as a separate program and kills it when its time is up, so each part is written at once. The
request is JSON on standard input: folder, reason, output, group, seconds, when the trainer started, and for NCCL's
flight recorder what precedes the rank in the names of dumps (prefix) and pipes.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import flight_recorder
import node_evidence
from node_evidence import output_of
from runtime import Record, now

# Ray gets at least so many seconds, even if this pod used up nearly all of the time.
LEAST_SECONDS = 5.0
ALL = ["--limit", "1000"]
# Without --detail, except for nodes: of actors and tasks it prints the environment, which may hold secrets.
RAY = {
    "ray-status.txt": ["ray", "status", "--verbose"],
    "ray-nodes.txt": ["ray", "list", "nodes", "--detail", *ALL],
    "ray-actors.txt": ["ray", "list", "actors", *ALL, "--filter", "state!=DEAD"],
    "ray-tasks.txt": ["ray", "summary", "tasks"],
    "ray-deaths.txt": [sys.executable, str(Path(__file__).with_name("ray_deaths.py"))],
}


def keep(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def ask_ray(folder: Path, request: Record, deadline: float) -> None:
    """Query Ray and the other nodes at the same time, because a busy head answers late."""

    def ask(name: str) -> None:
        keep(folder, {name: output_of(RAY[name], max(LEAST_SECONDS, deadline - now())).encode()})

    # Not a second driver of the submitted job: Ray would create that job's runtime environment again.
    os.environ.pop("RAY_JOB_CONFIG_JSON_ENV_VAR", None)
    with concurrent.futures.ThreadPoolExecutor(len(RAY)) as pool:
        asked = [pool.submit(ask, name) for name in RAY]
        try:
            other_nodes(folder, request, deadline)
        except Exception as error:  # Whatever Ray's client raises: the rest is there.
            keep(folder, {"ray-error.txt": f"Ray did not answer: {error}\n".encode()})
        for each in asked:
            each.result()


def other_nodes(folder: Path, request: Record, deadline: float) -> None:
    """Collect evidence on each node of the Ray cluster, and record which nodes did not answer."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray.init(address="auto", log_to_driver=False, logging_level="ERROR")

    def collect(program: str, arguments: list[Any]) -> Any:
        names: Record = {}
        exec(compile(program, "node_evidence", "exec"), names)  # noqa: S102  our own program, from this folder
        return names["collect"](*arguments)

    # A function of this main program, which travels to the workers as it is.
    program = Path(node_evidence.__file__).read_text(encoding="utf-8")
    here, asked = ray.get_runtime_context().get_node_id(), {}
    recorder = request["prefix"], request["pipes"]
    for node in ray.nodes():
        if node["Alive"] and node["NodeID"] != here:
            place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = ray.remote(num_cpus=0, max_retries=0)(collect).options(scheduling_strategy=place)
            asked[task.remote(program, [0, *recorder, now() - request["started"]])] = node["NodeManagerHostname"]
    while asked and now() < deadline:
        for answer in ray.wait(list(asked), num_returns=1, timeout=max(0.0, deadline - now()))[0]:
            name = asked.pop(answer)
            try:
                name, files = ray.get(answer)
            except ray.exceptions.RayError as error:
                files = {"error.txt": f"{error}\n".encode()}
            keep(folder / name, files)
    for name in asked.values():
        keep(folder / name, {"error.txt": b"the node did not answer in time\n"})


def main() -> None:
    """Collect this pod's evidence first, because it needs no other process; then query Ray and the other nodes."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    request = json.load(sys.stdin)
    folder, deadline = Path(request["folder"]), now() + request["seconds"] * 0.8
    keep(folder, {"reason.txt": f"{request['reason']}\n".encode(), "output.txt": request["output"].encode()})
    name, files = node_evidence.collect(
        request["group"], request["prefix"], request["pipes"], now() - request["started"]
    )
    keep(folder / name, files)
    ask_ray(folder, request, deadline)
    if said := flight_recorder.summary(folder):
        keep(folder, {"nccl.txt": said.encode()})
    keep(folder, {"complete.txt": b"all parts were asked for\n"})


if __name__ == "__main__":
    main()
