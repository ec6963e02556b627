"""Read a NeMo RL GRPO configuration, from v0.4.0 on: its keys, GPUs, parallel sizes and batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.values import row_counts
from grpo.values.frameworks.model import Model
from grpo.values.reference_errors import UnknownError

if TYPE_CHECKING:
    from grpo.values.config import RunConfig

# The cluster's size follows from these.
NODES: Final = "=job.nodes =ray.workers.replicas"
PROMPTS: Final = "grpo.num_prompts_per_step"
GENERATIONS: Final = "grpo.num_generations_per_prompt"
GLOBAL_BATCH: Final = "policy.train_global_batch_size"
MICRO_BATCH: Final = "policy.train_micro_batch_size"
LOGPROB_BATCH: Final = "policy.logprob_batch_size"
DTENSOR: Final = "policy.dtensor_cfg"
MEGATRON: Final = "policy.megatron_cfg"
PACKING: Final = "policy.sequence_packing.enabled"
DYNAMIC: Final = "policy.dynamic_batching.enabled"
GENERATION: Final = "policy.generation"
COLOCATED: Final = "policy.generation.colocated.enabled"
RESOURCES: Final = "policy.generation.colocated.resources"
VLLM: Final = "policy.generation.vllm_cfg"
CONTROLLER: Final = "async_rl"


def model_of(run: RunConfig) -> Model:
    """Return the model to be trained."""
    return Model(run.at("policy.model_name"), run.at("policy.hf_config_overrides"))


def is_vllm(run: RunConfig) -> bool:
    """Return whether vLLM generates, rather than another backend."""
    return bool(run.at(f"{GENERATION}.backend") == "vllm")


def is_megatron(run: RunConfig) -> bool:
    """Return whether Megatron trains, rather than DTensor."""
    return run.on(f"{MEGATRON}.enabled")


def is_v2(run: RunConfig) -> bool:
    """Return whether the second version of the DTensor worker trains."""
    return not is_megatron(run) and run.on(f"{DTENSOR}._v2")


def is_controlled(run: RunConfig) -> bool:
    """Return whether the Single Controller trains: the chart starts its script if this section is set."""
    return run.since("v0.8.0") and run.on(CONTROLLER)


def validates(run: RunConfig) -> bool:
    """Return whether a run validates at all."""
    at_end = run.since("v0.6.0") and run.on("grpo.val_at_end")
    return run.number("grpo.val_period") > 0 or run.on("grpo.val_at_start") or at_end


def rows(run: RunConfig) -> int:
    """Return the number of answers that each step trains on."""
    return run.integer(PROMPTS) * run.integer(GENERATIONS)


def tensor_parallel(run: RunConfig) -> int:
    """Return the tensor parallel size of training."""
    path = f"{MEGATRON}.tensor_model_parallel_size" if is_megatron(run) else f"{DTENSOR}.tensor_parallel_size"
    return _positive(run.integer(path))


def needs_equal_micro_batches(run: RunConfig) -> bool:
    """Return whether training and log probabilities must have the same micro batch size, as required from TP 4 on."""
    is_off = run.variable("NRL_IGNORE_TP_ACCURACY_CHECK") or run.on("loss_fn.force_on_policy_ratio")
    return run.since("v0.6.0") and tensor_parallel(run) >= 4 and not is_off and run.has(LOGPROB_BATCH)


def context_parallel(run: RunConfig) -> int:
    """Return the context parallel size of training."""
    return _positive(run.integer(f"{MEGATRON if is_megatron(run) else DTENSOR}.context_parallel_size"))


def pipeline_parallel(run: RunConfig) -> int:
    """Return the pipeline parallel size of training; DTensor has none."""
    return _positive(run.integer(f"{MEGATRON}.pipeline_model_parallel_size")) if is_megatron(run) else 1


def reward_model_nodes(run: RunConfig) -> tuple[int, int]:
    """Return the number of nodes for a separate reward model, and the GPUs on each; zeros if there is none."""
    if not _has_reward_model(run):
        return 0, 0
    place = "env.reward_model.resources"
    return run.integer(f"{place}.num_nodes"), run.integer(f"{place}.gpus_per_node")


def _has_reward_model(run: RunConfig) -> bool:
    """Return whether there is a reward model: v0.4.0 has a switch, later versions look for its name in the data."""
    if not run.since("v0.5.0"):
        return run.on("env.reward_model.enabled")
    return "reward_model" in environments(run)


def environments(run: RunConfig) -> dict[str, str]:
    """Return the environments that NeMo RL starts, each with the key that names it; lists of data sets name none."""
    sections = ("data.default", "data.train", "data.validation") if run.since("v0.6.0") else ("data",)
    named = {f"{path}.env_name": run.at(f"{path}.env_name") for path in sections}
    return {name: key for key, name in reversed(named.items()) if isinstance(name, str)}


def data_sections(run: RunConfig) -> list[tuple[str, dict[str, object]]]:
    """Return each data set's path and settings, with their defaults; before v0.6.0 there is one flat section."""
    data = run.at("data")
    if not isinstance(data, dict):
        return []
    if not run.since("v0.6.0"):
        return [("data", data)]
    default = data.get("default")
    shared = default if isinstance(default, dict) else {}
    found = []
    for name in ("train", "validation"):
        given = data.get(name)
        for section in given if isinstance(given, list) else [given]:
            if isinstance(section, dict):
                found.append((f"data.{name}", {**shared, **section}))
    return found


def train_files(run: RunConfig) -> list[str]:
    """Return the files that the run trains on, as the configuration names them."""
    keys = ("data_path",) if run.since("v0.6.0") else ("train_data_path",)
    sections = [section for path, section in data_sections(run) if path != "data.validation"]
    return [str(section[key]) for section in sections for key in keys if section.get(key)]


def steps_of_rows(run: RunConfig) -> int | None:
    """Return the steps that the counted rows of the run's only data set give in its epochs; None if nobody has."""
    files = train_files(run)
    rows = row_counts.of(files[0]) if len(files) == 1 and not run.on("data.use_multiple_dataloader") else None
    prompts = run.integer("grpo.num_prompts_per_step")
    if rows is None or prompts < 1 or run.at("grpo.max_num_epochs") is None:
        return None
    return run.integer("grpo.max_num_epochs") * (rows // prompts)


def worlds(run: RunConfig) -> tuple[int, int]:
    """Return how many GPUs train and how many generate; raise UnknownError if the cluster cannot be split."""
    if not run.trains or has_teachers(run):
        raise UnknownError("the nodes of the training")
    reward_nodes, reward_gpus = reward_model_nodes(run)
    nodes, gpus = run.nodes, run.gpus
    policy_nodes = nodes if nodes == 1 else nodes - reward_nodes
    if run.on(COLOCATED):
        each = gpus - reward_gpus if nodes == 1 else gpus
        return _positive(policy_nodes * each), _positive(policy_nodes * each)
    wanted = run.integer(f"{RESOURCES}.gpus_per_node")
    if policy_nodes == 1:
        return _positive(gpus - wanted - (reward_gpus if nodes == 1 else 0)), _positive(wanted)
    generating = _positive(run.integer(f"{RESOURCES}.num_nodes"))
    return _positive((policy_nodes - generating) * gpus), generating * _positive(wanted)


def has_teachers(run: RunConfig) -> bool:
    """Return whether distillation teachers use separate nodes, whose number is not computed here."""
    return run.since("v0.7.0") and run.on("on_policy_distillation.non_colocated_teachers.enabled")


def data_parallel(run: RunConfig) -> int:
    """Return the data parallel size of training; raise UnknownError if the GPUs cannot be divided."""
    world = worlds(run)[0]
    parts = tensor_parallel(run) * context_parallel(run) * pipeline_parallel(run)
    if world % parts:
        raise UnknownError(f"how to split {world} training GPUs by {_sizes(run)}")
    return world // parts


def split(run: RunConfig) -> str:
    """Describe how the data parallel size is computed, for a message."""
    world = worlds(run)[0]
    return f"{world} training GPUs / ({_sizes(run)}) = data parallel size {data_parallel(run)}"


def _sizes(run: RunConfig) -> str:
    """Name the sizes that divide the training GPUs, for a message."""
    return f"TP {tensor_parallel(run)} × CP {context_parallel(run)} × PP {pipeline_parallel(run)}"


def _positive(number: int) -> int:
    if number < 1:
        raise UnknownError("a size")
    return number
