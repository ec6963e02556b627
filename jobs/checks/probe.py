"""Check a Ray cluster from inside: GPUs, NCCL between the nodes, storage, the Hugging Face token.

check_cluster.py submits it as a Ray job. The plan is JSON on file descriptor 3. Ray pickles functions by value, so
other nodes need no copy of this file. Every task requests no CPU and names its node, so it also runs on busy nodes.
The last line of a failed check begins with "grpo: failed:". Nothing about a secret is printed, not even its length.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

Plan = dict[str, Any]
Answer = tuple[str, Any]  # from a node: a problem, or else a value
Call = tuple[Any, ...]  # to a node: the node, a function, its arguments
now = time.monotonic
APPEAR_SECONDS = 30.0  # how long another node may take to see a new file: object-store mounts cache directory listings
HUB_SECONDS = 15.0
WARM_UP, REPEAT = 3, 10


class ProbeError(Exception):
    """The check failed; the message says where and what to do."""


def say(text: str) -> None:
    print("grpo: " + text.encode("ascii", "backslashreplace").decode(), flush=True)


def one_line(error: object) -> str:
    """Return an exception's message on one line, shortened."""
    text = " / ".join(line.strip() for line in str(error).splitlines() if line.strip())
    return f"{type(error).__name__}: {text[:500]}" if text else type(error).__name__


def guarded(function: Callable[..., Any], arguments: Sequence[Any]) -> Answer:
    """Call a function and return its problem or value; Ray's own errors would bury the message in a traceback."""
    try:
        return "", function(*arguments)
    except ProbeError as error:
        return str(error), None
    except OSError as error:
        return f"{error.filename or 'input or output'}: {error.strerror}", None
    except Exception as error:
        return one_line(error), None


class Node(NamedTuple):
    """A node of the Ray cluster; its name is the pod's name."""

    id: str
    name: str
    gpus: int


class Cluster:
    """The Ray cluster as the checks use it; no call waits beyond the deadline."""

    def __init__(self, seconds: float) -> None:
        import ray

        self.ray: Any = ray
        self.deadline = now() + seconds
        self.patience = seconds / 4  # for nodes to join, and for GPUs to be free
        ray.init(address="auto", logging_level=logging.ERROR, log_to_driver=False)

    def left(self) -> float:
        return max(1.0, self.deadline - now())

    def nodes(self) -> list[Node]:
        """Return the nodes that are alive, sorted by name."""
        alive = [node for node in self.ray.nodes() if node["Alive"]]
        found = [Node(n["NodeID"], n["NodeManagerHostname"], int(n["Resources"].get("GPU", 0))) for n in alive]
        return sorted(found, key=lambda node: (node.name, node.id))

    def wait(self, count: int, gpus: bool = False) -> list[Node]:
        """Wait until `count` nodes have joined and return them; with `gpus`, count only nodes with GPUs.

        Raises ProbeError if there are more, or if there are still fewer after some time.
        """
        end, what = now() + self.patience, "GPU nodes" if gpus else "nodes"
        while True:
            found = [node for node in self.nodes() if node.gpus or not gpus]
            if len(found) == count:
                return found
            if len(found) > count or now() > end:
                names = ", ".join(node.name for node in found)
                raise ProbeError(
                    f"expected {count} {what}, and Ray has {len(found)}: {names or 'see kubectl get pods'}"
                )
            time.sleep(1)

    def start(self, call: Call, gpus: int) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        node, function, *arguments = call
        place = NodeAffinitySchedulingStrategy(node.id, soft=False)
        options = {"num_cpus": 0, "num_gpus": gpus, "scheduling_strategy": place, "max_retries": 0}
        return self.ray.remote(guarded).options(**options).remote(function, arguments)

    def run(self, calls: list[Call], gpus: int = 0) -> list[Any]:
        """Run functions on their nodes at the same time, each with `gpus` GPUs, and return their values.

        Raises ProbeError with the problems of all nodes, if there are any.
        """
        answers = [self.answer(reference) for reference in [self.start(call, gpus) for call in calls]]
        problems = [f"{call[0].name}: {problem}" for call, (problem, _) in zip(calls, answers, strict=True) if problem]
        if problems:
            raise ProbeError("; ".join(problems))
        return [value for _, value in answers]

    def answer(self, reference: Any) -> Answer:
        """Wait for one answer until the deadline."""
        try:
            answer: Answer = self.ray.get(reference, timeout=self.left())
        except self.ray.exceptions.GetTimeoutError:
            return "no answer in time: a leftover actor holds its GPUs, or a call hangs", None
        except self.ray.exceptions.RayError as error:
            return one_line(error), None
        return answer

    def together(self, references: list[Any]) -> list[Any]:
        """Return the values of calls that wait for each other.

        Raises ProbeError at the first problem, because the other calls might then wait forever.
        """
        pending = list(references)
        while pending:
            done, pending = self.ray.wait(pending, num_returns=1, timeout=self.left())
            problem, _ = self.answer(done[0]) if done else (f"{len(pending)} processes did not finish", None)
            if problem:
                raise ProbeError(problem)
        return [self.answer(reference)[1] for reference in references]


def list_gpus(wanted: int) -> str:
    """Describe the GPUs visible to this process, after a small computation on each of them."""
    try:
        import torch

        names = [str(torch.cuda.get_device_name(number)) for number in range(torch.cuda.device_count())]
        for number in range(len(names)):
            torch.ones(1, device=f"cuda:{number}").item()
    except ImportError:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
        names = [line.split(": ", 1)[-1].split(" (")[0] for line in listed.splitlines() if line.startswith("GPU ")]
    if len(names) != wanted:
        raise ProbeError(f"{len(names)} GPUs are visible, expected {wanted}")
    return ", ".join(f"{number} x {name}" for name, number in Counter(names).items())


def check_gpus(cluster: Cluster, plan: Plan) -> None:
    """Check that Ray offers all GPUs of every GPU node, and that CUDA can compute on each of them."""
    wanted, nodes = plan["gpusPerNode"], cluster.wait(plan["nodes"], gpus=True)
    if wrong := [f"{node.name}: Ray has {node.gpus} GPUs, expected {wanted}" for node in nodes if node.gpus != wanted]:
        raise ProbeError("; ".join(wrong))
    for node, found in zip(nodes, cluster.run([(node, list_gpus, wanted) for node in nodes], wanted), strict=True):
        say(f"{node.name}: {found}")


def write_file(path: str, text: str) -> None:
    with open(path, "x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    read_file(path, text, 0)


def read_file(path: str, text: str, patience: float) -> None:
    """Read a file that another node may be writing, as soon as it appears."""
    end = now() + patience
    while not os.path.exists(path):
        if now() > end:
            raise ProbeError(
                f"{path} is not here {patience:.0f} s after another node wrote it: the volume is not shared"
            )
        time.sleep(0.5)
    with open(path, encoding="utf-8") as file:
        if file.read() != text:
            raise ProbeError(f"{path} does not contain what was written")


def delete_file(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def check_storage(cluster: Cluster, plan: Plan) -> None:
    """Write a file from each node to each volume; on a shared volume, another node reads the file."""
    nodes, volumes = cluster.wait(plan["nodes"]), plan["volumes"]
    files = {(i, v["path"]): f"{v['path']}/.helm-test-{uuid.uuid4().hex}" for v in volumes for i in range(len(nodes))}
    shared = {v["path"] for v in volumes if v["shared"]} if len(nodes) > 1 else set()
    elsewhere = [
        (nodes[i - 1], read_file, file, file, APPEAR_SECONDS) for (i, path), file in files.items() if path in shared
    ]
    deletions: list[Call] = [(nodes[i], delete_file, file) for (i, _), file in files.items()]
    try:
        cluster.run([(nodes[i], write_file, file, file) for (i, _), file in files.items()])
        cluster.run(elsewhere)
    except ProbeError:
        with contextlib.suppress(ProbeError):
            cluster.run(deletions)
        raise
    cluster.run(deletions)
    for volume in volumes:
        say(f"{volume['name']} at {volume['path']}: written and read on {len(nodes)} nodes")


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follow no redirects, which could carry the token to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


def ask_hub(source: str) -> str:
    """Ask the hub whether HF_TOKEN is valid and return its answer. Raises ProbeError if it is missing or rejected."""
    again = f"write {source} again, then restart the pods"
    token = os.environ.get("HF_TOKEN", "").strip()
    if not token:
        raise ProbeError(f"HF_TOKEN is empty: {again}")
    if not re.fullmatch("[!-~]+", token):
        raise ProbeError(f"HF_TOKEN has characters that HTTP headers cannot have: {again}")
    host = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    url, host = f"{host}/api/whoami-v2", re.sub("//[^/@]*@", "//", host)
    if not re.match("https?://", url):
        raise ProbeError(f"HF_ENDPOINT is {host}, expected https://HOST")
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310 - it is http
    try:
        with urllib.request.build_opener(NoRedirect).open(request, timeout=HUB_SECONDS):
            return f"{host} accepts it"
    except urllib.error.HTTPError as error:
        if error.code == 401:
            raise ProbeError(f"{host} refuses HF_TOKEN, which is mistyped, expired or revoked: {again}") from None
        # A mirror may not know this question, and the hub may be busy.
        return f"{host} does not say whether it is valid (status {error.code})"
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ProbeError(
            f"no answer from {host} ({reason}): open the way to it (Cloud NAT for private nodes), set HF_ENDPOINT, "
            "or fill the cache and set huggingface.offline.enabled"
        ) from None


def check_huggingface(cluster: Cluster, plan: Plan) -> None:
    """Check that every node has an HF_TOKEN and reaches a hub that accepts the token."""
    nodes = cluster.wait(plan["nodes"])
    answers = cluster.run([(node, ask_hub, plan["secret"]) for node in nodes])
    say(f"HF_TOKEN is set on {len(nodes)} nodes; {' and '.join(sorted(set(answers)))}")


def median_seconds(rank: int, world: int, size: int, device: Any) -> float:
    """Return the median time of REPEAT all-gathers of `size` bytes in total, after checking one for correctness."""
    import torch
    import torch.distributed as dist

    share = size // 4 // world
    tensor = torch.full((share,), float(rank + 1), dtype=torch.float32, device=device)
    gathered = torch.zeros(share * world, dtype=torch.float32, device=device)
    dist.all_gather_into_tensor(gathered, tensor)
    expected = torch.arange(1, world + 1, dtype=torch.float32, device=device).repeat_interleave(share)
    if not torch.equal(gathered, expected):
        raise ProbeError("the all-gather gave wrong numbers")
    finish, times = torch.cuda.synchronize if device.type == "cuda" else dist.barrier, []
    for _ in range(WARM_UP + REPEAT):
        dist.barrier()
        finish()
        started = time.perf_counter()
        dist.all_gather_into_tensor(gathered, tensor)
        finish()
        times.append(time.perf_counter() - started)
    return statistics.median(times[WARM_UP:])


class Rank:
    """One process in the all-gathers, with its own GPU."""

    def __init__(self) -> None:
        # NCCL opens its log once for each process, so all measurements share one. The folder goes with the pod.
        self.log = os.path.join(tempfile.mkdtemp(prefix="nccl-"), "log")

    def place(self) -> Answer:
        """Return the rank's node name, its GPU's number on that node, and a free address for a rendezvous."""
        import ray

        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
        return "", (socket.gethostname(), ray.get_gpu_ids()[0], f"{ray.util.get_node_ip_address()}:{port}")

    def measure(self, rank: int, world: int, address: str, plan: Plan) -> Answer:
        """Return an all-gather's time in seconds, the network named in NCCL's log, and the NCCL that is loaded."""
        return guarded(join, (rank, world, address, plan, self.log))


def join(rank: int, world: int, address: str, plan: Plan, log: str) -> tuple[float, str, str]:
    expected, given = plan["net"], os.environ.get("NCCL_NET", "")
    if expected and given != expected:
        raise ProbeError(f"NCCL_NET is {given or 'not set'} in Ray's workers, expected {expected}: NCCL could use TCP")
    try:
        import torch
        import torch.distributed as dist
    except ImportError as error:
        where = f"{plan['pair']}: rank {rank}"
        raise ProbeError(f"{where} has no PyTorch ({error}): images.training is not a training image") from None
    os.environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,NET", NCCL_DEBUG_FILE=log)
    device = torch.device("cuda" if plan["backend"] == "nccl" else "cpu")
    try:
        limit = timedelta(seconds=plan["seconds"] / 2)
        dist.init_process_group(plan["backend"], f"tcp://{address}", limit, world_size=world, rank=rank)
        seconds = median_seconds(rank, world, plan["bytes"], device)
        dist.destroy_process_group()
    except Exception as error:
        where = f"{plan['pair']}: rank {rank} of {world}"
        raise ProbeError(" / ".join([f"{where}: {one_line(error)}", *last_match(log, "NCCL WARN (.+)")])) from None
    network = "".join(last_match(log, r"(?:Using network|Assigned NET plugin) (\S+)"))
    return seconds, network, "".join(last_match("/proc/self/maps", r"(?<!\S)(/\S*/libnccl\.so\S*)"))


def last_match(log: str, pattern: str) -> list[str]:
    """Return a pattern's last match in a file as a list, which is empty without a match."""
    with contextlib.suppress(FileNotFoundError), open(log, encoding="utf-8", errors="replace") as file:
        return re.findall(pattern, file.read())[-1:]
    return []


def start_ranks(cluster: Cluster, plan: Plan) -> dict[str, list[Any]]:
    """Start one process per GPU on all GPU nodes; return each node's processes in GPU order."""
    from ray.util.placement_group import placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    nodes, gpus = plan["nodes"], plan["gpusPerNode"]
    group = placement_group([{"GPU": gpus}] * nodes, strategy="STRICT_SPREAD")
    if not group.wait(cluster.patience):
        raise ProbeError(f"Ray has no {nodes} nodes with {gpus} free GPUs: a leftover actor holds some")
    actor, ranks = cluster.ray.remote(Rank), []
    for bundle in range(nodes):
        where = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)
        ranks += [actor.options(num_cpus=0, num_gpus=1, scheduling_strategy=where).remote() for _ in range(gpus)]
    places = cluster.together([rank.place.remote() for rank in ranks])
    # NeMo RL orders the ranks of a node by its GPUs too.
    ordered = sorted(zip(places, ranks, strict=True), key=lambda each: each[0][:2])
    return {name: [rank for place, rank in ordered if place[0] == name] for name in sorted({one[0] for one in places})}


def rounds(names: Sequence[str]) -> list[list[tuple[str, ...]]]:
    """Return the pairs of neighbours in a ring of nodes, in rounds in which no node occurs twice."""
    ring = [tuple(names)] if len(names) < 3 else [(name, names[at - 1]) for at, name in enumerate(names)]
    found: list[list[tuple[str, ...]]] = []
    for pair in ring:
        free = [each for each in found if not {name for other in each for name in other} & set(pair)]
        if not free:
            free = [[]]
            found += free
        free[0].append(pair)
    return found


def bandwidths(size: int, seconds: float, world: int) -> tuple[float, float]:
    """Return an all-gather's algorithm and bus bandwidth in GB/s, as defined by nccl-tests."""
    algorithm = size / seconds / 1e9
    return algorithm, algorithm * (world - 1) / world


def measure(cluster: Cluster, plan: Plan, pairs: list[tuple[str, ...]], ranks: dict[str, list[Any]]) -> list[Any]:
    """Measure some pairs of nodes at the same time; return the answers from each pair's ranks."""
    places = cluster.together([ranks[pair[0]][0].place.remote() for pair in pairs])
    calls, world = [], len(pairs[0]) * plan["gpusPerNode"]
    for pair, (_, _, address) in zip(pairs, places, strict=True):
        limited = {**plan, "pair": " and ".join(pair), "seconds": cluster.left()}
        members = [rank for name in pair for rank in ranks[name]]
        calls += [each.measure.remote(number, world, address, limited) for number, each in enumerate(members)]
    answers = cluster.together(calls)
    return [answers[start : start + world] for start in range(0, len(answers), world)]


def wrong(plan: Plan, pair: tuple[str, ...], networks: set[str], bus: float) -> str:
    """Return why a pair of nodes fails, or an empty text."""
    wanted, least = plan["net"], plan["minimumBusBandwidth"]
    others = sorted(name for name in networks if name and name.lower() != wanted.lower())
    if wanted and others:
        return f"{' and '.join(pair)}: NCCL used {', '.join(others)} instead of {wanted}"
    if wanted and "" in networks and len(pair) > 1:
        return f"{' and '.join(pair)}: NCCL's log does not say which network it used, expected {wanted}"
    if bus < least:
        share = "ray.test.nccl.minimumShare of accelerator.nccl.busBandwidth"
        return f"{' and '.join(pair)}: bus bandwidth is {bus:.1f} GB/s, expected {least} or more ({share})"
    return ""


def check_nccl(cluster: Cluster, plan: Plan) -> None:
    """Run an all-gather between neighbours in a ring of all GPU nodes; check the network used and the bandwidth."""
    cluster.wait(plan["nodes"], gpus=True)
    ranks = start_ranks(cluster, plan)
    problems: list[str] = []
    say(f"all-gather of {plan['bytes'] / 2**30:.2f} GiB by {plan['backend']}, {plan['gpusPerNode']} ranks on each node")
    for pairs in rounds(list(ranks)):
        for pair, answers in zip(pairs, measure(cluster, plan, pairs, ranks), strict=True):
            networks, libraries = ({answer[at] for answer in answers} for at in (1, 2))
            algorithm, bus = bandwidths(plan["bytes"], max(answer[0] for answer in answers), len(answers))
            said = ", ".join(sorted(filter(None, networks))) or "unknown"
            say(f"{' and '.join(pair)}: algorithm bandwidth {algorithm:.1f} GB/s, bus bandwidth {bus:.1f} GB/s")
            say(f"{' and '.join(pair)}: network: {said}, NCCL: {', '.join(sorted(libraries - {''})) or 'unknown'}")
            problems += filter(None, [wrong(plan, pair, networks, bus)])
    if problems:
        raise ProbeError("; ".join(problems))


CHECKS = {"gpus": check_gpus, "nccl": check_nccl, "storage": check_storage, "huggingface": check_huggingface}


def main() -> int:
    """Run the check named in the plan."""
    with open(3, encoding="utf-8") as file:
        plan: Plan = json.load(file)
    try:
        CHECKS[plan["check"]](Cluster(plan["seconds"]), plan)
    except ProbeError as error:
        say(f"failed: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
