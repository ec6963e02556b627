"""Collect evidence on one node of why training hangs or has failed: processes, stacks, GPUs, logs, records.

Nothing here stops or changes a process. Environment variables and arguments of processes are left out, because they
may contain secrets. It runs in the launcher's pod, and as text in a Ray task on every other node.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import glob
import os
import shutil
import socket
import stat
import subprocess
import time
from pathlib import Path

# One program's share of the time.
PATIENCE_SECONDS = 15.0
PY_SPY = "py-spy"
LARGEST, MOST = 16 << 20, 64 << 20
# Of the log of a worker, and of all of them.
LOG, LOGS = 16 << 10, 8 << 20
LOOK = 1 << 20
# Where a pod sees its own control group, of version 2 or 1.
GROUPS = "/sys/fs/cgroup", "/sys/fs/cgroup/memory"
MEMORY = "events", "max", "current", "peak", "oom_control", "limit_in_bytes", "usage_in_bytes", "max_usage_in_bytes"


def output_of(words: list[str], patience: float) -> str:
    """Return a program's output, or why there is none."""
    program = shutil.which(words[0])
    if program is None:
        return f"{words[0]} is not in the image\n"
    try:
        with subprocess.Popen(
            [program, *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                text = process.communicate(timeout=patience)[0]
            except subprocess.TimeoutExpired:
                process.kill()
                return f"{words[0]} did not answer within {patience:.0f} s\n"
    except OSError as error:
        return f"{words[0]} cannot be started: {error.strerror}\n"
    ended = f"({words[0]} ended with exit code {process.returncode})\n" if process.returncode else ""
    return text.decode(errors="replace") + ended


def read(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="replace")
    return ""


def processes() -> dict[int, tuple[int, int, str]]:
    """Return the parent, group and first word of each process in this pod."""
    found = {}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        rest = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if len(rest) > 2:
            word = read(f"/proc/{pid}/cmdline").partition("\0")[0]
            found[pid] = (int(rest[1]), int(rest[2]), word)
    return found


def of_training(every: dict[int, tuple[int, int, str]], group: int) -> dict[int, str]:
    """Return the trainer's processes, Ray's busy workers, vLLM's engines, and the descendants of all these."""

    def belongs(pid: int) -> bool:
        _, leader, word = every[pid]
        is_worker = word.startswith("ray::") and not word.startswith("ray::IDLE")
        return (group > 0 and leader == group) or is_worker or word.startswith("VLLM")

    found = {pid for pid in every if belongs(pid)}
    new = set(found)
    while new:
        new = {pid for pid, (parent, _, _) in every.items() if parent in new} - found
        found |= new
    return {pid: every[pid][2] for pid in sorted(found - {os.getpid()})}


def threads(pid: int) -> str:
    """Describe a process's threads: state, CPU time, and the kernel call in which each is waiting."""
    lines = []
    for task in sorted(glob.glob(f"/proc/{pid}/task/*"), key=lambda path: int(path.rpartition("/")[2])):
        name, _, rest = read(f"{task}/stat").partition(" (")[2].rpartition(") ")
        fields = rest.split()
        if len(fields) > 12:
            ticks = int(fields[11]) + int(fields[12])
            used = ticks / os.sysconf("SC_CLK_TCK")
            waits = read(f"{task}/wchan") or "?"
            lines.append(f"  {task.rpartition('/')[2]:>8} {fields[0]} {used:10.1f} s  {waits:32} {name}\n")
    return "".join(lines)


def stacks(pid: int) -> str:
    # --nonblocking: the process is not paused, so nothing that goes wrong here can hold it.
    text = output_of([PY_SPY, "dump", "--nonblocking", "--pid", str(pid)], PATIENCE_SECONDS)
    # It prints the arguments of the process first.
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(f"Process {pid}:"))
    if "permission denied" in text.lower() or "not permitted" in text:
        text += "the pod may not read the memory of its processes: it needs the capability SYS_PTRACE\n"
    return text


def ask_for_dumps(pipes: str) -> dict[str, float]:
    """Request a dump from each rank that reads a pipe; return the time, by rank. Ranks poll once a second.

    PyTorch: DumpPipe in torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp. A pipe without a reader belongs to a dead
    rank.
    """
    asked = {}
    for path in glob.glob(f"{glob.escape(pipes)}*.pipe") if pipes else []:
        with contextlib.suppress(OSError):
            pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            try:
                if stat.S_ISFIFO(os.fstat(pipe).st_mode):
                    rank, when = path[len(pipes) : -len(".pipe")], time.time()
                    os.write(pipe, b"1")
                    asked[rank] = when
            finally:
                os.close(pipe)
    return asked


def answers(asked: dict[str, float], prefix: str) -> str:
    """Wait until the ranks have written their dumps, and report which have not."""
    until, before = time.monotonic() + PATIENCE_SECONDS, None
    while True:
        sizes, silent = {}, set(asked)
        for rank, when in asked.items():
            with contextlib.suppress(OSError):
                about = os.stat(f"{prefix}{rank}")
                # The clock of a file system may be a little behind.
                if about.st_mtime >= when - 0.1:
                    silent.discard(rank)
                    sizes[rank] = about.st_size
        if time.monotonic() > until or (not silent and sizes == before):
            break
        before = sizes
        time.sleep(0.5)
    said = f"ranks {', '.join(sorted(asked))} were asked for a dump\n"
    return said + (
        f"ranks {', '.join(sorted(silent))} wrote no dump within {PATIENCE_SECONDS:.0f} s\n" if silent else ""
    )


def dumps(prefix: str, since: float) -> dict[str, bytes]:
    """Return the files that NCCL's flight recorder has written since then, up to a size limit."""
    found: dict[str, bytes] = {}
    for path in sorted(glob.glob(f"{glob.escape(prefix)}*")) if prefix else []:
        with contextlib.suppress(OSError):
            about = os.stat(path)
            room = MOST - sum(map(len, found.values()))
            # Reading a pipe would wait for a writer.
            if stat.S_ISREG(about.st_mode) and about.st_mtime >= since and about.st_size <= min(LARGEST, room):
                found[f"nccl/{os.path.basename(path)}"] = Path(path).read_bytes()
    return found


def worker_logs(since: float) -> str:
    """Return the last lines logged by Ray's workers and node processes since then, the newest first."""
    pattern = os.path.join(os.environ.get("RAY_TMPDIR", "/tmp"), "ray/session_latest/logs")  # noqa: S108  Ray's own
    dated = []
    for path in (*glob.glob(f"{pattern}/worker-*"), *glob.glob(f"{pattern}/raylet.*")):
        with contextlib.suppress(OSError):
            about = os.stat(path)
            if about.st_size and about.st_mtime >= since:
                dated.append((about.st_mtime, path))
    found, size = [], 0
    for _, path in sorted(dated, reverse=True):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - LOOK))
            # Ray itself writes its counters each minute.
            text = b"".join(line for line in file if b"[state-dump]" not in line)[-LOG:].decode(errors="replace")
            found.append(f"== {os.path.basename(path)}\n{text.rstrip()}\n")
            size += len(text)
        if size > LOGS:
            break
    return "".join(found) or f"no log of a worker in {pattern}\n"


def memory() -> str:
    """Return the kernel's statistics on this pod's memory: its use, its limit, and the processes killed for it."""
    paths = [f"{group}/memory.{name}" for group in GROUPS for name in MEMORY]
    return "".join(f"{path}\n{text}" for path in paths if (text := read(path))) or "the kernel does not say\n"


def collect(group: int, prefix: str, pipes: str, age: float) -> tuple[str, dict[str, bytes]]:
    """Return this pod's name, and files by name; `age` is how long the trainer has been running, in seconds."""
    since, asked = time.time() - age, ask_for_dumps(pipes)
    found = {"worker-logs.txt": worker_logs(since), "memory.txt": memory()}
    found["nvidia-smi.txt"] = output_of(["nvidia-smi"], PATIENCE_SECONDS)
    every = processes()
    ours = of_training(every, group)
    lines = [f"{pid} {word}\n{threads(pid)}" for pid, word in ours.items()] or ["no process of a training runs here\n"]
    # A title may have the arguments in it.
    lines += [f"other: {pid} {every[pid][2].partition(' ')[0]}\n" for pid in sorted(every.keys() - ours.keys())]
    found["processes.txt"] = "".join(lines)
    if ours and shutil.which(PY_SPY) is None:
        found["stacks.txt"] = f"no stacks: {PY_SPY} is not in the image\n"
    elif ours:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for pid, text in zip(ours, pool.map(stacks, ours), strict=True):
                found[f"stacks-{pid}.txt"] = f"{pid} {ours[pid]}\n{text}"
    if asked:
        found["nccl-asked.txt"] = answers(asked, prefix)
    files = {name: text.encode() for name, text in found.items()}
    return socket.gethostname(), files | dumps(prefix, since)
