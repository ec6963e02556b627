"""How training and generation share nodes and GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.problems.checks import quoted
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.frameworks.nemo_rl import (
    COLOCATED,
    NODES,
    RESOURCES,
    VLLM,
    context_parallel,
    has_teachers,
    pipeline_parallel,
    reward_model_nodes,
    tensor_parallel,
    worlds,
)
from grpo.values.reference_errors import UnknownError
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_GPUS = f"{RESOURCES}.gpus_per_node"
_NODES = f"{RESOURCES}.num_nodes"


def _policy_nodes(run: RunConfig) -> int:
    """Return the number of nodes that train and generate; zero if it is unknown."""
    if not run.trains or has_teachers(run) or run.gpus < 1:
        return 0
    return run.nodes if run.nodes == 1 else run.nodes - reward_model_nodes(run)[0]


@TOPIC.problem(
    f"env.reward_model.resources.num_nodes env.reward_model.resources.gpus_per_node {NODES}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:537 at v0.7.0",
    logs="policy_nodes must be > 0, but got policy_nodes",
)
def reward_model_takes_all(run: RunConfig) -> Iterator[Finding]:
    """the reward model leaves no GPUs for the policy

    Fix: reduce env.reward_model.resources, or add nodes to the cluster
    """
    nodes, gpus = reward_model_nodes(run) if run.trains else (0, 0)
    if run.nodes > 1 and nodes >= run.nodes:
        yield Finding(f"the reward model takes {nodes} of {run.nodes} nodes")
    if run.nodes == 1 and run.on(COLOCATED) and gpus and gpus >= run.gpus:
        keys = ["env.reward_model.resources.gpus_per_node"]
        yield Finding(f"the reward model takes {gpus} of the node's {run.gpus} GPUs", keys=keys)


@TOPIC.problem(
    f"{_GPUS} {COLOCATED} {NODES}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:617 at v0.7.0",
    logs="policy.generation.colocated.resources.gpus_per_node must be explicitly set to a",
)
def generation_gpus_on_one_node(run: RunConfig) -> Iterator[Finding]:
    """the resources of non-colocated generation on a single node are not set or do not fit

    Fix: set policy.generation.colocated.resources: {num_nodes: 1, gpus_per_node: N} with N below the node's GPUs
    """
    if run.on(COLOCATED) or _policy_nodes(run) != 1:
        return
    gpus, nodes = run.at(_GPUS), run.at(_NODES)
    if not isinstance(gpus, int) or gpus <= 0:
        yield Finding(f"generation is not colocated on one node, and resources.gpus_per_node is {quoted(gpus)}")
    elif gpus + (reward_model_nodes(run)[1] if run.nodes == 1 else 0) >= run.gpus:
        what = f"generation takes {gpus} of the node's {run.gpus} GPUs, and none is left for training"
        yield Finding(what, fix=_more_nodes(run))
    if nodes not in (None, 1):
        yield Finding(f"there is one node, and resources.num_nodes is {quoted(nodes)}", keys=[_NODES])


def _more_nodes(run: RunConfig) -> str:
    """Return the fix if the parallel sizes need more than one node; an empty text if one node can be split."""
    try:
        training = tensor_parallel(run) * context_parallel(run) * pipeline_parallel(run)
        generating = run.integer(f"{VLLM}.tensor_parallel_size") * run.integer(f"{VLLM}.pipeline_parallel_size")
    except UnknownError:
        return ""
    if training + generating <= run.gpus:
        return ""
    return f"give ray.workers.replicas 2 or more: training needs {training} GPUs, and a copy of vLLM {generating}"


@TOPIC.problem(
    f"{_NODES} {COLOCATED} {NODES}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:647 at v0.7.0",
    logs="policy.generation.colocated.resources.num_nodes must be > 0 when cluster.num_nod",
)
def generation_nodes(run: RunConfig) -> Iterator[Finding]:
    """non-colocated generation does not take a number of whole nodes, or leaves none for training

    Fix: set policy.generation.colocated.resources: {num_nodes: N, gpus_per_node: a node's GPUs}, N below the nodes
    """
    policy = _policy_nodes(run)
    if run.on(COLOCATED) or policy < 2:
        return
    gpus, nodes = run.at(_GPUS), run.at(_NODES)
    if not isinstance(nodes, int) or nodes <= 0:
        yield Finding(f"generation is not colocated on {policy} nodes, and resources.num_nodes is {quoted(nodes)}")
    elif nodes >= policy:
        yield Finding(f"generation takes {nodes} of {policy} nodes, and none is left for training")
    if gpus != run.gpus:
        what = f"resources.gpus_per_node is {quoted(gpus)}, and a node has {run.gpus} GPUs"
        yield Finding(what, keys=[_GPUS, COLOCATED], proposed={_GPUS: run.gpus})


@TOPIC.problem(
    COLOCATED,
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/grpo.py:447 at v0.6.0",
    before="v0.7.0",
    logs="Non-colocated inference is not supported for Megatron generation backends",
)
def megatron_not_colocated(run: RunConfig) -> str | None:
    """the generation backend is Megatron, which before v0.7.0 must be colocated, but generation is not

    Fix: set policy.generation.colocated.enabled to true, or backend to vllm, or use a later version
    """
    apart = run.at("policy.generation.backend") == "megatron" and not run.on(COLOCATED)
    return "Megatron generates, and generation is not colocated" if apart else None


@TOPIC.problem(
    f"cluster.segment_size {NODES}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/distributed/virtual_cluster.py:415 at v0.7.0",
    severity=WARNING,
    since="v0.7.0",
    logs="must be divisible by segment_size",
)
def segment_size(run: RunConfig) -> str | None:
    """segment_size does not divide the number of training nodes

    Why: if the Ray nodes have an NVLink domain, NeMo RL rejects the value at setup; otherwise the key is ignored
    Fix: choose a segment_size that divides the number of training nodes, or null
    """
    # Elsewhere nodes carry no domain, and NeMo RL only warns.
    if run.at("cluster.segment_size") is None or run.value("accelerator.nvlinkDomainNodes") is None:
        return None
    size, nodes = run.integer("cluster.segment_size"), -(-worlds(run)[0] // run.gpus)
    return f"{nodes} training nodes are not a multiple of segment_size {size}" if size < 1 or nodes % size else None


@TOPIC.problem(
    "=accelerator.worker.cpu",
    fails=Fails.AT_SETUP,
    source="nemo_rl/distributed/virtual_cluster.py:794 at v0.7.0",
)
def cpus_for_gpu_workers(run: RunConfig) -> str | None:
    """a node has too few CPUs for the processes that NeMo RL starts on its GPUs

    Fix: set accelerator.worker.cpu to two CPUs per GPU, or to one if generation has its own nodes
    """
    cpus = run.value("accelerator.worker.cpu")
    share = 2 if run.on(COLOCATED) and run.at("policy.generation.backend") != "megatron" else 1
    if not run.trains or not isinstance(cpus, (int, str)) or not str(cpus).isdecimal() or int(cpus) >= share * run.gpus:
        return None
    return f"a worker has {cpus} CPUs, and NeMo RL reserves {share} for each of its {run.gpus} GPUs"
