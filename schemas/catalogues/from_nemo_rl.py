"""What one version of NeMo RL knows about a GRPO configuration, read from its source tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import yaml
from reads import reads
from response_datasets import MODULE as DATASETS
from response_datasets import datasets
from shapes import Annotations, Shape, Sources
from trees import below, leaves, merged, parents, values, widen

BASE = "examples/configs/grpo_math_1B.yaml"
MOVES = Path(__file__).parent / "nemo-rl/moves.yaml"
PROVISIONAL = Path(__file__).parent / "nemo-rl/provisional.yaml"
CLASSES = ("TypedDict", "BaseModel")

# Sections that reach a library as keyword arguments, or a user's own code: any key is legal. Where that is read:
OPEN = (
    "env",  # an environment of one's own takes what it wants; grpo.py hands the section over
    "logger.mlflow",  # utils/logger.py, what MLflow's client takes
    "logger.swanlab",  # utils/logger.py, swanlab.init(**…)
    "logger.tensorboard",  # utils/logger.py
    "logger.wandb",  # utils/logger.py, wandb.init(**…)
    "on_policy_distillation",  # teachers by name, each with overrides of the policy
    "policy.dtensor_cfg.automodel_kwargs",  # to the model's from_pretrained
    "policy.generation.sglang_cfg",  # to the server's arguments
    "policy.generation.vllm_kwargs",  # to vllm.LLM
    "policy.hf_config_overrides",
    "policy.hf_overrides",
    "policy.megatron_cfg.env_vars",
    "policy.megatron_cfg.optimizer",  # Megatron's OptimizerConfig(**…)
    "policy.megatron_cfg.scheduler",  # Megatron's SchedulerConfig(**…)
    "policy.optimizer.kwargs",
    "policy.reward_model_cfg",
    "policy.scheduler",  # items and maps of many shapes
    "policy.tokenizer.audio",
    "policy.tokenizer.chat_template_kwargs",
    "policy.tokenizer.video",
)

# Optional by their annotation, and read without a look whether they are there: algorithms/grpo.py, utils/checkpoint.py.
REQUIRED = {
    "checkpointing.checkpoint_must_save_by",
    "checkpointing.keep_top_k",
    "checkpointing.save_optimizer",
    "data.num_workers",
    "data.use_multiple_dataloader",
}

# The names that hold sections, wherever the code reads them.
SECTIONS = {
    "master_config": "",
    "self.master_config": "",
    "policy_config": "policy",
    "policy_cfg": "policy",
    "generation_config": "policy.generation",
    "self._generation_config": "policy.generation",
    "generation_cfg": "policy.generation",
    "vllm_cfg": "policy.generation.vllm_cfg",
    "mcore_generation_config": "policy.generation.mcore_generation_config",
    "megatron_cfg": "policy.megatron_cfg",
    "peft_cfg": "policy.megatron_cfg.peft",
    "dtensor_cfg": "policy.dtensor_cfg",
    "draft_cfg": "policy.draft",
    "tokenizer_config": "policy.tokenizer",
    "data_config": "data",
    "grpo_config": "grpo",
    "async_grpo_config": "grpo.async_grpo",
    "reward_scaling_cfg": "grpo.reward_scaling",
    "loss_config": "loss_fn",
    "logger_config": "logger",
    "cluster_config": "cluster",
    "checkpointing_config": "checkpointing",
}
_POLICY = dict.fromkeys(("config", "cfg", "self.cfg", "self._policy_config"), "policy")
_GENERATION = dict.fromkeys(("config", "cfg", "self.cfg"), "policy.generation")
# Files by pattern, what else holds a section there, and the one class to look into.
FILES: tuple[tuple[str, dict[str, str], str], ...] = (
    ("examples/run_grpo*.py", {"config": ""}, ""),
    ("nemo_rl/algorithms/grpo.py", {"config": ""}, ""),
    ("nemo_rl/algorithms/loss*/**/loss_functions.py", {"cfg": "loss_fn"}, "ClippedPGLossFn"),
    ("nemo_rl/algorithms/loss_functions.py", {"cfg": "loss_fn"}, "ClippedPGLossFn"),
    ("nemo_rl/algorithms/reward_functions.py", {"cfg": "grpo.reward_shaping"}, ""),
    ("nemo_rl/algorithms/utils.py", {}, ""),
    ("nemo_rl/algorithms/async_utils/**/*.py", {}, ""),
    ("nemo_rl/data/utils.py", {}, ""),
    ("nemo_rl/experience/**/*.py", {}, ""),
    ("nemo_rl/models/generation/*.py", _GENERATION, ""),
    ("nemo_rl/models/generation/[!m]*/**/*.py", _GENERATION, ""),
    ("nemo_rl/models/generation/megatron/**/*.py", _POLICY, ""),
    ("nemo_rl/models/policy/**/*.py", _POLICY, ""),
    ("nemo_rl/models/megatron/**/*.py", _POLICY, ""),
    ("nemo_rl/models/automodel/**/*.py", _POLICY, ""),
    ("nemo_rl/utils/checkpoint.py", {"config": "checkpointing", "self.config": "checkpointing"}, "CheckpointManager"),
)
# Keys of a text that the code compares with words, and refuses any other: the module, and the variable there.
COMPARED = {
    "loss_fn.reference_policy_kl_type": ("nemo_rl.algorithms.utils", "kl_type"),
    "policy.generation.backend": ("nemo_rl.algorithms.grpo", "backend"),
}
# A script of its own reads these classes, from v0.8.0 on; grpo.py's MasterConfig does not have their sections.
CONTROLLER = "nemo_rl.algorithms.single_controller_utils.config"
CONTROLLED = ("async_rl",)
# The base configuration carries this section, and only another backend than vLLM asks for it.
ANOTHER_BACKEND = "policy.generation.mcore_generation_config."


def catalogue(tree: Path, version: str) -> dict[str, Any]:
    """Return the catalogue of a source tree, in the order in which it is written."""
    sources, base = Sources(tree), merged(tree / BASE)
    keys, required = classes(sources)
    annotated = set(keys)
    found = set(code_reads(tree))
    for path, _ in sorted(found):
        if any(key in keys for key in parents(path)) or path in SECTIONS.values():
            keys.setdefault(path, Shape())
    for file in grpo_files(tree):
        widen(keys, merged(file), annotated)
    for path in dead(annotated):
        keys.pop(path, None)
    for path, place in COMPARED.items():
        if path in keys:
            keys[path] = Shape(words=sorted(compared(sources, *place)))
    is_open = opened(keys)
    present = {path for path, _ in values(base)}
    musts = present if is_checked(sources) else {path for path, must in found if must} & present
    return {
        "version": version,
        "vllm": engine(tree, version),
        "base": dict(leaves(base)),
        "keys": {path: keys[path].written() for path in sorted(keys) if path in present or not below(path, is_open)},
        "open": is_open,
        "required": sorted((required & musts) | (REQUIRED & present)),
        "names": names(sources) | prompts(tree),
        "datasets": datasets(sources, registry(sources, DATASETS, "DATASET_REGISTRY")),
    }


def engine(tree: Path, version: str) -> str:
    """Return the version of vLLM in a release: what its source tree asks for, unless another tree stands in for it."""
    if version in (standing_in := yaml.safe_load(PROVISIONAL.read_text("utf-8"))):
        return str(standing_in[version]["vllm"])
    found = re.search(r'"vllm==([0-9.]+)', tree.joinpath("pyproject.toml").read_text("utf-8"))
    assert found
    return found[1]


def prompts(tree: Path) -> dict[str, list[str]]:
    """Return the prompt files of the image: all, with a place for the question, and by the answer that they ask for."""
    files = sorted((tree / "examples/prompts").glob("*.txt"))
    texts = {file.relative_to(tree).as_posix(): file.read_text("utf-8") for file in files}
    return {
        "prompts": list(texts),
        "promptsWithQuestion": [name for name, text in texts.items() if "{}" in text.replace("{{}}", "")],
        "promptsForBox": [name for name, text in texts.items() if r"\boxed" in text],
        "promptsForAnswer": [name for name, text in texts.items() if "'Answer: " in text],
        "promptsForTags": [name for name, text in texts.items() if "<answer>" in text],
    }


def classes(sources: Sources) -> tuple[dict[str, Shape], set[str]]:
    """Return the shape of each path that MasterConfig leads to, and the paths without which it is not complete."""
    annotations = Annotations(sources, CLASSES)
    master = annotations.named("nemo_rl.algorithms.grpo", "MasterConfig")
    generation = master.fields["policy"].fields["generation"]
    required = set(generation.required)
    for module, name in subclasses(sources, "nemo_rl/models/generation", "GenerationConfig"):
        generation.add(annotations.named(module, name))
    # The backend decides which class is asked; all of them share these.
    generation.required = required
    entries = Shape({"map"}, fields=dict(dataset_arguments(sources, annotations)))
    for section in ("train", "validation", "default"):
        if section in master.fields["data"].fields:
            master.fields["data"].fields[section].add(entries)
    master.fields |= controlled(annotations)
    keys, required = dict(flattened(master)), set(requirements(master))
    if not is_checked(sources):
        # Nothing compares a value with its annotation there, and what may be absent is mostly read with .get().
        for path in keys.keys() - required:
            keys[path].kinds.add("null")
    return keys, {path for path in required if not path.startswith(ANOTHER_BACKEND)}


def controlled(annotations: Annotations) -> dict[str, Shape]:
    """Return the sections that only the Single Controller reads, none before it exists; a run without it has none."""
    if annotations.sources.module(CONTROLLER) is None:
        return {}
    fields = annotations.named(CONTROLLER, "MasterConfig").fields
    return {name: fields[name] for name in CONTROLLED}


def flattened(shape: Shape, path: str = "") -> Iterator[tuple[str, Shape]]:
    """Yield each path below a shape."""
    for key, inner in shape.fields.items():
        yield f"{path}{key}", inner
        yield from flattened(inner, f"{path}{key}.")


def requirements(shape: Shape, path: str = "") -> Iterator[str]:
    """Yield the paths that must be there where the section above them is."""
    for key, inner in shape.fields.items():
        if key in shape.required:
            yield f"{path}{key}"
        yield from requirements(inner, f"{path}{key}.")


def subclasses(sources: Sources, folder: str, base: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of each class of a folder that extends another one."""
    for file in sorted(sources.tree.joinpath(folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and any(
                isinstance(one, ast.Name) and one.id == base for one in node.bases
            ):
                yield ".".join(file.relative_to(sources.tree).with_suffix("").parts), node.name


def dataset_arguments(sources: Sources, annotations: Annotations) -> Iterator[tuple[str, Shape]]:
    """Yield what the classes of data sets take, where an entry of the configuration becomes their arguments."""
    for _, value in registry(sources, DATASETS, "DATASET_REGISTRY"):
        name = value.args[0] if isinstance(value, ast.Call) else value
        found = sources.find(DATASETS, name.id) if isinstance(name, ast.Name) else None
        for node in found[1].body if found and isinstance(found[1], ast.ClassDef) else ():
            if isinstance(node, ast.FunctionDef) and node.name == "__init__" and found:
                for argument in (*node.args.args[1:], *node.args.kwonlyargs):
                    shape = annotations.shape(found[0], argument.annotation) if argument.annotation else Shape({"any"})
                    yield argument.arg, shape


def code_reads(tree: Path) -> Iterator[tuple[str, bool]]:
    """Yield each path that the code reads, and whether it must be there."""
    for pattern, held, only in FILES:
        for file in sorted(tree.glob(pattern)):
            yield from reads(file, {**SECTIONS, **held}, only)
    flat = tree / (DATASETS.replace(".", "/") + "/__init__.py")
    if not any(True for _ in registry(Sources(tree), DATASETS, "DATASET_REGISTRY")):
        yield from reads(flat, {"data_config": "data"})


def grpo_files(tree: Path) -> list[Path]:
    """Return the shipped configurations that are for GRPO, the base first."""
    files = [file for file in sorted((tree / "examples").rglob("*.yaml")) if "grpo" in merged(file)]
    return sorted(files, key=lambda file: file != tree / BASE)


def dead(annotated: Collection[str]) -> Iterator[str]:
    """Yield the keys that have moved, and that a shipped configuration still writes where nothing reads them."""
    for old, new in yaml.safe_load(MOVES.read_text("utf-8")).items():
        if old not in annotated and new in annotated:
            yield old


def opened(keys: dict[str, Shape]) -> list[str]:
    """Return the paths below which any key is legal, without those that are below another one."""
    found = {path for path in OPEN if path in keys} | {path for path, shape in keys.items() if shape.is_open}
    return sorted(path for path in found if not below(path, found))


def is_checked(sources: Sources) -> bool:
    """Say whether the framework checks its configuration when it starts, which it does from v0.7.0."""
    found = sources.find("nemo_rl.algorithms.grpo", "MasterConfig")
    assert found
    assert isinstance(found[1], ast.ClassDef)
    return any(isinstance(base, ast.Name) and base.id == "BaseModel" for base in found[1].bases)


def registry(sources: Sources, module: str, name: str) -> Iterator[tuple[str, ast.expr]]:
    """Yield the entries of a dictionary that a module assigns to a name."""
    for node in ast.walk(sources.module(module) or ast.Module([], [])):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Dict):
                    pairs = zip(inner.keys, inner.values, strict=True)
                    yield from ((key.value, value) for key, value in pairs if isinstance(key, ast.Constant))  # type: ignore[misc]
                    return


def compared(sources: Sources, module: str, variable: str) -> set[str]:
    """Return the texts that a module compares a variable with: if name == "grpo"."""
    return {
        node.comparators[0].value
        for node in ast.walk(sources.module(module) or ast.Module([], []))
        if isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Name)
        and node.left.id == variable
        and isinstance(node.comparators[0], ast.Constant)
        and isinstance(node.comparators[0].value, str)
    }


def names(sources: Sources) -> dict[str, list[str]]:
    """Return the words that some keys take; a word with a * stands for many."""
    datasets = {key for key, _ in registry(sources, DATASETS, "DATASET_REGISTRY")}
    if any(
        "resolve_external_dataset_class" in ast.dump(node)
        for node in ast.walk(sources.module(DATASETS) or ast.Module([], []))
    ):
        datasets.add("*.*")
    packing = sources.find("nemo_rl.data.packing.algorithms", "PackingAlgorithm")
    lines = packing[1].body if packing and isinstance(packing[1], ast.ClassDef) else []
    found = {
        "datasets": datasets or compared(sources, DATASETS, "dataset_name"),
        "processors": {key for key, _ in registry(sources, "nemo_rl.data.processors", "PROCESSOR_REGISTRY")},
        "environments": {key for key, _ in registry(sources, "nemo_rl.environments.utils", "ENV_REGISTRY")},
        "advantageEstimators": compared(sources, "nemo_rl.algorithms.grpo", "adv_estimator_name"),
        "packingAlgorithms": {line.targets[0].id.lower() for line in lines if isinstance(line, ast.Assign)},  # type: ignore[attr-defined]
    }
    return {name: sorted(words) for name, words in found.items() if words}
