"""Versions that do not match: driver, CUDA, compilers, packages."""

from __future__ import annotations

from grpo.problems.problem import CONFIGURATION, SAME, failure
from grpo.problems.sign import printed

DRIVER = failure(
    "driver-version",
    "the node's NVIDIA driver does not fit the image's CUDA",
    CONFIGURATION,
    "install a newer driver on the nodes, or use an image with an older CUDA",
    SAME,
    printed(
        "cuda driver version is insufficient",
        "nvidia driver on your system is too old",
        "forward compatibility was attempted",
        "no kernel image is available for execution",
        "is not compatible with the current pytorch installation",
        "driver/library version mismatch",
        "nvidia-container-cli",
        "unsupported ptx version",
        "the provided ptx was compiled with an unsupported toolchain",
        "torch not compiled with cuda enabled",
        "libcuda.so",
        "libnvidia-ml.so",
        "is not defined for option 'gpu-name'",
        unless="warning|userwarning|found compute",
    )
    # A kernel that was compiled with a newer CUDA than the driver's.
    + printed("device kernel image is invalid"),
    value="images.training",
)

PACKAGE = failure(
    "package-missing",
    "a Python package or a program is missing in the image, or has another version",
    CONFIGURATION,
    "use the image that belongs to the framework's version, or add the package to it; job.runtimeEnv installs "
    "small ones",
    SAME,
    printed("importerror", general=True, unless=r"warn|importerror:\s*$")
    + printed(
        "modulenotfounderror",
        "no module named",
        "packagenotfounderror",
        "cannot import name",
        pattern=r"(?:^|\b)(?:ModuleNotFoundError|ImportError|\S*PackageNotFoundError): .*|no module named .*|"
        r"cannot import name .*",
        # Every vLLM that was built from a folder without Git's history says that it has no vllm._version.
        unless=r"warn|vllm\._version",
    )
    + printed(
        "versionconflict",
        "distributionnotfound",
        "is required for a normal functioning",
        "has no attribute '__version__'",
        "requires the following packages",
        "seems to be not installed",
        unless="warn|notice|optional|not required|recommend|faster",
    )
    + printed(
        "command not found",
        pattern=r"\b(?:ray|vllm|sglang|torchrun|accelerate|deepspeed): command not.*",
    )
    + printed(
        "to be installed",
        pattern=r"^\w+Error: .{0,300}\brequires? .{0,100}to be installed",
        unless="driver|nvcc|compiler|falling back|optional",
    )
    + printed("is not installed", pattern=r"error\b[^\n]*is not installed")
    + printed(
        "attributeerror",
        pattern=r"^AttributeError: (?:partially initialized )?(?:module|type object|'(?!NoneType)\w+' object) .*"
        r"has no attribute.*",
        frames=r"/vllm/|/transformers/|/torch/|/ray/|monkey|patch|/megatron|flash_attn|/sglang",
    )
    + printed(
        "typeerror",
        pattern=r"^TypeError: .*(?:unexpected keyword argument|missing \d+ required|takes \d+ positional).*",
        frames=r"/vllm/|/transformers/|/torch/|/ray/|/megatron|flash_attn|/sglang|/trl/|/verl/|/nemo_rl/",
    ),
    value="images.training",
    earlier=(
        "verl/engine-not-in-image verl/image-of-another-version verl/own-image-of-another-version "
        "verl/transfer-queue nemo-rl/vllm-argument pods/install-in-init-container job/reward-import-absent "
        "job/reward-import-doubtful"
    ),
)

BINARY = failure(
    "binary-mismatch",
    "a compiled library does not fit the others of the image",
    CONFIGURATION,
    "build it against the image's PyTorch, CUDA and C library; do not mix images and wheels",
    SAME,
    printed(
        "undefined symbol",
        "glibc_",
        "glibcxx_",
        "cannot open shared object file",
        "wrong elf class",
        "abi mismatch",
        "numpy.dtype size changed",
        "a module that was compiled using numpy",
        "undefined reference",
        "symbol not found",
        "cublas_status_not_supported",
        "cublas_status_invalid_value",
        "cudnn_status_not_initialized",
        "cudnn_status_sublibrary_version_mismatch",
        unless=r"warning|nccl info|libnvidia-ml\.so|libcuda\.so",
    ),
    value="images.training",
)

COMPILER = failure(
    "compiler",
    "a kernel could not be compiled at run time",
    CONFIGURATION,
    "use an image with the CUDA toolkit and a C compiler, or switch the compilation off",
    SAME,
    printed(
        "failed to find c compiler",
        "nvcc: not found",
        "cuda_home environment variable is not set",
        "backendcompilerfailed",
        "inductorerror",
        "compilationerror",
        "ninja is required",
        "error building extension",
        "error compiling objects for extension",
        "ptxas fatal",
        "command '['ninja'",
        "ptxas exited",
        "nvrtc",
        "could not find nvcc",
        "no such file or directory: 'nvcc'",
        "nvcc'",
        "outofresources: out of resource",
        "outofresources",
        "unsupported compute_capability",
        "passmanager::run failed",
        "python.h: no such file",
        unless="warning",
    ),
    value="images.training",
)

ATTENTION = failure(
    "attention-kernel",
    "an attention or other kernel does not run on this GPU or with these sizes",
    CONFIGURATION,
    "choose another attention implementation, or an image with kernels for this GPU",
    SAME,
    printed(
        "flashattention only supports",
        "flashattention2 has been toggled on",
        "flash attention only supports",
        "flash_attn seems to be not installed",
        "flashattention forward only supports",
        "no valid attention backend",
        "no dot product attention support",
        "only support fp16 and bf16",
        "no available kernel",
        "is not supported for the current gpu",
        "minimum capability",
        "bfloat16 is only supported on gpus",
        unless="warning|info",
    )
    + printed("only supports sm", pattern=r"only supports sm_?\d.*"),
    value="job.config",
)
