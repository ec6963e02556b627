"""Machine faults: GPUs, links, nodes."""

from __future__ import annotations

from grpo.problems.line import EVENT, NODE, POD
from grpo.problems.problem import CONFIGURATION, ELSEWHERE, EXCEPTION, HARDWARE, SAME, SYMPTOM, UNKNOWN, failure
from grpo.problems.sign import printed, says

_REPLACE = (
    "take the node out (kubectl cordon NODE), have its GPUs examined or the machine replaced, then raise job.attempt"
)
# Numbers of Xid that a program causes itself, by NVIDIA's catalogue: they say nothing about the machine.
_OF_PROGRAMS = "13|31|43|45|68|69"

GPU = failure(
    "gpu-fault",
    "a GPU has failed",
    HARDWARE,
    _REPLACE,
    ELSEWHERE,
    says("xid", pattern=rf"\bS?Xid(?: \(PCI:[^)]*\))?(?: errors?)?[ :=#]+(?!(?:{_OF_PROGRAMS})\b)\d+\b")
    + says(
        "fallen off the bus",
        "gpu is lost",
        "uncorrectable ecc error",
        "uncorrectable nvlink error",
        "unable to determine the device handle for gpu",
        "gpu requires reset",
        "gpu has been reset",
        "double bit ecc",
        "row remapping failure",
        "cuda error: hardware stack error",
        "contained ecc",
        "uncontained ecc",
    )
    + says(
        "gpu",
        "nvlink",
        "nvswitch",
        "ecc",
        "nvidia",
        kinds=(NODE,),
        pattern=r"^(?!\S*(?:ready|(?<!un)healthy)\S*=True)\S*(?:gpu|nvlink|nvswitch|ecc|nvidia|dcgm)\S*=True.*",
    ),
)

FABRIC = failure(
    "nvlink-fabric",
    "the NVLink fabric of a node is not ready",
    HARDWARE,
    "the node's fabric manager does not run or does not match the driver: restart or replace the node",
    ELSEWHERE,
    printed(
        "cuda error: system not yet initialized",
        "error 802: system not yet initialized",
        "cudaerrorsystemnotready",
        "fabric manager is not running",
        "nvlink fabric",
    )
    + printed("802", pattern=r"cuda\w*\D{1,40}802\b.*not yet initialized"),
)

BUSY = failure(
    "gpu-unavailable",
    "CUDA finds no GPU that it can use on a node that should have some",
    HARDWARE,
    "look at nvidia-smi on that node; a GPU that another process holds or that has failed looks like this too",
    ELSEWHERE,
    printed(
        "all cuda-capable devices are busy or unavailable",
        "cuda-capable device(s) is/are busy or unavailable",
        "cudaerrordevicesunavailable",
        "nvmlerror_gpuislost",
        "cuda unknown error - this may be due to an incorrectly set up environment",
        "no devices were found",
        "failed to initialize nvml: unknown error",
    )
    # The kubelet and NVIDIA's container runtime, which make no container then.
    + says("no healthy devices present", "cannot allocate unhealthy devices")
    + says(
        "nvidia-container-cli",
        pattern=r"nvidia-container-cli: (?:device|initialization|detection) error\b.*",
        unless="load library failed",
    )
    + says(
        "failed to get device handle",
        "nvml error",
        pattern=r"(?:nvml error|device handle).*(?:unknown|lost|not found).*",
    ),
)

NOT_SEEN = failure(
    "no-gpu-seen",
    "a process sees no GPU",
    UNKNOWN,
    "kubectl exec POD -- nvidia-smi: if it lists GPUs, look at what the process was given (CUDA_VISIBLE_DEVICES, "
    "num_gpus of its Ray actor); if not, at the GPUs that the pod asks for, at the driver's folder in the pod "
    "(accelerator.libraryPath), and at the node",
    SAME,
    printed(
        "no cuda gpus are available",
        "no cuda-capable device is detected",
        "found no nvidia driver",
        "failed to infer device type",
        "0 active drivers ([])",
        unless=r"warning|^\W*info\b|cuinit",
    )
    + printed("torch.cuda.is_available() is false", unless=r"warning|^\W*info\b")
    # NVIDIA's device plugin, to which the node's container runtime gives no driver.
    + printed("could not load nvml library", "did you configure the nvidia container toolkit", unless=r"\binfo\b")
    # The driver's folder is not in the container.
    + printed(
        "cannot open shared object file",
        pattern=r"lib(?:cuda|nvidia-ml)\.so[\w.]*: cannot open shared object file.*",
        unless=r"warning|\binfo\b",
    ),
    # A GPU that has failed is why.
    place=EXCEPTION,
    value="accelerator",
    earlier="nodes/host-path-without-type cluster/machine-folders-missing job/devices-of-ray",
)

LINK = failure(
    "rdma-link",
    "an RDMA link between two nodes has failed",
    HARDWARE,
    "run helm test of the raycluster release: it names the slow or broken node; replace that node",
    ELSEWHERE,
    printed("got completion", pattern=r"NET/IB.*Got completion.*(?:error|status)[ =]*\(?(?:4|5|10|12|13)\b.*")
    + printed(
        "ibv_wc_retry_exc_err", "ibv_wc_rnr_retry_exc_err", "local ack timeout", "transport retry counter exceeded"
    )
    + printed("async fatal event", "port error", pattern=r"NET/IB.*(?:async fatal event|port error).*"),
)

NODE_LOST = failure(
    "node-not-ready",
    "a node of the run does not answer",
    HARDWARE,
    "kubectl describe node NODE says since when; replace the node if it stays away, then raise job.attempt",
    ELSEWHERE,
    says(
        "notready",
        "nodelost",
        "unreachable",
        kinds=(NODE, POD, EVENT),
        pattern=r"\bNotReady\b.*|\bNodeLost\b.*|unreachable.*",
    )
    + says("node is not ready", "nodenotready"),
)

NODE_DIED = failure(
    "ray-node-died",
    "Ray lost a node",
    HARDWARE,
    "look for what became of its pod and its node: out of memory, preempted, evicted, or the machine",
    ELSEWHERE,
    printed(
        "has been marked dead because the detector has missed too many heartbeats",
        "nodediederror",
        "its node has died",
        "owner's node has crashed",
        "the node on which the task was running has died",
        "ownerdiederror",
        "health check failed due to missing too many heartbeats",
        "node failure",
    )
    + printed("node with node id", pattern=r"node with node id: \w+ .*(?:dead|died).*"),
    place=SYMPTOM,
)

PEER = failure(
    "peer-access",
    "two GPUs of a node cannot reach each other's memory",
    CONFIGURATION,
    "switch the custom all-reduce off (disable_custom_all_reduce), or set NCCL_P2P_DISABLE=1; cards without "
    "NVLink need it",
    SAME,
    printed("peer access is not supported", "peer access is already enabled", "cudadeviceenablepeeraccess"),
    value="job.config",
)
