"""Rules of NeMo RL that are plain arithmetic on a configuration; the letters are those of docs and findings.

A rule yields a sentence for what is wrong. Sources: NVIDIA-NeMo/RL v0.7.0, the file beside each rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.recipes.contract import ROWS

Found = Iterator[tuple[str, str]]


class Facts:
    """The numbers of a configuration that the rules share; a length that is not set follows the total one."""

    def __init__(self, config: dict[str, Any], version: str) -> None:
        policy, self.grpo, cluster = config["policy"], config["grpo"], config["cluster"]
        self.config, self.policy, self.dtensor = config, policy, policy["dtensor_cfg"]
        self.generation, self.vllm = policy["generation"], policy["generation"]["vllm_cfg"]
        self.older = version in ("v0.4.0", "v0.5.0")
        self.nodes, self.per_node = cluster["num_nodes"], cluster["gpus_per_node"]
        self.colocated = self.generation["colocated"]["enabled"]
        self.generating = self.nodes if self.colocated else self.generation["colocated"]["resources"]["num_nodes"] or 0
        self.training = self.nodes if self.colocated else self.nodes - self.generating
        self.ranks = self.dtensor["tensor_parallel_size"] * self.dtensor["context_parallel_size"]
        self.world = self.training * self.per_node
        self.dp = max(self.world // self.ranks, 1)
        self.rows = self.grpo["num_prompts_per_step"] * self.grpo["num_generations_per_prompt"]
        self.gbs, self.micro = policy["train_global_batch_size"], policy["train_micro_batch_size"]
        self.logprob = policy["logprob_batch_size"]
        self.packing = policy["sequence_packing"]["enabled"]
        self.dynamic = policy["dynamic_batching"]["enabled"]
        self.total = policy["max_total_sequence_length"]
        self.new = self.generation.get("max_new_tokens", self.total)
        self.model = self.vllm.get("max_model_len", self.total)
        prompt = config["data"].get("max_input_seq_length", self.total)
        self.prompt = prompt if isinstance(prompt, int) else self.total

    def dataset(self) -> str:
        """Return the name of the training set as the newest version spells it."""
        name = self.config["data"]["dataset_name"] if self.older else self.config["data"]["train"]["dataset_name"]
        path = self.config["data"].get("train_data_path", "")
        return "gsm8k" if name == "ResponseDataset" and "/gsm8k/" in path else str(name)

    def tokens(self, section: str) -> int:
        """Return what the smaller kind of micro batch of a packing section may hold."""
        given = self.policy[section]
        train = given.get("train_mb_tokens", self.total * self.micro)
        return int(min(train, given.get("logprob_mb_tokens", self.total * self.logprob)))


def batches(it: Facts) -> Found:
    """nemo_rl/distributed/batched_data_dict.py."""
    if it.rows % it.gbs:
        yield "B1", f"{it.rows} rows are no multiple of train_global_batch_size {it.gbs}"
    if it.rows % it.dp or it.gbs % it.dp:
        yield "B2", f"{it.rows} rows or {it.gbs} of an update do not divide by DP {it.dp}"
    if not it.packing and not it.dynamic and (it.gbs // it.dp % it.micro or it.rows // it.dp % it.logprob):
        yield "B3", f"{it.gbs // it.dp} and {it.rows // it.dp} rows a rank, micro {it.micro}, logprob {it.logprob}"


def microbatches(it: Facts) -> Found:
    """nemo_rl/models/policy/lm_policy.py, nemo_rl/data/packing/algorithms.py."""
    if it.packing and it.dynamic:
        yield "M1", "dynamic batching and sequence packing exclude each other"
    for name, rule in (("dynamic_batching", "M3"), ("sequence_packing", "M4")):
        if it.policy[name]["enabled"] and it.total > it.tokens(name):
            yield rule, f"a sequence of {it.total} tokens does not fit into {it.tokens(name)}"
    if it.packing and it.rows < it.dp:
        yield "M7", f"{it.rows} sequences cannot fill the bins of DP {it.dp}"


def parallelism(it: Facts) -> Found:
    """nemo_rl/models/policy/lm_policy.py."""
    if it.world % it.ranks or it.world < it.ranks:
        yield "K9", f"{it.world} GPUs train, which TP × CP {it.ranks} does not divide"
    if it.dtensor["tensor_parallel_size"] >= 4 and it.micro != it.logprob:
        yield "K10", f"TP of 4 or more wants logprob_batch_size {it.logprob} equal to train_micro_batch_size {it.micro}"
    if it.packing and it.dtensor["context_parallel_size"] > 1:
        yield "K13", "context parallelism forbids packing"


def placement(it: Facts) -> Found:
    """nemo_rl/algorithms/grpo.py, nemo_rl/models/generation/vllm/vllm_generation.py."""
    if not it.colocated:
        resources = it.generation["colocated"]["resources"]
        if not 0 < (resources["num_nodes"] or 0) < it.nodes:
            yield (
                "C8",
                f"{resources['num_nodes']} of {it.nodes} nodes generate: none is left to train, or none generates",
            )
        if it.nodes > 1 and resources["gpus_per_node"] != it.per_node:
            yield "C7", f"{resources['gpus_per_node']} GPUs of a generating node, which has {it.per_node}"
    size = it.vllm["tensor_parallel_size"] * it.vllm.get("pipeline_parallel_size", 1)
    if it.generating * it.per_node % size:
        yield "V1", f"{it.generating * it.per_node} GPUs generate, which vLLM's {size} does not divide"
    if size <= it.per_node and it.per_node % size:
        yield "V5", f"vLLM's {size} does not divide the {it.per_node} GPUs of a node"


def lengths(it: Facts) -> Found:
    """nemo_rl/models/generation/vllm; a prompt that leaves no room for an answer is wasted."""
    if not it.new <= it.total or not it.prompt <= it.model <= it.total:
        yield "W10", f"total {it.total}, new {it.new}, vLLM {it.model}, prompt {it.prompt} do not agree"
    if it.generation["top_k"] not in (None, -1):
        yield "V6", f"top_k {it.generation['top_k']} is refused before v0.6.0"
    if not 0.99 <= it.generation["top_p"] <= 1:
        yield "V7", f"top_p {it.generation['top_p']} is refused before v0.6.0"


def checkpoints(it: Facts) -> Found:
    """nemo_rl/algorithms/grpo.py, nemo_rl/models/policy/lm_policy.py."""
    section = it.config["checkpointing"]
    if section["metric_name"] not in ("val:accuracy", "train:reward"):
        yield "S3", f"metric {section['metric_name']} is none that exists"
    allowed = ("safetensors", "torch_save") if it.dtensor["_v2"] else (None,)
    if section["model_save_format"] not in allowed:
        yield "S4", f"model_save_format {section['model_save_format']} with _v2 {it.dtensor['_v2']}"
    if section["metric_name"].startswith("val:") and section["save_period"] % it.grpo["val_period"]:
        yield "W15", "a saved step without a validation counts as the worst"


def schedule(it: Facts) -> Found:
    """nemo_rl/algorithms/grpo.py."""
    train, validation = ROWS[it.dataset()]
    prompts, epochs = it.grpo["num_prompts_per_step"], it.grpo.get("max_num_epochs", 1)
    if it.grpo["val_batch_size"] > min(it.grpo["max_val_samples"], validation):
        yield "W1", f"val_batch_size {it.grpo['val_batch_size']} gives no batch"
    if train < prompts:
        yield "W2", f"{train} rows give no step of {prompts}"
    if it.grpo["max_num_steps"] > epochs * (train // prompts):
        yield "W3", f"the data end after {epochs * (train // prompts)} steps"
    data = it.config["data"]
    split = data.get("dataset_name") != "ResponseDataset" if it.older else data["train"].get("split_validation_size")
    if it.grpo["val_period"] and not (split or data.get("val_data_path") or data.get("validation")):
        yield "G1", "a validation is asked for, and there is no data set for it"


RULES = (batches, microbatches, parallelism, placement, lengths, checkpoints, schedule)


def violations(config: dict[str, Any], version: str) -> list[tuple[str, str]]:
    """Return what each rule has to say, as pairs of its letters and a sentence."""
    it = Facts(config, version)
    return [found for rule in RULES for found in rule(it)]
