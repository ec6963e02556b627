"""The memory of GPUs, of nodes and of Ray."""

from __future__ import annotations

from grpo.problems.memory import phase
from grpo.problems.problem import CONFIGURATION, SAME, failure
from grpo.problems.sign import printed, says

CUDA = failure(
    "cuda-oom",
    "a GPU had too little memory for the training",
    CONFIGURATION,
    "use smaller micro batches, shorter sequences, more tensor parallelism or activation checkpointing; grpo plan "
    "shows the memory of each phase",
    SAME,
    printed(
        "cuda out of memory",
        "torch.outofmemoryerror",
        "outofmemoryerror: cuda",
        "cuda error: out of memory",
        "cublas_status_alloc_failed",
        "cuda_error_out_of_memory",
        "cudaerrormemoryallocation",
        "hip out of memory",
        "cuda driver error: out of memory",
        "resource_exhausted: out of memory",
    )
    + printed(
        "out of memory", pattern=r"cuda failure 2\b.*out of memory|cuda failure 'out of memory'|cumem.*out of memory"
    ),
    value="job.config",
    earlier="memory/does-not-fit",
)

VLLM = failure(
    "vllm-memory",
    "vLLM had too little GPU memory for its weights or its cache",
    CONFIGURATION,
    "change gpu_memory_utilization (more for the cache, less if the policy needs it), shorten max_model_len, or use "
    "more tensor parallelism for generation; end other processes that hold the GPU's memory before the start "
    "(nvidia-smi)",
    SAME,
    printed(
        "no available memory for the cache blocks",
        "try increasing `gpu_memory_utilization`",
        "is larger than the maximum number of tokens that can be stored in kv cache",
        "is larger than the available kv cache memory",
        "less than desired gpu memory utilization",
        "out of memory occurred when warming up sampler",
        "error in memory profiling",
        "not enough memory. please try to increase --mem-fraction-static",
        "failed to wake up the engine",
        "is not enough to serve even a single request",
        "kv cache is needed",
        "cannot allocate kv cache",
    )
    + printed(
        "out of memory",
        "outofmemoryerror",
        pattern=r"out of memory.*",
        frames=r"/vllm/|/sglang/|wake_up|cumem|init_cache_engine|determine_num_available_blocks|kv_cache",
    )
    + printed("memory", pattern=r"free memory on device.*(?:is less than|on startup).*"),
    value="job.config",
    earlier="memory/does-not-fit nemo-rl/gpu-memory-share verl/memory-share",
)

HOST = failure(
    "host-oom",
    "a process was killed because its pod or node had no memory left",
    CONFIGURATION,
    "give the pods more memory, or offload less to it; grpo plan shows the memory that each node needs, and when",
    SAME,
    says(
        "oomkilled",
        "oom-kill",
        "oomkilling",
        "node running low on memory",
        "killed due to memory pressure",
        "ray.exceptions.outofmemoryerror",
        "out of memory: the kernel killed",
        "out of memory: killed process",
        "memory cgroup out of memory",
        "defaultcpuallocator: can't allocate memory",
        "cannot allocate memory",
        "killed by the oom killer",
        "system oom encountered",
    )
    + printed("memoryerror", pattern=r"^(?:numpy\.\S*)?_?(?:Array)?MemoryError\b.*")
    + printed("oom_kill", pattern=r"\boom_kill [1-9]\d*")
    + printed("oom", pattern=r"detected \d+ oom.?kill event|oom killed.*"),
    value="accelerator.worker.memory",
    on_head="ray.head.memory",
    earlier=(
        "memory/host job/head-below-weights job/head-below-conversion ray/small-head pods/shared-memory-above-limit "
        "pods/memory-volume-without-limit"
    ),
    remark=phase.memory,
)

SHARED = failure(
    "shared-memory",
    "the shared memory (/dev/shm) of a container is too small",
    CONFIGURATION,
    "give the pod more memory, or a larger volume at /dev/shm: grpo-post-render mounts one into charts that "
    "are not ours",
    SAME,
    printed(
        "out of shared memory",
        "killed by signal: bus error",
        "error while creating shared memory segment",
        "insufficient shared memory",
        "unable to open shared memory object",
        "call to posix_fallocate failed : no space left on device",
        "ncclshm",
        "shared memory object file",
    )
    + printed(
        "/dev/shm",  # noqa: S108 (sought, not used)
        pattern=r"(?:no space left|not enough|too small|cannot|could not|failed)[^\n]*/dev/shm\S*|"
        r"/dev/shm[^\n]*(?:no space left|full)",
    )
    + printed("unable to write to file </torch_"),
    value="ray.workers",
    on_head="ray.head",
    earlier="cluster/small-shared-memory pods/shared-memory-missing",
)

OBJECTS = failure(
    "object-store-full",
    "Ray's object store or the disk that it spills to is full",
    CONFIGURATION,
    "use smaller batches, or give the pods more memory (the object store gets a share of it); for a full disk, raise "
    "the ephemeral storage",
    SAME,
    printed(
        "objectstorefullerror",
        "local object store is full",
        "object store is full",
        "outofdiskerror",
        "local disk is full",
        "the object cannot be created because",
        "plasma store is full",
        "in object store because it is full",
    ),
    value="accelerator.worker.memory",
    on_head="ray.head.memory",
)
