"""Dumps of NCCL's flight recorder, as PyTorch writes them, and files that are none."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.played import Clock

from .simulation.machine import Machine
from .test_guard import guard, start
from .torch_python import torch_python

GROUP = ("0", "default_pg")


def entry(number: int, what: str = "all_reduce", state: str = "completed", **more: Any) -> dict[str, Any]:
    """An entry of PyTorch 2.13, without what is not read."""
    about = {"process_group": GROUP, "collective_seq_id": number, "profiling_name": f"nccl:{what}", "is_p2p": False}
    return {**about, "state": state, "retired": False, **more}


def dump(*entries: dict[str, Any], ranks: str = "[0, 1, 2, 3]") -> bytes:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}}
    # Protocol 2, which PyTorch's own writer uses.
    return pickle.dumps({"version": "2.10", "pg_config": config, "entries": list(entries)}, 2)


def said(jobs: Any, folder: Path, dumps: dict[int, bytes]) -> list[str]:
    for rank, data in dumps.items():
        path = folder / f"pod-{rank // 2}" / "nccl" / f"grpo-nccl-rank-{rank}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return list(jobs("flight_recorder").summary(folder).splitlines())


DONE = entry(41)
WAITS = entry(42, "_allgather_base", "started")
RANKS = {0: dump(DONE, WAITS), 1: dump(DONE)}


@pytest.mark.parametrize(
    ("dumps", "line"),
    [
        (
            {0: dump(DONE, WAITS), 1: dump(DONE, WAITS), 2: dump(DONE), 3: dump(DONE, WAITS)},
            "rank 2 stopped first, after all_reduce 41; ranks 0, 1, 3 waited in _allgather_base 42",
        ),
        (
            # The host was ahead of the GPU: the first that is not complete counts.
            {0: dump(DONE, WAITS, entry(43, state="scheduled")), 1: dump(entry(40))},
            "rank 1 stopped first, after all_reduce 40; rank 0 waited in _allgather_base 42; no dump of ranks 2, 3",
        ),
        (
            {0: dump(DONE, WAITS), 1: dump(DONE, WAITS)},
            "ranks 0, 1 waited in _allgather_base 42; no dump of ranks 2, 3",
        ),
        (
            {0: dump(WAITS, ranks="[0, 1]"), 1: dump(entry(42, "_allgather_base"), ranks="[0, 1]")},
            "rank 0 waited in _allgather_base 42, which rank 1 had completed",
        ),
    ],
    ids=["one is behind", "ahead of the GPU", "silent", "one is done"],
)
def test_the_rank_that_stopped_first_is_named(jobs: Any, tmp_path: Path, dumps: dict[int, bytes], line: str) -> None:
    assert said(jobs, tmp_path, dumps) == [f"flight recorder: group 0 default_pg: {line}"]


def test_programs_with_the_same_ranks_are_kept_apart(jobs: Any, tmp_path: Path) -> None:
    """The policy has four ranks, and an engine that generates two in each pod."""
    for pod, ranks in (("a", (0, 1)), ("b", (0, 1))):
        (tmp_path / pod / "nccl").mkdir(parents=True)
        for rank in ranks:
            data = dump(*((DONE, WAITS) if (pod, rank) == ("b", 0) else (DONE,)), ranks="[0, 1]")
            (tmp_path / pod / "nccl" / f"engine-{rank}").write_bytes(data)
    (tmp_path / "a" / "nccl" / "policy-3").write_bytes(dump(entry(7, state="started")))
    assert jobs("flight_recorder").summary(tmp_path).splitlines() == [
        "flight recorder: group 0 default_pg of b: rank 1 stopped first, after all_reduce 41; rank 0 waited in "
        "_allgather_base 42",
        "flight recorder: group 0 default_pg: rank 3 waited in all_reduce 7; no dump of ranks 0, 1, 2",
    ]


def test_groups_without_waiting_ranks_are_left_out(jobs: Any, tmp_path: Path) -> None:
    sent = entry(99, "send", "started", is_p2p=True)
    retired = entry(42, state="scheduled", retired=True)
    assert said(jobs, tmp_path, {0: dump(DONE, retired, sent), 1: dump(DONE)}) == []


class Evil:
    """A pickle that would start a program."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_would_run_code_is_rejected(jobs: Any, tmp_path: Path) -> None:
    made = tmp_path / "made"
    data = pickle.dumps({"entries": [Evil(made)]}, 2)
    pickle.loads(data)  # noqa: S301 (the proof that it would)
    assert made.is_dir()
    made.rmdir()
    (line,) = said(jobs, tmp_path / "evidence", {0: data})
    assert line.startswith(
        "flight recorder: pod-0/grpo-nccl-rank-0 was not read: UnpicklingError: it names posix.mkdir"
    )
    assert not made.exists()


@pytest.mark.parametrize("data", [b"", b"\x80\x02", b"no pickle", pickle.dumps([1]), pickle.dumps({"entries": 3})])
def test_files_that_are_not_dumps_are_reported(jobs: Any, tmp_path: Path, data: bytes) -> None:
    (line,) = said(jobs, tmp_path, {0: data})
    assert line.startswith("flight recorder: pod-0/grpo-nccl-rank-0 was not read: ")


STRANGE = [None, {}, {"collective_seq_id": "4"}, {"collective_seq_id": 4, "process_group": 7}, {"seq_id": 4}]


def test_malformed_and_older_entries_are_read(jobs: Any, tmp_path: Path) -> None:
    data = pickle.dumps({"entries": STRANGE, "pg_config": {"0": {"name": "?", "ranks": "all"}}}, 2)
    assert len(said(jobs, tmp_path, {0: data})) == 2


DUMP = """
import os, sys
os.environ.update(TORCH_FR_BUFFER_SIZE="9", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
import torch, torch.distributed as distributed
store = distributed.HashStore()
distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
distributed.all_reduce(torch.ones(4))
distributed.all_gather([torch.ones(4)], torch.ones(4))
open(sys.argv[1], "wb").write(torch._C._distributed_c10d._dump_fr_trace())
"""


@pytest.mark.full
def test_a_dump_written_by_pytorch_itself_is_read(jobs: Any, tmp_path: Path) -> None:
    path = tmp_path / "dump"
    subprocess.run([torch_python(), "-c", DUMP, path], check=True, capture_output=True)
    found = jobs("flight_recorder").places(jobs("flight_recorder").read(path.read_bytes()), 0)
    (at,) = found.values()
    assert (at.rank, at.last) == (0, (2, "all_gather"))


class Ranks:
    """Ranks that do with their pipes what PyTorch 2.13 does: DumpPipe in ProcessGroupNCCL.hpp, and the loop of the
    heartbeat monitor in ProcessGroupNCCL.cpp. Only a group of NCCL reads the pipe, and NCCL needs a GPU.

    `look` is one turn of all their loops: who was asked writes its dump; one with an empty dump never does.
    """

    def __init__(self, pipes: str, prefix: str, dumps: dict[int, bytes]) -> None:
        self.prefix, self.dumps, self.pipes = prefix, dumps, dict[int, int]()
        for rank in dumps:
            os.mkfifo(f"{pipes}{rank}.pipe", 0o666)
            self.pipes[rank] = os.open(f"{pipes}{rank}.pipe", os.O_RDONLY | os.O_NONBLOCK)

    def look(self) -> None:
        for rank, pipe in self.pipes.items():
            if os.read(pipe, 128) and self.dumps[rank]:
                Path(f"{self.prefix}{rank}").write_bytes(self.dumps[rank])

    def close(self) -> None:
        for pipe in self.pipes.values():
            os.close(pipe)


@pytest.fixture
def ranks() -> Iterator[Callable[[str, str, dict[int, bytes]], Ranks]]:
    running: list[Ranks] = []

    def begin(*words: Any) -> Ranks:
        running.append(Ranks(*words))
        return running[-1]

    yield begin
    for each in running:
        each.close()


def test_ranks_are_queried_for_dumps_and_a_silent_rank_is_named(
    jobs: Any, tmp_path: Path, ranks: Callable[..., Ranks], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not answer is named; pipes that nobody reads, and files that are no pipes, are let alone."""
    node = jobs("node_evidence")
    # The same beginning for both: a dump is no pipe.
    names = f"{tmp_path}/rank-"
    clock = Clock(ranks(names, names, {0: dump(DONE, WAITS), 1: dump(DONE), 2: b""}).look)
    monkeypatch.setattr(node, "time", clock)
    os.mkfifo(f"{names}3.pipe")
    Path(f"{names}4.pipe").write_text("no pipe")
    Path(f"{names}5.pipe").symlink_to(f"{names}1.pipe")
    _, files = node.collect(0, names, names, 3600.0)
    assert files["nccl-asked.txt"].decode() == (
        "ranks 0, 1, 2 were asked for a dump\nranks 2 wrote no dump within 15 s\n"
    )
    assert 15 < clock.moment < 17
    # The fourth began as a dump does.
    assert {name for name in files if name.startswith("nccl/")} == {f"nccl/rank-{end}" for end in ("0", "1", "4.pipe")}
    assert files["nccl/rank-1"] == dump(DONE)
    assert Path(f"{names}4.pipe").read_text() == "no pipe"


def test_no_dumps_are_requested_where_no_pipes_are_set(jobs: Any, tmp_path: Path) -> None:
    _, files = jobs("node_evidence").collect(0, f"{tmp_path}/rank-", "", 0.0)
    assert not any("nccl" in name for name in files)


def test_the_guard_tells_the_collector_where_the_ranks_dump_and_listen(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = {"TORCH_FR_DUMP_TEMP_FILE": "/dumps/rank-", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "/dumps/ask-"}
    machine.environment |= recorder
    asked, collect = [], machine.collect
    monkeypatch.setattr(machine, "collect", lambda request: asked.append(request) or collect(request))
    launch = start(machine, "--stall", "step@2", settings=guard("step", restarts=0))
    assert launch.wait() == 1, launch.output
    assert [(each["prefix"], each["pipes"]) for each in asked] == [("/dumps/rank-", "/dumps/ask-")]


def test_the_evidence_includes_the_dumps_and_their_summary(
    jobs: Any, tmp_path: Path, ranks: Callable[..., Ranks], monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix, folder = f"{tmp_path}/rank-", tmp_path / "evidence"
    program = jobs("evidence")
    # It takes this out of its environment.
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    monkeypatch.setattr(jobs("node_evidence"), "time", Clock(ranks(f"{tmp_path}/ask-", prefix, RANKS).look))
    # Files that are older than the trainer are another one's.
    Path(f"{prefix}7").write_bytes(dump(DONE))
    os.utime(f"{prefix}7", (1, 1))
    about = {"reason": "r", "output": "o", "group": 0, "seconds": 60.0, "started": program.now() - 3600.0}
    request = {**about, "folder": str(folder), "prefix": prefix, "pipes": f"{tmp_path}/ask-"}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(request)))
    program.main()
    assert (folder / "nccl.txt").read_text() == (
        "flight recorder: group 0 default_pg: rank 1 stopped first, after all_reduce 41; rank 0 waited in "
        "_allgather_base 42; no dump of ranks 2, 3\n"
    )
    (asked,) = folder.glob("*/nccl-asked.txt")
    assert asked.read_text() == "ranks 0, 1 were asked for a dump\n"
    assert {path.name for path in folder.glob("*/nccl/*")} == {"rank-0", "rank-1"}
