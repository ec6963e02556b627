"""The task `convert`: what it tells the frameworks' scripts, what it adds to their work, what it leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import convert
import tensors
from grpo.values import catalogue
from runtime import JobError
from tests.conftest import thin
from tests.programs import flat_folder

from . import checkpoint_files as files
from .harness import until
from .tasks import run_here, task_file

WEIGHTS = {"model.w": ("F32", [2], b"12345678"), "model.v": ("F32", [1], b"1234")}
# Does what a converter does: refuses a folder that exists, and fills it.
SCRIPT = """\
import json, os, pathlib, shutil, signal, sys, time
words = sys.argv[1:]
options = dict(zip(words[-2 * (len(words) // 2)::2], words[-2 * (len(words) // 2) + 1::2]))
out = pathlib.Path(options.get("--hf-ckpt-path") or options["--target_dir"])
assert not out.exists(), out
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps([sys.executable, os.getcwd(), *words]) + "\\n")
if "--config" in options:
    shutil.copy(options["--config"], os.environ["CALLS"] + "-config.yaml")
act = os.environ.get("ACT", "")
if act == "fail":
    out.mkdir()
    sys.exit("out of luck")
if act == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if act == "sleep":
    out.mkdir()
    time.sleep(600)
shutil.copytree(os.environ["MADE"], out)
"""


@dataclass
class Run:
    """A run on a volume, a base model, and scripts that stand in for the frameworks'."""

    tmp: Path

    def __post_init__(self) -> None:
        for name in ("run", "work/examples/converters", "packages/verl/model_merger", "bin"):
            (self.tmp / name).mkdir(parents=True)
        for name in ("convert_dcp_to_hf", "convert_megatron_to_hf"):
            (self.tmp / f"work/examples/converters/{name}.py").write_text(SCRIPT)
        (self.tmp / "packages/verl/model_merger/__main__.py").write_text(SCRIPT)
        (self.tmp / "bin/python3").symlink_to(sys.executable)
        self.model(self.tmp / "base", {"model_type": "toy", "torch_dtype": "bfloat16", "from": "base"}, WEIGHTS)
        self.model(self.tmp / "made", {"model_type": "toy", "torch_dtype": "float32", "from": "script"}, WEIGHTS)
        (self.tmp / "base/generation_config.json").write_text('{"eos_token_id": 1}')
        (self.tmp / "base/README.md").write_text("prose")
        (self.tmp / "base/model.safetensors.index.json").write_text("{}")

    def model(self, folder: Path, config: dict[str, Any], weights: dict[str, Any]) -> None:
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "tokenizer.json").write_text(json.dumps({"from": folder.name}))
        files.safetensors(folder / "model.safetensors", weights, {"format": "pt"})

    def task(self, **changes: Any) -> Path:
        task = {
            "task": "convert",
            "framework": "nemo-rl",
            "version": "v0.7.0",
            "runDirectory": str(self.tmp / "run"),
            "workingDirectory": str(self.tmp / "work"),
            "model": str(self.tmp / "base"),
            "step": "latest",
            **changes,
        }
        return task_file(task, self.tmp)

    def environment(self, more: dict[str, str] | None) -> dict[str, str]:
        return {
            "PATH": f"{self.tmp / 'bin'}:/usr/bin:/bin",
            "PYTHONPATH": str(self.tmp / "packages"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CALLS": str(self.tmp / "calls"),
            "MADE": str(self.tmp / "made"),
            **(more or {}),
        }

    def start(self, python: str = sys.executable, environment: dict[str, str] | None = None, **changes: Any) -> Any:
        """Start the program in a process of its own."""
        return subprocess.Popen(
            [python, str(flat_folder() / "convert.py"), str(self.task(**changes))],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **self.environment(environment)},
        )

    def convert(self, environment: dict[str, str] | None = None, hub: str = "", **changes: Any) -> tuple[int, str]:
        """Run the program in this process, and only the script of the framework in another; `hub` is a library."""
        library = types.ModuleType("huggingface_hub")
        exec(hub, vars(library))  # noqa: S102  one of ours
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "huggingface_hub", library)
            done = run_here("convert", self.task(**changes), **self.environment(environment))
        return done.code, done.output + done.errors

    def calls(self) -> list[list[str]]:
        path = self.tmp / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def hf(self) -> Path:
        return self.tmp / "run/hf"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_dtensor_weights_are_converted_by_the_versions_script(run: Run) -> None:
    step = files.nemo_rl(run.tmp / "run", 30, value=0.5)
    (step / "policy/tokenizer").mkdir()
    (step / "policy/tokenizer/tokenizer.json").write_text('{"from": "checkpoint"}')
    (step / "policy/tokenizer/chat_template.jinja").write_text("{{ messages }}")
    process = run.start()
    output, _ = process.communicate(timeout=120)
    assert (process.returncode, output.splitlines()[-1]) == (0, f"grpo: converted: {run.hf}/step_30")
    ((_, directory, *words),) = run.calls()
    assert directory == str(run.tmp / "work")
    assert words[:4] == ["--config", str(step / "config.yaml"), "--dcp-ckpt-path", str(step / "policy/weights")]
    found = {path.name for path in (run.hf / "step_30").iterdir()}
    assert found == {
        *("model.safetensors", "config.json", "tokenizer.json"),
        *("chat_template.jinja", "generation_config.json", "grpo.json"),
    }
    assert read(run.hf / "step_30/tokenizer.json") == {"from": "checkpoint"}
    assert read(run.hf / "step_30/config.json")["from"] == "script"
    assert os.listdir(run.hf) == ["step_30"]


@pytest.mark.parametrize("kind", ["dcp", "megatron"])
def test_a_step_saved_with_a_local_copy_gets_its_models_original_name_back(run: Run, kind: str) -> None:
    """NeMo RL saves the name of the copy (job.stage), which exists only on the nodes of that run."""
    step = files.nemo_rl(run.tmp / "run", 30, kind=kind)
    copy = "/scratch/grpo-models/0123456789ab/toy"
    saved = f"policy:\n  model_name: {copy}\n  tokenizer: {{name: {copy}}}\n  generation: {{model_name: {copy}}}\n"
    (step / "config.yaml").write_text(saved)
    code, output = run.convert()
    assert code == 0, output
    ((_, _, *words),) = run.calls()
    given = Path(words[words.index("--config") + 1])
    name = str(run.tmp / "base")
    assert yaml.safe_load((run.tmp / "calls-config.yaml").read_text()) == {
        "policy": {"model_name": name, "tokenizer": {"name": name}, "generation": {"model_name": name}}
    }
    assert not given.exists()
    assert (step / "config.yaml").read_text() == saved


def test_config_entries_that_the_script_drops_are_restored(run: Run) -> None:
    step = files.nemo_rl(run.tmp / "run", 30)
    with (step / "config.yaml").open("a") as config:
        config.write("  precision: bfloat16\n  hf_config_overrides:\n    rope_scaling: {factor: 8.0}\n")
    made = {"model_type": "toy", "torch_dtype": "float32", "rope_scaling": {"kind": "yarn"}, "text_config": {}}
    made["text_config"] = {"dtype": "float32"}
    (run.tmp / "made/config.json").write_text(json.dumps(made))
    assert run.convert()[0] == 0
    config = read(run.hf / "step_30/config.json")
    assert config["rope_scaling"] == {"kind": "yarn", "factor": 8.0}
    assert (config["torch_dtype"], config["text_config"]["dtype"]) == ("bfloat16", "bfloat16")


def test_megatron_weights_are_converted_by_the_python_that_has_megatron(run: Run) -> None:
    step = files.nemo_rl(run.tmp / "run", 30, kind="megatron")
    python = run.tmp / "venvs/nemo_rl.models.policy.workers.megatron_policy_worker.MegatronPolicyWorker/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    assert run.convert(environment={"NEMO_RL_VENV_DIR": str(run.tmp / "venvs")})[0] == 0
    ((executable, _, *words),) = run.calls()
    assert executable == str(python)
    assert words[2:4] == ["--megatron-ckpt-path", str(step / "policy/weights/iter_0000000")]


def test_verl_weights_are_converted_by_verls_merger(run: Run) -> None:
    step = files.verl(run.tmp / "run", 10)
    (step / "actor/huggingface/special_tokens_map.json").write_text("{}")
    code, output = run.convert(framework="verl", version="0.7.1")
    assert (code, output.splitlines()[-1]) == (0, f"grpo: converted: {run.hf}/global_step_10")
    ((_, _, *words),) = run.calls()
    assert words[:5] == ["merge", "--backend", "fsdp", "--local_dir", str(step / "actor")]
    assert (run.hf / "global_step_10/special_tokens_map.json").exists()


@pytest.mark.parametrize("framework", ["nemo-rl", "verl"])
def test_a_model_stored_in_the_checkpoint_is_copied(run: Run, framework: str) -> None:
    if framework == "verl":
        ready, name = files.verl(run.tmp / "run", 10) / "actor/huggingface", "global_step_10"
    else:
        step = files.nemo_rl(run.tmp / "run", 10, kind="consolidated")
        ready, name = step / "policy/weights/model/consolidated", "step_10"
    shutil.rmtree(ready)
    shutil.copytree(run.tmp / "made", ready)
    assert run.convert(framework=framework)[0] == 0
    assert run.calls() == []
    assert (run.hf / name / "model.safetensors").read_bytes() == (ready / "model.safetensors").read_bytes()


@pytest.mark.full
def test_only_a_valid_result_is_reused(run: Run) -> None:
    step = files.nemo_rl(run.tmp / "run", 30)
    assert run.convert()[0] == 0
    assert "was converted from this checkpoint already" in run.convert()[1]
    assert len(run.calls()) == 1
    result = run.hf / "step_30"
    damages: list[Callable[[], object]] = [
        (result / "tokenizer.json").unlink,
        (result / "model.safetensors").unlink,
        # The same step, trained and saved once more.
        lambda: os.utime(step / "training_info.json", (1, 1)),
    ]
    for count, damage in enumerate(damages, 2):
        damage()
        assert run.convert()[0] == 0
        assert len(run.calls()) == count
        assert {path.name for path in result.iterdir()} >= {"tokenizer.json", "grpo.json"}
    assert os.listdir(run.hf) == ["step_30"]


def test_a_result_outlives_its_checkpoint(run: Run) -> None:
    step = files.nemo_rl(run.tmp / "run", 30)
    assert run.convert()[0] == 0
    shutil.rmtree(step)
    code, output = run.convert(step="30")
    assert (code, output.splitlines()[-1]) == (0, f"grpo: converted: {run.hf}/step_30")
    code, output = run.convert(step="40")
    assert code == 1
    assert "there is no step 40" in output


@pytest.mark.parametrize(
    ("act", "message"),
    [
        ("fail", "convert_dcp_to_hf.py ended with exit code 1; its output above says why"),
        (
            "kill",
            "convert_dcp_to_hf.py was killed, probably out of memory: the weights have 0.0 GiB; raise ray.head.memory, "
            "or accelerator.worker.memory for a head with GPUs",
        ),
    ],
)
def test_a_failing_script_leaves_nothing_behind(run: Run, act: str, message: str) -> None:
    files.nemo_rl(run.tmp / "run", 30)
    (run.hf / ".step_30.new").mkdir(parents=True)
    code, output = run.convert(environment={"ACT": act})
    assert code == 1
    assert output.splitlines()[-1] == f"grpo: failed: examples/converters/{message}"
    assert os.listdir(run.hf) == []


def test_a_signal_stops_the_script_and_leaves_nothing_behind(run: Run) -> None:
    files.nemo_rl(run.tmp / "run", 30)
    process = run.start(environment={"ACT": "sleep"})
    until((run.hf / ".step_30.new").exists, "the script makes its folder")
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in output
    assert os.listdir(run.hf) == []


def empty(path: Path) -> None:
    path.write_text("{}")


@pytest.mark.parametrize(
    ("change", "message"),
    thin(
        [
            (lambda run: (run.tmp / "work").rename(run.tmp / "gone"), "work: No such file or directory"),
            (lambda run: empty(run.tmp / "made/config.json"), "config.json is missing or has no model_type"),
            (lambda run: (run.tmp / "made/model.safetensors").unlink(), "weights are missing or cut off"),
            (
                lambda run: [(run.tmp / name / "tokenizer.json").unlink() for name in ("made", "base")],
                "it has no tokenizer",
            ),
            (
                lambda run: (run.tmp / "made/config.json").write_text('{"model_type": "gemma3", "vision_config": {}}'),
                "the model takes images and the folder has no preprocessor_config.json",
            ),
            (
                lambda run: (run.tmp / "made/model.safetensors.index.json").write_text(
                    '{"weight_map": {"model.u": "model.safetensors"}}'
                ),
                "model.safetensors lacks model.u",
            ),
            (
                lambda run: files.safetensors(run.tmp / "base/model.safetensors", {"w": ("F32", [3], bytes(12))}, {}),
                "w has shape [2], and [3] in the base model: a file is missing",
            ),
        ],
        3,
    ),
)
def test_an_unusable_result_is_rejected(run: Run, change: Any, message: str) -> None:
    files.nemo_rl(run.tmp / "run", 30)
    change(run)
    code, output = run.convert()
    assert code == 1
    assert message in output.splitlines()[-1]
    assert "Traceback" not in output
    assert os.listdir(run.hf) == []


def test_an_image_model_gets_the_base_models_processor(run: Run) -> None:
    files.nemo_rl(run.tmp / "run", 30)
    (run.tmp / "made/config.json").write_text('{"model_type": "gemma3", "vision_config": {}}')
    (run.tmp / "base/preprocessor_config.json").write_text('{"size": 896}')
    assert run.convert()[0] == 0
    assert read(run.hf / "step_30/preprocessor_config.json") == {"size": 896}


def test_an_unknown_dtype_is_rejected_with_a_clear_message(run: Run) -> None:
    files.nemo_rl(run.tmp / "run", 30, kind="safetensors")
    code, output = run.convert(dtype="float7")
    assert (code, run.calls()) == (1, [])
    assert output == "grpo: failed: dtype is 'float7', expected bfloat16, float16, float32 or nothing\n"


def test_an_adapter_is_rejected_with_a_clear_message(run: Run) -> None:
    files.nemo_rl(run.tmp / "run", 30, kind="lora")
    code, output = run.convert()
    assert (code, "merge an adapter with convert_lora_to_hf.py" in output) == (1, True)


HUB = """\
import json, os, pathlib
def snapshot_download(model, local_files_only=False, allow_patterns=None, ignore_patterns=None):
    with open(os.environ["ASKED"], "a") as file:
        file.write(json.dumps([model, local_files_only, allow_patterns]) + "\\n")
    if os.environ["HUB"] == "cache" or (os.environ["HUB"] == "online" and not local_files_only):
        return os.environ["BASE"]
    raise OSError("no way to the hub\\nmore lines")
"""


@pytest.mark.parametrize(("hub", "asked"), thin([("cache", 1), ("online", 2), ("none", 2)], 3))
def test_the_cache_is_tried_first_for_the_base_model(run: Run, hub: str, asked: int) -> None:
    files.nemo_rl(run.tmp / "run", 30)
    log = run.tmp / "asked"
    environment = {"HUB": hub, "BASE": str(run.tmp / "base"), "ASKED": str(log)}
    code, output = run.convert(model="example/toy", hub=HUB, environment=environment)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line[:2] for line in lines] == [["example/toy", True], ["example/toy", False]][:asked]
    # Weights are never downloaded here.
    assert all(line[2] and not any("safetensors" in word for word in line[2]) for line in lines[1:])
    # The script has written configuration and tokenizer, so that the result can be used without.
    assert code == 0, output
    assert (run.hf / "step_30/generation_config.json").exists() == (hub != "none")
    assert ("warning: cannot download example/toy: no way to the hub\n" in output) == (hub == "none")


def test_shards_with_gaps_or_overlaps_are_rejected(tmp_path: Path) -> None:
    def pieces(*parts: tuple[list[int], list[int]]) -> Any:
        shutil.rmtree(tmp_path, ignore_errors=True)
        for number, (offsets, shape) in enumerate(parts):
            info = {"DCP_SHARDING_INFO": json.dumps({"w": {"saved_offsets": offsets}})}
            data = bytes(shape[0] * shape[1])
            files.safetensors(tmp_path / f"shard-{number}.safetensors", {"w": ("U8", shape, data)}, info)
        return tensors.Pieces(tmp_path)

    assert pieces(([0, 0], [2, 3]), ([2, 0], [1, 3])).shapes == {"w": [3, 3]}
    assert pieces(([0, 0], [2, 3]), ([0, 3], [2, 1]), ([2, 0], [0, 4])).shapes == {"w": [2, 4]}
    for parts in ((([0, 0], [2, 3]), ([3, 0], [1, 3])), (([0, 0], [1, 1]), ([1, 1], [1, 1]))):
        with pytest.raises(JobError, match="the shards of w leave a gap: a file of a rank is missing"):
            pieces(*parts)
    with pytest.raises(JobError, match="the shards of w overlap: the folder has files of two saves"):
        pieces(([0, 0], [2, 3]), ([1, 0], [2, 3]))


def test_files_are_filled_in_order_up_to_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "FILE_BYTES", 10)
    assert list(tensors.files_of({"a": 4, "b": 6, "c": 1, "d": 20, "e": 1})) == [["a", "b"], ["c"], ["d"], ["e"]]


def test_the_program_starts_without_any_library() -> None:
    code = f"import sys; sys.path.insert(0, {str(flat_folder())!r}); import checkpoints, tensors, base_names, convert"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


NEMO_RL_SOURCES, VERL_SOURCES = (os.environ.get(f"GRPO_{name}_SOURCES", "") for name in ("NEMO_RL", "VERL"))
# Runs parse_args of a script, and nothing else of it: what it imports is not here.
PARSE = """\
import argparse, ast, json, sys
source = ast.parse(open(sys.argv[1]).read())
body = [part for part in source.body if isinstance(part, ast.FunctionDef) and part.name == "parse_args"]
names = {"argparse": argparse}
exec(compile(ast.Module(body, []), sys.argv[1], "exec"), names)
del sys.argv[1]
print(json.dumps(vars(names["parse_args"]())))
"""


def parsed(script: Path, words: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PARSE, str(script), *words], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    given: dict[str, Any] = json.loads(done.stdout)
    return given


@pytest.mark.skipif(not NEMO_RL_SOURCES, reason="needs GRPO_NEMO_RL_SOURCES, a folder with nrl-v0.7.0 and so on")
@pytest.mark.parametrize("version", catalogue.versions("nemo-rl"))
def test_the_real_nemo_rl_scripts_accept_our_arguments(tmp_path: Path, version: str) -> None:
    step = files.nemo_rl(tmp_path, 30, kind="megatron")
    tree = Path(NEMO_RL_SOURCES) / f"nrl-{version}"
    for command, key, weights in (
        (convert.dcp_command, "dcp_ckpt_path", step / "policy/weights"),
        (convert.megatron_command, "megatron_ckpt_path", step / "policy/weights/iter_0000000"),
    ):
        _, script, *words = command(step / "config.yaml", step, tmp_path / "out")
        given = parsed(tree / script, words)
        expected = {"config": step / "config.yaml", key: weights, "hf_ckpt_path": tmp_path / "out"}
        assert {name: value for name, value in given.items() if value} == {
            name: str(value) for name, value in expected.items()
        }


@pytest.mark.skipif(not VERL_SOURCES, reason="needs GRPO_VERL_SOURCES, a folder with verl-v0.9.1 and so on")
@pytest.mark.parametrize("version", catalogue.versions("verl"))
@pytest.mark.parametrize("backend", ["fsdp", "megatron"])
def test_the_real_verl_merger_accepts_our_arguments(tmp_path: Path, version: str, backend: str) -> None:
    step = files.verl(tmp_path, 10)
    merger = Path(VERL_SOURCES) / f"verl-v{version}/verl/model_merger"
    _, _, module, *words = convert.verl_command(step, tmp_path / "out", backend)
    assert module == "verl.model_merger"
    assert (merger / "__main__.py").is_file()
    given = parsed(merger / "base_model_merger.py", words)
    assert {name: value for name, value in given.items() if value} == {
        "operation": "merge",
        "backend": backend,
        "local_dir": str(step / "actor"),
        "target_dir": str(tmp_path / "out"),
    }
