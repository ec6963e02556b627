"""Two real processes gather twice with torch, as the ranks of a pair do in one round after another."""

from __future__ import annotations

import re
import socket
import subprocess

import pytest

from .harness import ROOT
from .torch_python import torch_python

pytestmark = pytest.mark.full

RANK = """
import sys
sys.path.insert(0, sys.argv[1])
import probe
plan = {"net": "", "backend": "gloo", "seconds": 600, "bytes": 2**20, "pair": "w-0 and w-1"}
for address in sys.argv[3:]:
    seconds, network, library = probe.join(int(sys.argv[2]), 2, address, plan, "no-log")
    print(seconds > 0, repr(network), repr(library))
"""


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def test_ranks_gather_in_one_round_after_another() -> None:
    """Each round has a process group of its own; what is gathered is compared before it is timed."""
    command = [str(torch_python()), "-c", RANK, str(ROOT / "jobs/checks")]
    addresses = [free_address() for _ in range(2)]
    ranks = [
        subprocess.Popen([*command, str(rank), *addresses], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=300) for rank in ranks]
    for out, errors in said:
        assert re.fullmatch(r"(True '' '(/\S+/libnccl\.so\S*)?'\n){2}", out), errors
