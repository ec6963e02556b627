"""Environment variables that the charts set themselves, or that they cannot pass on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.checks import quoted, texts
from grpo.problems.topic import Topic
from grpo.values import images
from grpo.values.derived import mapping
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

TOPIC = Topic("job", framework="", source="")
_ALWAYS: Final = (
    *("GRPO_CLUSTER_FACTS", "RAY_JOB_STOP_WAIT_TIME_S", "HF_TOKEN", "HF_HUB_OFFLINE", "WANDB_API_KEY"),
    *("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"),
)
_OF_PLUGIN: Final = {"BASH_ENV": "environmentScript", "NCCL_NET": "net", "NCCL_TUNER_CONFIG_PATH": "tunerConfig"}
_OF_KUBERAY: Final = (
    *(
        "FQ_RAY_IP",
        "RAY_IP",
        "RAY_CLUSTER_NAME",
        "RAY_CLUSTER_NAMESPACE",
        "RAY_CLOUD_INSTANCE_ID",
        "RAY_NODE_TYPE_NAME",
    ),
    *("KUBERAY_GEN_RAY_START_CMD", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_enable_autoscaler_v2", "REDIS_USERNAME"),
    *("REDIS_PASSWORD", "RAY_REDIS_ADDRESS"),
)
# Variables for finding errors, with what they do if they are 1.
_SLOW: Final = {
    "CUDA_LAUNCH_BLOCKING": "every kernel waits until the one before has ended",
    "NCCL_P2P_DISABLE": "the GPUs of a node exchange data through the memory of the host, not over NVLink",
}
# Variables that name the GPUs of a process.
_OF_DEVICES: Final = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
# The variables that verl's loggers read, each with its tracker.
_OF_TRACKERS: Final = {"TENSORBOARD_DIR": "tensorboard", "WANDB_DIR": "wandb", "MLFLOW_TRACKING_URI": "mlflow"}
# A variable that has no default.
_READ: Final = re.compile(r"(?<!\\)\$\{oc\.env:\s*([A-Za-z_]\w*)\s*\}")
# What containers, Kubernetes, the images and the charts set, or may set.
_SET: Final = re.compile(
    "(GRPO|HF|HUGGINGFACE|WANDB|MLFLOW|TENSORBOARD|RAY|KUBERAY|KUBERNETES|NCCL|CUDA|NVIDIA|NV|NRL|NEMO|TORCH|PYTORCH"
    "|TRANSFORMERS|VLLM|UV|PIP|PYTHON|LD|LC|XDG|VERL|OMP|MPI|OMPI|TRITON|GLOO|REDIS|FQ)_.*|HOME|PATH|USER|LOGNAME|SHELL"
    "|HOSTNAME|PWD|OLDPWD|SHLVL|TERM|LANG|LANGUAGE|TZ|TMPDIR|VIRTUAL_ENV|PYTHON[A-Z]*|_|.{0,100}_(SERVICE|PORT)(_.{0,100})?"
)


@TOPIC.problem("", fails=Fails.AT_RENDER, source="charts/common/templates/_environment.tpl at 0.1.0")
def variable_of_the_charts(run: RunConfig) -> Iterator[Finding]:
    """the charts or KubeRay set a custom variable, or its value is not valid

    Fix: remove it, and change the value that the charts derive it from
    """
    own = set(_own(run))
    for section in ("ray.env", "ray.head.env", "ray.workers.env", "job.env"):
        for name, entry in mapping(run.value(section)).items():
            if ("value" in mapping(entry)) == ("secret" in mapping(entry)):
                given, fix = "both are" if mapping(entry) else "neither is", "give exactly one of value and secret"
                yield Finding(
                    f"{section}.{name}: value or secret, and {given} given", keys=[f"={section}.{name}"], fix=fix
                )
    for section in ("ray.env", "ray.head.env", "ray.workers.env"):
        for name in mapping(run.value(section)):
            if name in own or name in _OF_KUBERAY:
                owner = "the charts set" if name in own else "KubeRay sets or refuses"
                yield Finding(f"{section}.{name}: {owner} it", keys=[f"={section}.{name}"])
    own |= set(_own_of_driver(run))
    for name, entry in mapping(run.value("job.env")).items():
        key, value = f"job.env.{name}", mapping(entry).get("value")
        if name in own:
            yield Finding(f"{key}: the charts set it", keys=[f"={key}"])
        elif "secret" in mapping(entry) and value is None:
            fix = "write it under ray.env, which sets the variables of the pods"
            yield Finding(f"{key}: the driver cannot get a Secret on a running cluster", keys=[f"={key}"], fix=fix)
        elif run.framework == "verl" and run.trains and "${" in str(value):
            fix = "write it under ray.env, which sets the variables of the pods"
            yield Finding(f"{key} contains ${{, which verl reads as an interpolation", keys=[f"={key}"], fix=fix)


@TOPIC.problem(
    "=ray.env", fails=Fails.COSTS, source="charts/common/templates/_environment.tpl at 0.1.0", severity=WARNING
)
def slow_variable(run: RunConfig) -> Iterator[Finding]:
    """a variable for debugging slows down training

    Why: the run is correct but takes much longer, and the GPUs are billed all that time
    Fix: remove it once the error is found
    """
    interfaces = mapping(run.value("accelerator.interfaces")).values()
    # All machines with RDMA also have NVLink between the GPUs of a node.
    linked = run.gpus > 1 and any(mapping(each).get("deviceMode") == "RDMA" for each in interfaces)
    for section in ("ray.env", "ray.workers.env", "job.env") if run.trains else ():
        for name, effect in _SLOW.items():
            value = mapping(mapping(run.value(section)).get(name)).get("value")
            if str(value) == "1" and (linked or name != "NCCL_P2P_DISABLE"):
                yield Finding(f"{section}.{name} is 1: {effect}", keys=[f"={section}.{name}"])


@TOPIC.problem(
    "=ray.env",
    fails=Fails.AT_SETUP,
    source="verl/single_controller/base/worker.py:267 at 0.9.1, ray/_private/resource_and_label_spec.py:353 at v2.55.1",
    severity=WARNING,
)
def devices_of_ray(run: RunConfig) -> Iterator[Finding]:
    """a variable sets a process's GPUs, but Ray assigns them

    Why: some GPUs are billed but unused, or Ray refuses to start, or workers look for GPUs assigned to others
    Fix: remove it: a pod sees the GPUs that it requests, and Ray gives each worker its own
    """
    whole = ("all", ",".join(map(str, range(run.gpus))))
    for section in ("ray.env", "ray.workers.env", "job.env") if run.trains else ():
        for name in _OF_DEVICES:
            value = mapping(mapping(run.value(section)).get(name)).get("value")
            # A list of all GPUs hides none, but verl refuses the variable of AMD beside Ray's.
            if value is not None and (name.startswith("ROCR") or str(value).replace(" ", "") not in whole):
                yield Finding(f"{section}.{name} is {quoted(str(value))}", keys=[f"={section}.{name}"])


@TOPIC.problem(
    "=job.env =ray.env",
    fails=Fails.AT_SETUP,
    source="verl/trainer/main_ppo.py:145 at 0.9.1, examples/run_grpo.py:81 at v0.7.0",
    severity=WARNING,
)
def variable_not_set(run: RunConfig) -> Iterator[Finding]:
    """the configuration reads a variable that is not set and has no default

    Why: the framework rejects its configuration at startup, when the cluster is already running and billing
    Fix: set it under ray.env, or add a default: ${oc.env:NAME,default}; if the image sets it, ignore the finding
    """
    # An image of one's own may set any variable.
    if not run.trains or not images.is_published(run.value("images.training.repository")):
        return
    names = {*_own(run), *_own_of_driver(run)}
    for section in ("ray.env", "ray.head.env", "ray.workers.env", "job.env"):
        names |= {*mapping(run.value(section))}
    for path, text in texts(run.given):
        for found in _READ.finditer(text):
            before = text[: found.start()]
            # Inside another reference it may be the default, which is not always read.
            is_outside = before.count("${") == before.count("}")
            if is_outside and found[1] not in names and not _SET.fullmatch(found[1]):
                yield Finding(f"{path} reads {found[1]}, which no section env sets", keys=[path])


def _own(run: RunConfig) -> Iterator[str]:
    """Yield the variables that the charts or the post-renderer set in the head or the workers."""
    nccl = mapping(run.value("accelerator.nccl"))
    yield from _ALWAYS
    if run.value("network.mode") != "none":
        yield from (name for name, key in _OF_PLUGIN.items() if nccl.get(key))
    yield from mapping(nccl.get("env"))
    if run.value("accelerator.libraryPath"):
        yield "LD_LIBRARY_PATH"
    if run.value("huggingface.cache.volume"):
        yield "HF_HOME"


def _own_of_driver(run: RunConfig) -> Iterator[str]:
    """Yield the variables that the charts set only in the driver."""
    yield "GRPO_DATASETS"
    rewards = run.trains and any(mapping(run.value("job.rewards")).values())
    if rewards or any(mapping(run.value("job.code.packages")).values()) or run.value("job.code.repository"):
        yield "PYTHONPATH"
    if run.trains and any(mapping(run.value("job.prompts")).values()):
        yield "GRPO_PROMPTS"
    if run.framework == "verl":
        yield from (name for name, key in _OF_TRACKERS.items() if run.value(f"tracking.{key}.enabled") is True)
