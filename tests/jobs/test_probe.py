"""The probe without Ray: its functions are called in this process instead of on nodes. tests/e2e has a real head."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.played import Clock

from .harness import load_program
from .hub import Hub, serve

Say = Callable[[], str]


@pytest.fixture
def probe() -> Any:
    """Return the program, with a clock that moves when it waits."""
    module, clock = load_program("probe"), Clock()
    module.time, module.now = clock, clock.monotonic
    return module


@pytest.fixture
def cluster(probe: Any) -> Any:
    """Two workers with 8 GPUs each, and the head; what is started on a node runs here at once."""

    class Here(probe.Cluster):  # type: ignore[misc]
        def __init__(self) -> None:
            self.patience, self.deadline = 30.0, probe.now() + 120.0
            self.found = [probe.Node("1", "head", 0), probe.Node("2", "w-1", 8), probe.Node("3", "w-2", 8)]
            self.asked: list[int] = []

        def nodes(self) -> Any:
            return self.found

        def start(self, call: Any, gpus: int) -> Any:
            self.asked.append(gpus)
            os.environ["NODE"] = call[0].name
            return probe.guarded(call[1], call[2:])

        def answer(self, reference: Any) -> Any:
            return reference

    return Here()


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stand in for torch: how many GPUs it sees, and on which of them nothing can be computed."""
    state: dict[str, Any] = {"count": 8, "broken": ""}

    def ones(_: int, device: str) -> Any:
        if device == state["broken"]:
            raise RuntimeError("CUDA error: uncorrectable ECC error encountered\nCompile with TORCH_USE_CUDA_DSA")
        return SimpleNamespace(item=lambda: 1.0)

    names = SimpleNamespace(device_count=lambda: state["count"], get_device_name=lambda number: "NVIDIA B200")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=names, ones=ones))
    return state


def failure(probe: Any, check: str, cluster: Any, **plan: Any) -> str:
    with pytest.raises(probe.ProbeError) as caught:
        probe.CHECKS[check](cluster, plan)
    return str(caught.value)


GPUS = {"nodes": 2, "gpusPerNode": 8}


def test_all_gpus_of_every_node_are_requested_at_once(
    probe: Any, cluster: Any, cuda: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    probe.check_gpus(cluster, GPUS)
    assert cluster.asked == [8, 8]
    assert capsys.readouterr().out == "grpo: w-1: 8 x NVIDIA B200\ngrpo: w-2: 8 x NVIDIA B200\n"


def test_gpu_problems_name_the_node(probe: Any, cluster: Any, cuda: dict[str, Any]) -> None:
    cuda["count"] = 7
    assert "w-1: 7 GPUs are visible, expected 8; w-2: 7 GPUs" in failure(probe, "gpus", cluster, **GPUS)
    cuda |= {"count": 8, "broken": "cuda:5"}
    assert "w-2: RuntimeError: CUDA error: uncorrectable ECC error" in failure(probe, "gpus", cluster, **GPUS)
    cluster.found[2] = probe.Node("3", "w-2", 4)
    assert failure(probe, "gpus", cluster, **GPUS) == "w-2: Ray has 4 GPUs, expected 8"
    del cluster.found[1:]
    assert failure(probe, "gpus", cluster, **GPUS) == "expected 2 GPU nodes, and Ray has 0: see kubectl get pods"


def test_a_missing_gpu_node_is_reported_before_gpus_are_requested(probe: Any, cluster: Any) -> None:
    """The nodes that are there are named: the missing one is not. The head has no GPUs and is not counted."""
    message = failure(probe, "gpus", cluster, nodes=3, gpusPerNode=8)
    assert message == "expected 3 GPU nodes, and Ray has 2: w-1, w-2"
    assert cluster.asked == []


def test_the_check_waits_for_a_gpu_node_that_joins_late(probe: Any, cluster: Any, cuda: dict[str, Any]) -> None:
    late = cluster.found.pop()
    probe.time.meanwhile = lambda: cluster.found.append(late) if len(probe.time.pauses) == 3 else None
    probe.check_gpus(cluster, GPUS)
    assert cluster.asked == [8, 8]


def test_without_torch_gpus_are_counted_by_the_driver(
    probe: Any, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "nvidia-smi").write_text(
        '#!/bin/sh\nfor i in 0 1; do echo "GPU $i: NVIDIA H200 (UUID: GPU-$i)"; done\n'
    )
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    cluster.found = [probe.Node("1", "w-1", 2)]
    probe.check_gpus(cluster, {"nodes": 1, "gpusPerNode": 2})
    assert capsys.readouterr().out == "grpo: w-1: 2 x NVIDIA H200\n"


def volume(path: Path, shared: bool = True) -> dict[str, Any]:
    return {"name": path.name, "path": str(path), "shared": shared}


def test_the_storage_check_writes_and_reads_and_leaves_nothing_behind(
    probe: Any, cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    probe.check_storage(cluster, {"nodes": 3, "volumes": [volume(tmp_path)]})
    assert capsys.readouterr().out == f"grpo: {tmp_path.name} at {tmp_path}: written and read on 3 nodes\n"
    assert not list(tmp_path.iterdir())
    # 3 nodes write, read and delete.
    assert cluster.asked == [0] * 9


@pytest.mark.parametrize("shared", [True, False])
def test_only_a_shared_volume_is_read_from_a_different_node(
    shared: bool, probe: Any, cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each node has a folder of its own here, as a volume that is not shared has."""
    (tmp_path / "link").symlink_to(tmp_path)
    start = cluster.start

    def mount(call: Any, gpus: int) -> Any:
        (tmp_path / "link").unlink()
        (tmp_path / call[0].name).mkdir(exist_ok=True)
        (tmp_path / "link").symlink_to(tmp_path / call[0].name)
        return start(call, gpus)

    monkeypatch.setattr(cluster, "start", mount)
    plan = {"nodes": 3, "volumes": [volume(tmp_path / "link", shared)]}
    if shared:
        assert "s after another node wrote it: the volume is not shared" in failure(probe, "storage", cluster, **plan)
    else:
        probe.check_storage(cluster, plan)
    assert not list(tmp_path.glob("*/.helm-test-*"))


def test_a_write_failure_names_the_node_and_the_file(probe: Any, cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = failure(probe, "storage", cluster, nodes=3, volumes=[volume(tmp_path), volume(tmp_path / "file")])
    assert f"head: {tmp_path}/file/.helm-test-" in message
    assert message.endswith(": Not a directory")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


SECRET = "key token of Secret hf-secret"
HUGGINGFACE = {"nodes": 3, "secret": SECRET}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that knows one token, which HF_TOKEN holds."""
    with serve() as found:
        found.tokens["not-a-real-one"] = True
        monkeypatch.setenv("HF_ENDPOINT", found.url)
        monkeypatch.setenv("HF_TOKEN", "not-a-real-one\n")
        yield found


def test_every_node_queries_the_hub_and_the_token_is_never_printed(
    probe: Any, cluster: Any, hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    probe.check_huggingface(cluster, HUGGINGFACE)
    assert capsys.readouterr().out == f"grpo: HF_TOKEN is set on 3 nodes; {hub.url} accepts it\n"
    assert hub.requests == ["GET /api/whoami-v2"] * 3


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("\n", f"w-2: HF_TOKEN is empty: write {SECRET} again"),
        ("not-known", f"refuses HF_TOKEN, which is mistyped, expired or revoked: write {SECRET} again"),
        ("two\nlines", f"w-2: HF_TOKEN has characters that HTTP headers cannot have: write {SECRET} again"),
    ],
)
def test_an_unusable_token_is_reported(
    token: str, said: str, probe: Any, cluster: Any, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    message = failure(probe, "huggingface", cluster, **HUGGINGFACE)
    assert said in message
    assert token.strip() == "" or token not in message


def test_a_hub_without_a_clear_verdict_on_the_token_is_reported(
    probe: Any, cluster: Any, hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.faults += [302, 404, 500]
    probe.check_huggingface(cluster, HUGGINGFACE)
    said = capsys.readouterr().out
    assert [f"does not say whether it is valid (status {code})" in said for code in (302, 404, 500)] == [True] * 3


def test_a_node_that_cannot_reach_the_hub_is_named(
    probe: Any, cluster: Any, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    message = failure(probe, "huggingface", cluster, **HUGGINGFACE)
    assert "w-1: no answer from http://127.0.0.1:9 ([Errno 111] Connection refused): open the way to it" in message


def test_more_nodes_than_expected_are_reported(probe: Any, cluster: Any) -> None:
    message = failure(probe, "huggingface", cluster, nodes=2, secret="x")
    assert message == "expected 2 nodes, and Ray has 3: head, w-1, w-2"


def test_bandwidths_match_those_of_nccl_tests(probe: Any) -> None:
    """1 GB in 10 ms over 16 ranks: 100 GB/s, and 15/16 of that on the bus."""
    assert probe.bandwidths(10**9, 0.01, 16) == pytest.approx((100, 93.75))
    assert probe.bandwidths(10**9, 0.01, 2) == pytest.approx((100, 50))


@pytest.mark.parametrize(("count", "pairs", "turns"), [(1, 0, 1), (2, 1, 1), (3, 3, 3), (4, 4, 2), (7, 7, 3)])
def test_every_node_is_measured_with_both_neighbours(count: int, pairs: int, turns: int, probe: Any) -> None:
    """So a slow node is in both slow pairs. A node is in one pair at a time; one node measures itself."""
    names = [f"w-{number}" for number in range(count)]
    found = probe.rounds(names)
    assert len(found) == turns
    flat = [frozenset(pair) for each in found for pair in each]
    assert len(set(flat)) == len(flat) == max(pairs, 1)
    assert {name: sum(name in pair for pair in flat) for name in names} == dict.fromkeys(names, min(count - 1, 2) or 1)
    for each in found:
        members = [name for pair in each for name in pair]
        assert len(set(members)) == len(members)


class Pair:
    """The ranks of four nodes, and what each pair of nodes measures; the slowest rank counts."""

    def __init__(self, slow: str = "", network: str = "gIB") -> None:
        self.slow, self.network = slow, network

    def ranks(self) -> dict[str, list[Any]]:
        return {f"w-{node}": [self.rank(f"w-{node}", gpu) for gpu in range(8)] for node in range(4)}

    def rank(self, node: str, gpu: int) -> Any:
        def measure(number: int, world: int, address: str, plan: dict[str, Any]) -> Any:
            assert (world, address) == (16, f"{plan['pair'].split(' and ')[0]}:1")
            slow = self.slow and self.slow in plan["pair"] and number == 5
            network = self.network if number == 3 else "gIB"
            return (0.02 if slow else 0.0025), network, "/usr/local/gib/lib64/libnccl.so.2"

        place = (node, gpu, f"{node}:1")
        return SimpleNamespace(place=SimpleNamespace(remote=lambda: place), measure=SimpleNamespace(remote=measure))


FLOOR = {"nodes": 4, "gpusPerNode": 8, "bytes": 10**9, "backend": "nccl", "net": "gIB", "minimumBusBandwidth": 291.2}


def four(probe: Any, cluster: Any, monkeypatch: pytest.MonkeyPatch, pair: Pair) -> Any:
    cluster.found = [probe.Node(str(number), f"w-{number}", 8) for number in range(4)]
    monkeypatch.setattr(probe, "start_ranks", lambda *_: pair.ranks())
    monkeypatch.setattr(cluster, "together", lambda answers: answers, raising=False)
    return cluster


def test_each_pair_reports_its_bandwidth_network_and_library(
    probe: Any, cluster: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    probe.check_nccl(four(probe, cluster, monkeypatch, Pair()), FLOOR)
    output = capsys.readouterr().out
    assert output.startswith("grpo: all-gather of 0.93 GiB by nccl, 8 ranks on each node\n")
    for pair in ("w-0 and w-3", "w-1 and w-0", "w-2 and w-1", "w-3 and w-2"):
        assert f"grpo: {pair}: algorithm bandwidth 400.0 GB/s, bus bandwidth 375.0 GB/s\n" in output
        assert f"grpo: {pair}: network: gIB, NCCL: /usr/local/gib/lib64/libnccl.so.2\n" in output


def test_a_slow_node_appears_in_both_failing_pairs(
    probe: Any, cluster: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = four(probe, cluster, monkeypatch, Pair(slow="w-2"))
    message = failure(probe, "nccl", slow, **FLOOR)
    reason = "bus bandwidth is 46.9 GB/s, expected 291.2 or more (ray.test.nccl.minimumShare of accelerator.nccl"
    assert message.count(reason) == 2
    assert f"w-2 and w-1: {reason}" in message
    assert f"w-3 and w-2: {reason}" in message
    assert capsys.readouterr().out.count("bus bandwidth") == 4
    probe.check_nccl(slow, {**FLOOR, "minimumBusBandwidth": 0})


@pytest.mark.parametrize(
    ("network", "said"),
    [
        ("Socket", "w-0 and w-3: NCCL used Socket instead of gIB"),
        ("", "w-0 and w-3: NCCL's log does not say which network it used, expected gIB"),
    ],
)
def test_the_wrong_network_on_any_rank_fails_the_check(
    network: str, said: str, probe: Any, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One rank of sixteen is enough; without a plugin, any network is fine."""
    other = four(probe, cluster, monkeypatch, Pair(network=network))
    assert said in failure(probe, "nccl", other, **FLOOR)
    probe.check_nccl(other, {**FLOOR, "net": ""})


def test_a_rank_without_the_network_plugin_refuses_to_measure(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another NCCL_NET, NCCL would report the bandwidth of TCP."""
    for name in ("torch", "torch.distributed"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(distributed=None))
    monkeypatch.setenv("NCCL_NET", "Socket")
    problem, _ = probe.Rank().measure(0, 16, "10.0.0.1:1", {"net": "gIB", "backend": "nccl", "seconds": 10})
    assert problem == "NCCL_NET is Socket in Ray's workers, expected gIB: NCCL could use TCP"


@pytest.mark.parametrize(
    ("net", "said"),
    [
        (
            "gIB",
            "w-1: rank 3 has no PyTorch (No module named 'torch'): images.training is not a training image",
        ),
        ("Socket", "NCCL_NET is Socket in Ray's workers, expected gIB: NCCL could use TCP"),
    ],
)
def test_an_image_without_pytorch_or_the_right_network_is_reported(
    net: str, said: str, probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setenv("NCCL_NET", net)
    plan = {"net": "gIB", "backend": "nccl", "seconds": 10, "pair": "w-1"}
    problem, _ = probe.Rank().measure(3, 16, "10.0.0.1:1", plan)
    assert problem == said


def test_nccls_log_yields_the_network_and_warnings(probe: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("w-1:1:1 [0] NCCL INFO Using network Socket\nw-1 [0] NCCL WARN first\nNCCL INFO Using network gIB\n")
    assert probe.last_match(str(log), r"(?:Using network|Assigned NET plugin) (\S+)") == ["gIB"]
    assert probe.last_match(str(log), "NCCL WARN (.+)") == ["first"]
    assert probe.last_match(str(tmp_path / "none"), "x") == []
