"""A toy that two real processes saved with torch comes out of the task `convert` as it was before it was sharded."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import checkpoints
from grpo.values import catalogue

from . import checkpoint_files as files
from .test_convert import Run, run
from .torch_python import torch_python

__all__ = ["run"]

pytestmark = pytest.mark.full
HERE = Path(__file__).parent
SOURCES = os.environ.get("GRPO_NEMO_RL_SOURCES", "")
VERSIONS = catalogue.versions("nemo-rl")
# Compares a folder of safetensors with what was sharded: names, types, every bit.
COMPARE = """\
import sys, torch
from pathlib import Path
from safetensors.torch import load_file
expected = torch.load(sys.argv[1])
files = sorted(Path(sys.argv[2]).glob("*.safetensors"))
found = {name: tensor for file in files for name, tensor in load_file(file).items()}
for name, tensor in expected.items():
    if len(sys.argv) > 3 and tensor.is_floating_point():
        tensor = tensor.to(getattr(torch, sys.argv[3]))
    # Its own merge knows no integers and loses a tensor without dimensions.
    if sys.argv[2].endswith("merged") and (not tensor.is_floating_point() or not tensor.dim()):
        found.pop(name, None)
        continue
    assert found[name].dtype == tensor.dtype, name
    assert torch.equal(found.pop(name), tensor), name
assert not found, sorted(found)
print(len(expected), "equal")
"""
# What the script of NeMo RL does with the weights, in our words: for machines without its source.
STAND_IN = """\
import sys, torch
from pathlib import Path
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
out = Path(options["--hf-ckpt-path"])
out.mkdir()
dcp_to_torch_save(options["--dcp-ckpt-path"], out / "pytorch_model.bin")
torch.save(torch.load(out / "pytorch_model.bin")["model"], out / "pytorch_model.bin")
"""
TRANSFORMERS = """\
import json, pathlib
class Saved:
    def __init__(self, name, **overrides):
        self.about = {"model_type": "toy", "name": str(name), **overrides}
    def save_pretrained(self, folder):
        (pathlib.Path(folder) / self.file).write_text(json.dumps(self.about))
    @classmethod
    def from_pretrained(cls, name, trust_remote_code=False, **overrides):
        return cls(name, **overrides)
class AutoConfig(Saved):
    file = "config.json"
class AutoTokenizer(Saved):
    file = "tokenizer.json"
"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    subprocess.run([torch_python(), str(HERE / "torch_save.py"), str(folder)], check=True, timeout=300)
    return folder


def step_of(run: Run, toy: Path, kind: str, saved: str) -> Path:
    """Put the toy's weights where a NeMo RL step of this format has them."""
    step = files.nemo_rl(run.tmp / "run", 30, kind=kind)
    weights = step / "policy/weights" / ("" if kind == "dcp" else "model")
    shutil.rmtree(weights)
    shutil.copytree(toy / saved, weights)
    (run.tmp / "base/model.safetensors").unlink()
    (run.tmp / "bin/python3").unlink()
    # A link to a Python of a virtual environment is no Python of that environment.
    (run.tmp / "bin/python3").write_text(f'#!/bin/sh\nexec {torch_python()} "$@"\n')
    (run.tmp / "bin/python3").chmod(0o755)
    return step


def convert(run: Run, **changes: Any) -> str:
    process = run.start(str(torch_python()), **changes)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return str(output)


def compare(toy: Path, folder: Path, *dtype: str) -> None:
    words = [torch_python(), "-c", COMPARE, str(toy / "expected.pt"), str(folder), *dtype]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "11 equal\n"


@pytest.mark.parametrize("dtype", ["", "bfloat16"])
def test_safetensors_shards_are_merged_into_one_model(run: Run, toy: Path, dtype: str) -> None:
    step = step_of(run, toy, "safetensors", "shards")
    metadata = step / "policy/weights/model/.hf_metadata"
    metadata.mkdir()
    (metadata / "config.json").write_text('{"model_type": "toy", "from": "checkpoint"}')
    (metadata / "fqn_to_file_index_mapping.json").write_text('{"model.odd.weight": 1, "lm_head.weight": 1}')
    convert(run, dtype=dtype)
    compare(toy, run.hf / "step_30", *([dtype] if dtype else []))
    assert json.loads((run.hf / "step_30/config.json").read_text())["from"] == "checkpoint"
    index = json.loads((run.hf / "step_30/model.safetensors.index.json").read_text())
    assert set(index["weight_map"].values()) == {"model-00001-of-00001.safetensors"}
    assert not (run.hf / "step_30/fqn_to_file_index_mapping.json").exists()


def test_torch_itself_merges_the_shards_to_the_same_tensors(toy: Path) -> None:
    compare(toy, toy / "merged")


@pytest.mark.parametrize("lost", ["shard-00001", "shard-00002"])
def test_a_missing_shard_is_detected(run: Run, toy: Path, lost: str) -> None:
    step = step_of(run, toy, "safetensors", "shards")
    files.safetensors(run.tmp / "base/model.safetensors", {"model.odd.weight": ("F32", [5, 6], bytes(120))}, {})
    (step / f"policy/weights/model/{lost}-model-00001-of-00001.safetensors").unlink()
    process = run.start(str(torch_python()))
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 1
    expected = "leave a gap" if lost == "shard-00001" else "odd.weight has shape [3, 6], and [5, 6] in the base model"
    assert expected in output.splitlines()[-1]
    assert os.listdir(run.hf) == []


def test_a_tensor_missing_from_every_shard_is_detected(run: Run, toy: Path) -> None:
    step = step_of(run, toy, "safetensors", "shards")
    (step / "policy/weights/model/.hf_metadata").mkdir()
    mapping = '{"model.odd.weight": 1, "model.other.weight": 1}'
    (step / "policy/weights/model/.hf_metadata/fqn_to_file_index_mapping.json").write_text(mapping)
    process = run.start(str(torch_python()))
    output, _ = process.communicate(timeout=300)
    assert (process.returncode, "the first is model.other.weight" in output.splitlines()[-1]) == (1, True)


def test_a_dcp_checkpoint_is_converted_by_a_script(run: Run, toy: Path) -> None:
    step_of(run, toy, "dcp", "v1")
    (run.tmp / "work/examples/converters/convert_dcp_to_hf.py").write_text(STAND_IN)
    convert(run)
    compare(toy, run.hf / "step_30")
    assert not (run.hf / "step_30/pytorch_model.bin").exists()


@pytest.mark.parametrize(("kind", "saved"), [("dcp", "v1"), ("dcp-v2", "v2")])
def test_torch_metadata_gives_the_length_of_each_file(run: Run, toy: Path, kind: str, saved: str) -> None:
    """checkpoints.py reads it without torch; a file that lacks its last byte is not whole."""
    step = step_of(run, toy, kind, saved)
    assert [one.reason for one in checkpoints.list_checkpoints(run.tmp / "run")] == [""]
    for file in sorted(step.rglob("*.distcp")):
        whole = file.read_bytes()
        file.write_bytes(whole[:-1])
        (found,) = checkpoints.list_checkpoints(run.tmp / "run")
        assert f"{file.name} is cut off: it has {len(whole) - 1} of {len(whole)} bytes" in found.reason
        file.write_bytes(whole)


@pytest.mark.parametrize("version", VERSIONS[1:2])
def test_a_dcp_checkpoint_that_the_versions_script_cannot_read_is_converted_without_it(
    run: Run, toy: Path, version: str
) -> None:
    step_of(run, toy, "dcp-v2", "v2")
    convert(run, version=version)
    compare(toy, run.hf / "step_30")
    assert run.calls() == []


@pytest.mark.skipif(
    not SOURCES, reason="needs GRPO_NEMO_RL_SOURCES, a folder with the source trees nrl-v0.4.0 to nrl-v0.8.0"
)
@pytest.mark.parametrize(("kind", "saved"), [("dcp", "v1"), ("dcp-v2", "v2")])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_dcp_checkpoint_is_converted_by_the_real_script(
    run: Run, toy: Path, version: str, kind: str, saved: str
) -> None:
    """The script of the version runs for real, with a stand-in for transformers only."""
    step_of(run, toy, kind, saved)
    tree = Path(SOURCES) / f"nrl-{version}"
    (run.tmp / "packages/transformers.py").write_text(TRANSFORMERS)
    output = convert(
        run,
        version=version,
        workingDirectory=str(tree),
        environment={"PYTHONPATH": f"{run.tmp / 'packages'}:{tree}"},
    )
    compare(toy, run.hf / "step_30")
    ran = "Saved HF checkpoint to:" in output
    assert ran == (kind == "dcp" or version in VERSIONS[2:])
