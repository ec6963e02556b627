"""A converted model has the tensor names of its base model, or is refused: what a server loads are names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import base_names
import tensors
from runtime import JobError

from . import checkpoint_files as files
from .test_convert import Run, run

__all__ = ["run"]

Weights = dict[str, tuple[str, list[int], bytes]]


def named(*names: str) -> Weights:
    """Return a tensor of two bytes for each name, each with other bytes."""
    return {name: ("U8", [2], bytes([number, number + 100])) for number, name in enumerate(names)}


# Gemma 3 27B on the Hub, and as NeMo RL v0.7.0 saves it with transformers 5.8.1.
BASE = named(
    "language_model.model.embed_tokens.weight",
    "language_model.model.layers.0.self_attn.q_proj.weight",
    "language_model.model.norm.weight",
    "multi_modal_projector.mm_soft_emb_norm.weight",
    "vision_tower.vision_model.embeddings.patch_embedding.weight",
    "vision_tower.vision_model.encoder.layers.0.self_attn.q_proj.weight",
    "vision_tower.vision_model.post_layernorm.bias",
)
SAVED = named(
    "model.language_model.embed_tokens.weight",
    "model.language_model.layers.0.self_attn.q_proj.weight",
    "model.language_model.norm.weight",
    "model.multi_modal_projector.mm_soft_emb_norm.weight",
    "model.vision_tower.embeddings.patch_embedding.weight",
    "model.vision_tower.encoder.layers.0.self_attn.q_proj.weight",
    "model.vision_tower.post_layernorm.bias",
)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of each tensor of a folder."""
    found = {}
    for file in folder.glob("*.safetensors"):
        text = file.read_bytes()
        start = 8 + int.from_bytes(text[:8], "little")
        for name, one in json.loads(text[8:start]).items():
            if name != "__metadata__":
                begin, end = one["data_offsets"]
                found[name] = text[start + begin : start + end]
    return found


def model(folder: Path, weights: Weights, **config: Any) -> Path:
    files.safetensors(folder / "model.safetensors", weights, {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({"model_type": "toy", **config}))
    return folder


def test_a_converted_gemma_3_regains_its_vision_tower_names(run: Run) -> None:
    files.nemo_rl(run.tmp / "run", 30)
    model(run.tmp / "base", BASE)
    made = model(run.tmp / "made", {})
    (made / "model.safetensors").unlink()
    weight_map = {}
    for number, name in enumerate(SAVED):
        file = f"model-{number % 2 + 1:05}-of-00002.safetensors"
        weight_map[name] = file
    for file in set(weight_map.values()):
        part = {name: one for name, one in SAVED.items() if weight_map[name] == file}
        part |= {"lm_head.weight": SAVED["model.language_model.embed_tokens.weight"]} if "00001-" in file else {}
        files.safetensors(made / file, part, {"format": "pt"})
    weight_map["lm_head.weight"] = "model-00001-of-00002.safetensors"
    (made / tensors.INDEX).write_text(json.dumps({"metadata": {"total_size": 16}, "weight_map": weight_map}))
    code, output = run.convert()
    assert code == 0, output
    result = run.hf / "step_30"
    # The head is tied to the embedding: transformers saves it, and the base model has none.
    expected = {name: data for name, (_, _, data) in BASE.items()}
    assert contents(result) == {**expected, "lm_head.weight": expected["language_model.model.embed_tokens.weight"]}
    index = json.loads((result / tensors.INDEX).read_text())
    assert (index["weight_map"].keys(), index["metadata"]) == (contents(result).keys(), {"total_size": 16})
    assert "7 tensors get the names of" in output
    assert not list(result.glob(".*"))
    assert "already" in run.convert()[1]


def test_identical_names_are_left_unchanged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours = model(tmp_path / "ours", BASE)
    before = (ours / "model.safetensors").stat().st_ino
    base_names.use_base_names(ours, model(tmp_path / "base", BASE), "example/toy")
    assert (ours / "model.safetensors").stat().st_ino == before
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        # A pooling head that only this version of transformers makes.
        (
            {**SAVED, **named("model.vision_tower.head.probe")},
            BASE,
            r"base model lacks 1 of its tensors \(model\.vision_tower\.head\.probe\)",
        ),
        (
            SAVED,
            {**BASE, **named(*(f"a.{number}" for number in range(5)))},
            r"lacks 5 .* \(a\.0, a\.1, a\.2 and 2 more\)",
        ),
        # Two of ours could be the one of the base model.
        (named("model.w", "language_model.w"), named("model.language_model.w"), r"language_model\.w, model\.w"),
        # Experts in one tensor.
        (
            named("model.layers.0.mlp.experts.gate_up_proj"),
            named("model.layers.0.mlp.experts.0.gate_proj.weight", "model.layers.0.mlp.experts.0.up_proj.weight"),
            r"gate_up_proj.*experts\.0\.gate_proj",
        ),
    ],
)
def test_tensors_without_a_certain_name_are_rejected(
    tmp_path: Path, ours: Weights, theirs: Weights, message: str
) -> None:
    folder = model(tmp_path / "ours", ours)
    before = (folder / "model.safetensors").read_bytes()
    with pytest.raises(JobError, match=message):
        base_names.use_base_names(folder, model(tmp_path / "base", theirs), "example/toy")
    assert (folder / "model.safetensors").read_bytes() == before


def test_a_rejection_exits_with_1_and_leaves_no_result(run: Run) -> None:
    files.nemo_rl(run.tmp / "run", 30)
    model(run.tmp / "base", BASE)
    model(run.tmp / "made", {**SAVED, **named("model.vision_tower.head.probe")})
    code, output = run.convert()
    assert (code, list(run.hf.iterdir())) == (1, [])
    assert "a server would not load it: the base model lacks 1 of its tensors" in output.splitlines()[-1]


@pytest.mark.parametrize(
    ("more", "config", "fine"),
    [
        ("lm_head.weight", {}, True),
        ("lm_head.weight", {"tie_word_embeddings": True}, True),
        ("lm_head.weight", {"tie_word_embeddings": False}, False),
        ("model.layers.0.self_attn.rotary_emb.inv_freq", {}, True),
        ("mtp.layers.0.mlp.weight", {}, True),
        ("model.layers.4.eh_proj.weight", {"num_hidden_layers": 4}, True),
        ("model.layers.3.mlp.weight", {"num_hidden_layers": 4}, False),
        ("language_model.model.layers.4.w", {"text_config": {"num_hidden_layers": 4}}, True),
        ("vision_tower.layers.9.w", {"num_hidden_layers": 4}, False),
    ],
)
def test_a_result_may_lack_only_tensors_that_can_be_derived_or_are_unused(
    tmp_path: Path, more: str, config: dict[str, Any], fine: bool
) -> None:
    """A tied head, computed buffers, and layers that only speculative decoding uses."""
    ours = model(tmp_path / "ours", named("model.w"), **config)
    base = model(tmp_path / "base", named("model.w", more))
    if fine:
        base_names.use_base_names(ours, base, "example/toy")
    else:
        with pytest.raises(JobError, match="it lacks 1 of the base model"):
            base_names.use_base_names(ours, base, "example/toy")


@pytest.mark.parametrize(
    ("ours", "base", "why"),
    [
        ({}, {"quantization_config": {"quant_method": "fp8"}}, "the base model is quantized"),
        (
            {"architectures": ["Text"]},
            {"architectures": ["Images"]},
            "the result is a Text and the base model a Images",
        ),
    ],
)
def test_models_that_cannot_be_compared_cause_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ours: Any, base: Any, why: str
) -> None:
    folder = model(tmp_path / "ours", named("model.w"), **ours)
    base_names.use_base_names(folder, model(tmp_path / "base", named("model.w", "model.s"), **base), "example/toy")
    assert f"it lacks 1 of the base model (model.s); {why}" in capsys.readouterr().out


def test_tensor_shapes_are_compared_across_the_naming_of_two_versions(tmp_path: Path) -> None:
    ours = model(tmp_path / "ours", {"model.language_model.layers.0.w": ("U8", [2], b"12")})
    base = model(tmp_path / "base", {"language_model.model.layers.0.w": ("U8", [3], b"123")})
    with pytest.raises(JobError, match=r"layers\.0\.w has shape \[2\], and \[3\] in the base model"):
        base_names.use_base_names(ours, base, "example/toy")


HUB = """\
import os, types
def snapshot_download(model, local_files_only=False, **_):
    return os.environ["BASE"]
def get_safetensors_metadata(model):
    names = os.environ["NAMES"].split()
    if not names:
        raise OSError("offline")
    one = types.SimpleNamespace(tensors={name: types.SimpleNamespace(shape=[2]) for name in names})
    return types.SimpleNamespace(files_metadata={"model.safetensors": one})
"""


@pytest.mark.parametrize("names", ["language_model.w", "language_model.w other.v", ""])
def test_without_local_base_weights_the_tensor_names_come_from_the_hub(run: Run, names: str) -> None:
    files.nemo_rl(run.tmp / "run", 30)
    model(run.tmp / "made", named("model.w"))
    (run.tmp / "base/model.safetensors").unlink()
    environment = {"BASE": str(run.tmp / "base"), "NAMES": names}
    code, output = run.convert(model="example/toy", hub=HUB, environment=environment)
    if "other.v" in names:
        assert (code, "it lacks 1 of the base model (other.v)" in output) == (1, True)
    else:
        assert (code, list(contents(run.hf / "step_30"))) == (0, [names or "model.w"])
        assert ("the tensors' names are not compared" in output) == (not names)


SIGLIP = {"vision_config": {"model_type": "siglip_vision_model"}}


@pytest.mark.parametrize(
    ("names", "config", "refused"),
    [
        (SAVED, SIGLIP, True),
        # As older versions of transformers save it, and as the base model has it.
        (BASE, SIGLIP, False),
        # A tower that has no such part in any version.
        (named("model.vision_tower.encoder.layers.0.w"), {"vision_config": {"model_type": "gemma4_vision"}}, False),
        (named("model.w"), {"vision_config": None}, False),
    ],
)
@pytest.mark.parametrize("folder", ["base", None])
def test_an_unloadable_vision_tower_is_rejected_when_the_base_names_are_unknown(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    names: Weights,
    config: dict[str, Any],
    refused: bool,
    folder: str | None,
) -> None:
    """Neither a folder without weights nor no folder says what the base model calls its tensors."""
    monkeypatch.setattr(base_names, "on_the_hub", lambda model: {})
    ours = model(tmp_path / "ours", names, **config)
    base = folder and tmp_path / folder
    if refused:
        with pytest.raises(JobError, match=r"model\.vision_tower\.embeddings.* lacks vision_model.*run the task fetch"):
            base_names.use_base_names(ours, base, "example/toy")
    else:
        base_names.use_base_names(ours, base, "example/toy")
        assert "the tensors' names are not compared" in capsys.readouterr().out


def test_a_base_model_in_a_local_folder_brings_no_advice_to_fetch_it(tmp_path: Path) -> None:
    ours, base = model(tmp_path / "ours", SAVED, **SIGLIP), tmp_path / "base"
    base.mkdir()
    with pytest.raises(JobError, match=rf"put its safetensors files into {base}, then"):
        base_names.use_base_names(ours, base, str(base))


def test_a_vision_tower_without_known_base_names_exits_with_1(run: Run) -> None:
    files.nemo_rl(run.tmp / "run", 30)
    model(run.tmp / "made", SAVED, **SIGLIP)
    hub = HUB.replace('return os.environ["BASE"]', "raise OSError")
    code, output = run.convert(model="example/toy", hub=hub, environment={"NAMES": ""})
    assert (code, list(run.hf.iterdir())) == (1, [])
    assert "run the task fetch for it, then this task again" in output.splitlines()[-1]
