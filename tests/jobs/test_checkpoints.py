"""Checkpoints as they lie on a volume: complete or not and why, what a resume takes, which step is the best."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import checkpoints
from tests.programs import PROGRAMS

from . import checkpoint_files as files
from .tasks import Done, run_here

PROGRAM = PROGRAMS["checkpoints"]
FORMATS = ("dcp", "dcp-v2", "safetensors", "consolidated", "megatron", "lora")


def run_program(*arguments: object) -> Done:
    return run_here("checkpoints", *arguments)


def piped(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the program as it runs in a head pod: from stdin, with nothing but Python's library."""
    words = [sys.executable, "-I", "-", *map(str, arguments)]
    return subprocess.run(words, check=False, capture_output=True, text=True, input=PROGRAM.read_text())


@pytest.mark.parametrize("kind", FORMATS)
def test_a_full_step_is_complete_in_every_format(tmp_path: Path, kind: str) -> None:
    files.nemo_rl(tmp_path, 10, kind=kind, value=0.5)
    (found,) = checkpoints.list_checkpoints(tmp_path)
    assert (found.step, found.complete, found.reason, found.format) == (10, True, "", kind)
    assert (found.metric, found.value, found.higher_is_better, found.resume) == ("val:accuracy", 0.5, True, True)
    assert found.bytes == sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())


def remove(name: str) -> Any:
    def change(path: Path) -> None:
        target = path / name
        shutil.rmtree(target) if target.is_dir() else target.unlink()

    return change


def write(name: str, text: str) -> Any:
    return lambda path: (path / name).write_text(text)


def cut(name: str) -> Any:
    return lambda path: (path / name).write_bytes((path / name).read_bytes()[:-1])


SHARD = "policy/weights/model/shard-00002-model-00001-of-00001.safetensors"
INSIDE = "policy/weights/model/consolidated"


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        ("dcp", remove("training_info.json"), "training_info.json is missing or cannot be read"),
        ("dcp", write("training_info.json", '{"total_steps": 1'), "training_info.json is missing or cannot be read"),
        ("dcp", write("training_info.json", "[1]"), "training_info.json is missing or cannot be read"),
        ("dcp", remove("config.yaml"), "config.yaml is missing or empty"),
        ("dcp", write("config.yaml", ""), "config.yaml is missing or empty"),
        ("dcp", remove("policy"), "policy/weights is missing or holds no weights"),
        ("dcp", remove("policy/weights/.metadata"), "weights/ has no .metadata: the save was interrupted"),
        ("dcp-v2", remove("policy/weights/model/.metadata"), "model/ has no .metadata: the save was interrupted"),
        ("dcp", write("policy/weights/__1_0.distcp", ""), "weights/__1_0.distcp is cut off: it has 0 of 7 bytes"),
        ("dcp", cut("policy/weights/__1_0.distcp"), "weights/__1_0.distcp is cut off: it has 6 of 7 bytes"),
        ("dcp", remove("policy/weights/__0_0.distcp"), "weights/__0_0.distcp is missing"),
        ("dcp-v2", cut("policy/weights/model/__0_0.distcp"), "model/__0_0.distcp is cut off: it has 6 of 7 bytes"),
        ("dcp", cut("policy/weights/.metadata"), "weights/.metadata cannot be read: it is cut off or damaged"),
        (
            "megatron",
            cut("policy/weights/iter_0000000/__1_0.distcp"),
            "iter_0000000/__1_0.distcp is cut off: it has 6 of 7 bytes",
        ),
        ("safetensors", cut(SHARD), "shard-00002-model-00001-of-00001.safetensors is cut off"),
        ("safetensors", write(SHARD, ""), "shard-00002-model-00001-of-00001.safetensors is cut off"),
        (
            "safetensors",
            lambda path: (path / SHARD).write_bytes(b"\x02" + bytes(7) + b"[]"),
            "shard-00002-model-00001-of-00001.safetensors has no readable header",
        ),
        (
            "safetensors",
            lambda path: (path / SHARD).rename(
                (path / SHARD).with_name("shard-00002-model-00001-of-00003.safetensors")
            ),
            "2 of 3 files shard-00002-model-* are missing",
        ),
        (
            "megatron",
            remove("policy/weights/iter_0000000/metadata.json"),
            "iter_0000000 lacks metadata.json or *.distcp",
        ),
    ],
)
def test_an_incomplete_step_names_the_missing_part(tmp_path: Path, kind: str, change: Any, reason: str) -> None:
    files.nemo_rl(tmp_path, 10, kind=kind, value=0.5)
    change(files.nemo_rl(tmp_path, 20, kind=kind, value=0.9))
    whole, broken = checkpoints.list_checkpoints(tmp_path)
    assert (whole.complete, broken.complete, broken.reason) == (True, False, reason)
    # NeMo RL looks at the name only, and so would fail on it.
    assert broken.resume
    assert checkpoints.choose([whole, broken], "best").step == 10
    assert checkpoints.choose([whole, broken], "latest").step == 10


def test_a_steps_optimizer_is_checked_too(tmp_path: Path) -> None:
    """A resume loads it, so it fails there as well as without weights."""
    path = files.nemo_rl(tmp_path, 10)
    files.dcp(path / "policy/optimizer/optim")
    assert checkpoints.list_checkpoints(tmp_path)[0].complete
    cut("policy/optimizer/optim/__1_0.distcp")(path)
    (found,) = checkpoints.list_checkpoints(tmp_path)
    assert (found.complete, found.reason) == (False, "optim/__1_0.distcp is cut off: it has 6 of 7 bytes")


def test_a_metadata_file_is_never_executed(tmp_path: Path) -> None:
    """Such a file comes from a volume to which other people may write."""
    path = files.nemo_rl(tmp_path, 10) / "policy/weights/.metadata"
    path.write_bytes(b"cos\nsystem\n(S'touch %s'\ntR." % str(tmp_path / "run").encode())
    (found,) = checkpoints.list_checkpoints(tmp_path)
    # It names no place of a tensor, so nothing is compared.
    assert found.complete
    assert not (tmp_path / "run").exists()


def test_an_incomplete_consolidated_copy_does_not_hide_the_shards(tmp_path: Path) -> None:
    path = files.nemo_rl(tmp_path, 10, kind="consolidated")
    cut(f"{INSIDE}/model-00001-of-00001.safetensors")(path)
    (found,) = checkpoints.list_checkpoints(tmp_path)
    assert (found.complete, found.format) == (True, "safetensors")


def test_leftovers_of_a_save_are_not_checkpoints(tmp_path: Path) -> None:
    for step, state in ((10, ""), (10, "old_"), (20, "tmp_"), (30, "old_")):
        files.nemo_rl(tmp_path, step, state=state, value=step / 100)
    found = {Path(one.path).name: one for one in checkpoints.list_checkpoints(tmp_path)}
    assert [name for name, one in found.items() if one.complete] == ["step_10"]
    assert [name for name, one in found.items() if one.resume] == ["step_10"]
    assert found["tmp_step_20"].reason == "being written, or left by an interrupted save"
    assert found["old_step_10"].reason == "being replaced"
    assert "mv old_step_30 step_30 restores it" in found["old_step_30"].reason


def test_other_names_links_and_files_are_ignored(tmp_path: Path) -> None:
    real = files.nemo_rl(tmp_path / "elsewhere", 30, value=0.5)
    files.nemo_rl(tmp_path, 10, value=0.25)
    steps = tmp_path / "checkpoints"
    (steps / "step_30").symlink_to(real)
    (steps / "step_40").symlink_to(tmp_path / "nowhere")
    (steps / "step_10/policy/loop").symlink_to(steps)
    (steps / "step_50").write_text("a file")
    for name in ("step_x", "step_", "step_-1", "step_10.bak", "global_step_5", "my_step_3", ".step_2"):
        (steps / name).mkdir()
    found = checkpoints.list_checkpoints(tmp_path, "nemo-rl")
    assert [(one.step, one.complete) for one in found] == [(10, True), (30, True)]


def test_an_unreadable_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.nemo_rl(tmp_path, 10)
    locked = files.nemo_rl(tmp_path, 20) / "policy/weights"
    listdir = os.listdir

    def refuse(path: Any) -> Any:
        if Path(path) == locked:
            raise PermissionError(13, "Permission denied")
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refuse)
    readable, found = checkpoints.list_checkpoints(tmp_path)
    assert (readable.complete, found.complete, found.reason) == (True, False, "cannot be read: Permission denied")


@pytest.mark.parametrize(("higher", "best"), [(True, 30), (False, 40)])
def test_the_best_step_follows_the_direction_recorded_by_the_run(tmp_path: Path, higher: bool, best: int) -> None:
    values = {10: 0.5, 20: 0.75, 30: 0.75, 40: 0.25, 50: float("nan"), 60: None}
    for step, value in values.items():
        files.nemo_rl(tmp_path, step, value=value, higher=higher)
    found = checkpoints.list_checkpoints(tmp_path)
    assert [one.value for one in found] == [0.5, 0.75, 0.75, 0.25, None, None]
    assert checkpoints.choose(found, "best").step == best
    assert checkpoints.choose(found, "latest").step == 60
    assert checkpoints.choose(found, "20").step == 20


def test_a_different_metric_can_be_requested(tmp_path: Path) -> None:
    for step, value in ((10, 2.0), (20, 1.0)):
        path = files.nemo_rl(tmp_path, step, value=step)
        (path / "training_info.json").write_text(json.dumps({"val:accuracy": step, "train:reward": value}))
    assert checkpoints.choose(checkpoints.list_checkpoints(tmp_path), "best").step == 20
    assert checkpoints.choose(checkpoints.list_checkpoints(tmp_path, metric="train:reward"), "best").step == 10


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("70", "there is no step 70; complete steps: 10, 20"),
        ("30", "step 30 is not complete (config.yaml is missing or empty); complete steps: 10, 20"),
        ("newest", "step is 'newest', expected best, latest or a number"),
        ("best", "the best step is unknown: none has a value of val:accuracy. Use latest, or one of: 10, 20"),
    ],
)
def test_an_impossible_choice_is_reported(tmp_path: Path, step: str, message: str) -> None:
    for number in (10, 20, 30):
        files.nemo_rl(tmp_path, number)
    remove("config.yaml")(tmp_path / "checkpoints/step_30")
    with pytest.raises(checkpoints.CheckpointError) as error:
        checkpoints.choose(checkpoints.list_checkpoints(tmp_path), step)
    assert str(error.value) == message


def test_a_run_without_a_metric_has_no_best(tmp_path: Path) -> None:
    files.nemo_rl(tmp_path, 10, metric="null")
    with pytest.raises(checkpoints.CheckpointError, match="the run names no metric"):
        checkpoints.choose(checkpoints.list_checkpoints(tmp_path), "best")


def test_a_run_with_no_complete_checkpoint_says_why_the_last_is_incomplete(tmp_path: Path) -> None:
    files.nemo_rl(tmp_path, 10, state="tmp_")
    found = checkpoints.list_checkpoints(tmp_path)
    for step in ("best", "latest"):
        with pytest.raises(
            checkpoints.CheckpointError, match=r"no checkpoint is complete: .*tmp_step_10: being written"
        ):
            checkpoints.choose(found, step)
    with pytest.raises(checkpoints.CheckpointError, match=r"no checkpoint is complete$"):
        checkpoints.choose([], "latest")


def test_a_verl_run_is_listed_and_resumes_at_its_tracked_step(tmp_path: Path) -> None:
    for step in (5, 10, 15):
        files.verl(tmp_path, step)
    (tmp_path / "checkpoints/latest_checkpointed_iteration.txt").write_text("10")
    found = checkpoints.list_checkpoints(tmp_path)
    assert checkpoints.detect(tmp_path) == "verl"
    assert [(one.step, one.complete, one.format, one.resume) for one in found] == [
        (5, True, "fsdp", False),
        (10, True, "fsdp", True),
        (15, True, "fsdp", False),
    ]


RANK = "actor/model_world_size_2_rank_1.pt"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (remove(RANK), "1 of 2 files actor/model_world_size_2_rank_* are missing"),
        (cut(RANK), f"{RANK} is cut off"),
        (remove("actor/optim_world_size_2_rank_0.pt"), "1 of 2 files actor/optim_world_size_2_rank_* are missing"),
        (
            lambda path: (path / RANK).rename(path / RANK.replace("_2_", "_4_")),
            "actor/ has files of several world sizes",
        ),
        (remove("data.pt"), "data.pt is missing: the save was interrupted"),
        (remove("actor/huggingface"), "actor/huggingface/config.json is missing: the save was interrupted"),
        (remove("actor/fsdp_config.json"), "actor/fsdp_config.json is missing: the save was interrupted"),
        (remove("actor"), "actor/ holds no model_world_size"),
    ],
)
def test_an_incomplete_verl_step_names_the_missing_part(tmp_path: Path, change: Any, reason: str) -> None:
    change(files.verl(tmp_path, 5))
    (found,) = checkpoints.list_checkpoints(tmp_path)
    assert not found.complete
    assert found.reason.startswith(reason)
    assert not found.resume


@pytest.mark.parametrize("text", ["", "ten", "99"])
def test_verl_starts_from_scratch_without_a_tracker_pointing_at_a_step(tmp_path: Path, text: str) -> None:
    files.verl(tmp_path, 5)
    (tmp_path / "checkpoints/latest_checkpointed_iteration.txt").write_text(text)
    assert [one.resume for one in checkpoints.list_checkpoints(tmp_path)] == [False]


LOG = """\
loading\r50%\r(TaskRunner pid=7) step:5 - val-aux/x/score/mean@1:9.0 - val-core/openai/gsm8k/reward/best@8:0.9 \
- val-core/openai/gsm8k/reward/mean@8:{first} - timing_s/testing:48.2
(TaskRunner pid=7) step:6 - actor/loss:0.1
step:10 - val-core/openai/gsm8k/reward/best@8:0.95 - val-core/openai/gsm8k/reward/mean@8:np.float64({second})
"""


def test_verls_best_step_follows_its_printed_validation(tmp_path: Path) -> None:
    for step in (5, 10, 15):
        files.verl(tmp_path, step)
    for attempt, values in ((2, (0.5, 0.25)), (10, (0.75, "nan"))):
        (tmp_path / f"attempts/{attempt}").mkdir(parents=True)
        (tmp_path / f"attempts/{attempt}/output.log").write_text(LOG.format(first=values[0], second=values[1]))
    found = checkpoints.list_checkpoints(tmp_path)
    assert [(one.metric, one.value) for one in found] == [
        ("val-core/openai/gsm8k/reward/mean@8", value) for value in (0.75, 0.25, None)
    ]
    assert checkpoints.choose(found, "best").step == 5
    other = checkpoints.list_checkpoints(tmp_path, metric="val-core/openai/gsm8k/reward/best@8")
    assert checkpoints.choose(other, "best").step == 10


@pytest.mark.parametrize("identity", [True, False])
def test_a_stray_verl_folder_does_not_hide_nemo_rl_steps(tmp_path: Path, identity: bool) -> None:
    """Somebody has copied it there, or a trial with verl had the same directory."""
    files.nemo_rl(tmp_path, 10, value=0.5)
    (tmp_path / "checkpoints/global_step_5").mkdir()
    if identity:
        (tmp_path / "run.json").write_text('{"framework": "nemo-rl"}')
        (tmp_path / "checkpoints/latest_checkpointed_iteration.txt").write_text("5")
    assert checkpoints.detect(tmp_path) == "nemo-rl"
    assert [one.step for one in checkpoints.list_checkpoints(tmp_path)] == [10]
    assert "10  yes" in run_program(tmp_path).output


def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    """As in `checkpoints.py DIRECTORY | head -1`."""
    for step in range(200):
        (tmp_path / f"checkpoints/step_{step}").mkdir(parents=True)
    script = f"{sys.executable} -I {PROGRAM} {tmp_path} --json | head -c 10"
    done = subprocess.run(["sh", "-c", script], check=False, capture_output=True, text=True)
    assert (done.returncode, len(done.stdout), done.stderr) == (0, 10, "")


def test_the_program_prints_a_table(tmp_path: Path) -> None:
    for step, value in ((10, 0.5), (20, 0.25)):
        files.nemo_rl(tmp_path, step, value=value)
    files.nemo_rl(tmp_path, 30, state="tmp_")
    done = piped(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert [" ".join(line.split()) for line in done.stdout.splitlines()] == [
        "step complete GiB val:accuracy",
        "10 yes 0.00 0.5000 best",
        "20 yes 0.00 0.2500 a resume loads it",
        "30 no 0.00 - being written, or left by an interrupted save",
    ]
    assert run_program(tmp_path / "checkpoints").output == done.stdout


def test_the_program_prints_json(tmp_path: Path) -> None:
    path = files.nemo_rl(tmp_path, 10, value=0.5)
    done = json.loads(run_program(tmp_path, "--json").output)
    (one,) = done.pop("checkpoints")
    paths = dict.fromkeys(("best", "latest", "resume"), str(path))
    assert done == {"directory": str(tmp_path), "framework": "nemo-rl", **paths}
    assert checkpoints.Checkpoint(**one) == checkpoints.list_checkpoints(tmp_path)[0]


def test_the_line_below_the_table_says_what_happens_to_an_incomplete_step(tmp_path: Path) -> None:
    """NeMo RL takes the highest number, complete or not, and the launcher looks before it starts."""
    files.nemo_rl(tmp_path, 10, value=0.5)
    (files.nemo_rl(tmp_path, 20, value=0.25) / "config.yaml").unlink()
    steps = tmp_path / "checkpoints"
    done = run_program(tmp_path)
    expected = f"{steps}/step_20 is not complete: the next start goes back to step 10"
    assert (done.code, done.output.splitlines()[3:]) == (0, [expected])
    assert "a resume loads it" not in done.output
    shutil.rmtree(steps / "step_10")
    done = run_program(tmp_path)
    last = done.output.splitlines()[-1]
    assert last.endswith(f"Restore its files, or move it out of {steps} to start at step 0")
    assert "a resume loads it" not in done.output
    assert (done.code, done.errors) == (1, "grpo: no step is complete, so the launcher refuses to start\n")
    assert run_program(tmp_path, "--json").code == 1
    shutil.rmtree(steps / "step_20")
    files.nemo_rl(tmp_path, 10, value=0.5)
    assert len(run_program(tmp_path).output.splitlines()) == 2


def test_a_step_in_an_unknown_format_is_loaded_anyway(tmp_path: Path) -> None:
    """The launcher cannot look into it, so it warns and goes on."""
    weights = files.nemo_rl(tmp_path, 10, value=0.5) / "policy/weights"
    shutil.rmtree(weights)
    (weights / "shards.bin").mkdir(parents=True)
    done = run_program(tmp_path)
    assert (done.code, done.errors) == (0, "")
    (_, row) = done.output.splitlines()
    assert row.endswith("; a resume loads it")


@pytest.mark.parametrize("whole", [5, None])
def test_an_incomplete_verl_step_is_reported_too(tmp_path: Path, whole: int | None) -> None:
    if whole:
        files.verl(tmp_path, whole)
    (files.verl(tmp_path, 10) / "data.pt").unlink()
    (tmp_path / "checkpoints/latest_checkpointed_iteration.txt").write_text("10")
    last = run_program(tmp_path).output.splitlines()[-1]
    assert last.startswith(f"{tmp_path}/checkpoints/global_step_10 is not complete: ")
    assert ("goes back to step 5" in last) == bool(whole)
    assert ("to start at step 0" in last) == (not whole)


def test_an_unknown_metric_is_reported_with_the_available_ones(tmp_path: Path) -> None:
    for step in (10, 20):
        files.nemo_rl(tmp_path, step, value=0.5)
    done = run_program(tmp_path, "--metric", "val:acuracy")
    assert (done.code, len(done.output.splitlines())) == (1, 3)
    assert done.errors == "grpo: no step has a value of val:acuracy; available metrics: total_steps, val:accuracy\n"
    assert json.loads(run_program(tmp_path, "--metric", "x", "--json").output)["best"] == ""
    assert run_program(tmp_path, "--metric", "val:accuracy").code == 0


def test_verls_metrics_are_those_of_its_validation(tmp_path: Path) -> None:
    files.verl(tmp_path, 5)
    (tmp_path / "attempts/1").mkdir(parents=True)
    (tmp_path / "attempts/1/output.log").write_text(LOG.format(first=0.5, second=0.25))
    done = run_program(tmp_path, "--metric", "reward")
    core = "val-core/openai/gsm8k/reward"
    assert done.code == 1
    assert done.errors.endswith(f"; available metrics: val-aux/x/score/mean@1, {core}/best@8, {core}/mean@8\n")
    (tmp_path / "attempts/1/output.log").write_text("")
    assert run_program(tmp_path, "--metric", "reward").errors.endswith("; available metrics: none\n")


def test_a_run_without_checkpoints_is_reported(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    done = run_program(tmp_path)
    assert (done.code, done.output) == (1, "")
    assert done.errors == f"grpo: no checkpoint in {tmp_path}/checkpoints\n"
    done = run_program(tmp_path, "--json")
    assert (done.code, json.loads(done.output)["checkpoints"]) == (1, [])


def test_a_missing_directory_is_reported(tmp_path: Path) -> None:
    done = run_program(tmp_path / "gone")
    assert (done.code, done.output) == (2, "")
    assert (
        done.errors == f"grpo: {tmp_path}/gone is no directory: name the run directory, <mountPath>/runs/<job.name>\n"
    )


def test_an_unreadable_directory_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: Path) -> list[str]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(checkpoints.os, "listdir", refuse)
    assert checkpoints.main([str(tmp_path)]) == 3
    assert capsys.readouterr() == ("", f"grpo: {tmp_path} cannot be read: Permission denied\n")
