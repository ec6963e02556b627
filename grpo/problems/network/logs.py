"""Collectives between GPUs and nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from grpo.cluster.evidence import Evidence
from grpo.problems.line import Line
from grpo.problems.problem import CONFIGURATION, ELSEWHERE, HELPS, SAME, SYMPTOM, UNKNOWN, failure
from grpo.problems.sign import printed

_RANK = re.compile(r"\brank[ :]*(\d+)", re.IGNORECASE)
# What the guard writes from the dumps (jobs/guard/flight_recorder.py).
_DUMPS = "/nccl.txt"
# What a rank says about its own progress: the collective that it started or finished last.
_AT = (
    re.compile(r"last enqueued (?:nccl )?work:?\s*(-?\d+)", re.IGNORECASE),
    re.compile(r"SeqNum=(\d+)", re.IGNORECASE),
    re.compile(r"last completed (?:nccl )?work:?\s*(-?\d+)", re.IGNORECASE),
)


def first_rank(lines: Sequence[Line], evidence: Evidence | None) -> str:
    """Return which rank is behind the others, from the flight recorder's dumps, or else from the ranks' output."""
    dumps = [text for name, text in evidence.logs.items() if name.endswith(_DUMPS)] if evidence else []
    return "; ".join(line for text in dumps for line in text.splitlines() if line) or _printed(lines)


def _printed(lines: Sequence[Line]) -> str:
    """Return which rank is behind the others: they wait for it in a collective that it has not started."""
    at: dict[int, int] = {}
    for line in lines:
        rank = _RANK.search(line.text)
        number = next((found for regex in _AT if (found := regex.search(line.text))), None)
        if rank and number:
            at[int(rank[1])] = max(at.get(int(rank[1]), -1), int(number[1]))
    if not at:
        return ""
    least = min(at.values())
    behind = sorted(rank for rank, number in at.items() if number == least)
    silent = sorted(set(range(max(at) + 1)) - set(at))
    if len(set(at.values())) > 1:
        return f"{_named(behind)} stopped first, at collective {least}; others had reached {max(at.values())}"
    if silent:
        return f"no output of {_named(silent)}: the others waited in collective {least}"
    if len(at) == 1:
        return f"the only rank with output waits in collective {least}"
    return f"all {len(at)} ranks with output wait in collective {least}"


def _named(ranks: Sequence[int]) -> str:
    """Return the ranks' names, but only the first ones if there are many."""
    listed = ", ".join(map(str, ranks[:8])) + (" …" if len(ranks) > 8 else "")
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {listed}"


TIMEOUT = failure(
    "nccl-timeout",
    "a collective of NCCL timed out: one rank did not take part in time",
    UNKNOWN,
    "look at the rank that stopped first: it died, ran out of memory, or is slow; if none did, run helm test of the "
    "raycluster release",
    HELPS,
    printed(
        "watchdog caught collective operation timeout",
        "collective operation timeout",
        "collective timeout",
        "last enqueued nccl work",
        "last enqueued work",
        "watchdog got stuck",
        "received a dump signal due to a collective timeout",
        "some nccl operations have failed or timed out",
        "nccl communicator was aborted",
        "ncclcommabort",
        "timed out in call to",
        "taking the entire process down",
        "taking the rank down",
        "observed flight recorder dump signal",
    )
    + printed("watchdog thread terminated with exception", unless="cuda error")
    + printed("timeout", pattern=r"work(?:nccl)?\(seqnum=\d+.*timeout\(ms\).*")
    + printed(
        "timed out", pattern=r"(?:gloo|barrier|monitoredbarrier|all_?reduce|all_?gather|broadcast)[^\n]*timed out.*"
    ),
    place=SYMPTOM,
    remark=first_rank,
)

PLUGIN = failure(
    "nccl-plugin",
    "NCCL cannot use the network that it was told to use",
    CONFIGURATION,
    "the plugin must be on the node and in LD_LIBRARY_PATH, and the image's glibc and NCCL must match it; set "
    "NCCL_DEBUG "
    "to INFO and run helm test",
    SAME,
    printed(
        "failed to initialize any net plugin",
        "no socket interface found",
        "failed to initialize net plugin",
        "no ib devices found",
        "failed to open libibverbs",
        "bootstrap : no",
        "is neither af_inet",
        "ncclsocketinit: connecting to address",
        "no interface found",
    )
    + printed(
        "network",
        pattern=r"nccl warn error: network \S+ not found.*|network \S+ not found.*nccl.*|error: network \S+ not found",
    )
    + printed("call to ibv_", pattern=r"call to ibv_\w+ failed")
    + printed("cuda failure 800", pattern=r"cuda failure 800\b.*"),
    value="network.mode",
    earlier=(
        "nccl/plugin-without-network nccl/variables-contradict clouds/image-without-efa "
        "network/devices-missing clouds/devices-of-the-machine cluster/machine-folders-missing "
        "network/image-without-rdma"
    ),
)

CHANNEL = failure(
    "nvlink-channel",
    "NVLink between nodes does not work in the pods: they have no IMEX channel, or its daemon does not run",
    CONFIGURATION,
    "let the cluster have NVIDIA's DRA driver with ComputeDomains; where it cannot, set "
    "accelerator.nccl.env.NCCL_MNNVL_ENABLE to 0: the nodes then use their network",
    SAME,
    printed("is available but not working on", pattern=r"mnnvl \(cliquesize \d+\).*"),
    value="accelerator.nvlinkDomainNodes",
    earlier="clouds/nvlink-without-channel",
)

CONNECT = failure(
    "nccl-connect",
    "ranks cannot connect to each other",
    CONFIGURATION,
    "check NCCL_SOCKET_IFNAME, and look for a NetworkPolicy or firewall between the pods, a rank that had not started, "
    "or a port that another group uses",
    HELPS,
    printed(
        "socketstartconnect",
        "exceeded error retry",
        "socketprogressopt",
        "ncclsocketinit",
        "connection attempts timed out",
        "the client socket has timed out",
        "the client socket has failed to connect",
        "timed out waiting for clients",
        "no route to host",
        "network is unreachable",
        "failed to recv, got 0 bytes",
        "invalid nonce returned",
        "broken pipe (nccl",
        "connectfullmesh failed",
        "rendezvousconnectionerror",
        "rendezvoustimeouterror",
        "wait timeout after",
        "socket timeout",
    )
    # EFA of AWS.
    + printed("handshake failed", "unresponsive receiver", pattern=r"NET/OFI.*")
    + printed("distnetworkerror", "diststoreerror", general=True),
    place=SYMPTOM,
    value="network.mode",
    earlier="nccl/another-socket-interface nccl/socket-interface-not-set",
)

USAGE = failure(
    "nccl-duplicate-gpu",
    "two ranks use the same GPU, or a rank has none",
    CONFIGURATION,
    "start one rank a GPU, and let nothing else set CUDA_VISIBLE_DEVICES",
    SAME,
    printed("duplicate gpu detected", "invalid device ordinal", "ncclinvalidusage", "device index must not be negative")
    + printed("rank", pattern=r"using the same (?:cuda )?(?:device|gpu).*"),
    value="job.config",
    earlier="job/devices-of-ray",
)

ERROR = failure(
    "nccl-error",
    "NCCL reports an error",
    UNKNOWN,
    "set NCCL_DEBUG to INFO: the first line with WARN says why",
    ELSEWHERE,
    printed(
        "ncclunhandledcudaerror",
        "ncclsystemerror",
        "ncclinternalerror",
        "unhandled system error",
        "unhandled cuda error",
        "nccl error",
        "nccl version mismatch",
    )
    + printed("nccl warn", "nccl communicator", "distbackenderror", general=True),
    place=SYMPTOM,
    value="network.mode",
)
