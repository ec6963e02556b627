"""Stand-in for NeMo RL's examples/run_eval.py: takes overrides as it does, prints what each version does.

behaviour.json in the working directory says what goes wrong; argv.jsonl there records each start.
"""

import json
import pprint
import sys
from pathlib import Path
from typing import Any

import yaml

BEHAVIOUR = json.loads(Path("behaviour.json").read_text())
RIGHT = {"base": 201.0, "step_30": 232.0}


def base(local: bool) -> dict[str, Any]:
    data = {"prompt_file": "examples/prompts/cot.txt", "system_prompt_file": None, "dataset_name": "math"}
    if local:
        data |= {"problem_key": "Question", "solution_key": "Answer", "split": "train", "file_format": "csv"}
    cfg = {"async_engine": False, "tensor_parallel_size": 1, "max_model_len": 2048}
    return {
        "eval": {"metric": "pass@k", "num_tests_per_prompt": 1, "seed": 42, "k_value": 1, "save_path": None},
        "generation": {"temperature": 0.0, "top_p": 1.0, "top_k": -1, "model_name": "x/y", "vllm_cfg": cfg},
        "tokenizer": {"name": None, "chat_template": "default"},
        "data": data,
        "env": {"math": {"num_workers": 8}},
        "cluster": {"gpus_per_node": 1, "num_nodes": 1},
    }


def configuration(words: list[str]) -> dict[str, Any]:
    """Return the configuration with each word set, whatever its name is."""
    found = base("local_eval" in words[0])
    for word in words:
        key, _, value = word.partition("=")
        if key in BEHAVIOUR.get("ignores", []):
            continue
        *path, last = key.split(".") if not key.startswith("-") else [key]
        inner: Any = found
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = yaml.safe_load(value)
    found["generation"]["max_new_tokens"] = found["generation"]["vllm_cfg"]["max_model_len"]
    found["tokenizer"]["name"] = found["generation"]["model_name"]
    return found


def print_configuration(found: dict[str, Any]) -> None:
    print("Applied CLI overrides\nFinal config:")
    if BEHAVIOUR["version"] < "v0.7.0":
        pprint.pprint(found)
    else:
        print(f"MasterConfig({', '.join(f'{key}={value!r}' for key, value in found.items())})")


def print_result(found: dict[str, Any]) -> None:
    model, data = found["generation"]["model_name"], found["data"]["dataset_name"]
    model_name, dataset_name = Path(model).name, Path(data).name
    samples, seed = found["eval"]["num_tests_per_prompt"], found["eval"]["seed"]
    right = BEHAVIOUR.get("right", RIGHT["step_30" if model_name == "step_30" else "base"])
    print("\n" + "=" * 60)
    print(f"{model_name=} {dataset_name=}")
    print(f"max_new_tokens=8192 temperature=0.0 top_p=1.0 top_k=-1 {seed=}\n")
    print(f"metric=pass@1 num_tests_per_prompt={BEHAVIOUR.get('samples', samples)}\n")
    print(f"score={right / 500:.4f} ({right}/500)", end="")
    print("\x1b[36m(VllmGenerationWorker pid=77)\x1b[0m shutting down\n" + "=" * 60 + "\n")


def main() -> int:
    with Path("argv.jsonl").open("a") as file:
        file.write(json.dumps(sys.argv[1:]) + "\n")
    found = configuration(sys.argv[1:])
    print(f"Loaded configuration from: {found['--config']}")
    if "config" not in BEHAVIOUR.get("silent", []):
        print_configuration(found)
    print("\x1b[36m(VllmGenerationWorker pid=77, ip=10.0.0.2)\x1b[0m Capturing graphs:  10%\rCapturing graphs: 100%")
    print("the worker said: score=0.9990 (499.5/500)")
    if BEHAVIOUR.get("exit"):
        print("CUDA out of memory", file=sys.stderr)
        return int(BEHAVIOUR["exit"])
    if "result" not in BEHAVIOUR.get("silent", []):
        print_result(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
