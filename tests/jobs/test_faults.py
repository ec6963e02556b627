"""Laws of the programs that write to a volume: whatever call fails, and wherever a program or its node dies."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import shutil
import signal
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pytest
from greenlet import getcurrent

from tests.conftest import Points, thin
from tests.played import Clock

from . import checkpoint_files as files
from .conftest import memory
from .faults import ERRORS, STOP, Calls, Crashes, outcomes, put
from .harness import LAPSE
from .simulation.clock import Task
from .simulation.machine import Launch, Machine
from .simulation.processes import Process
from .tasks import load_task
from .test_convert import Run

# `make test` lets every tenth call fail, `make check` each.
STEPS = [pytest.param(30), pytest.param(1, marks=pytest.mark.full)]
STOPPABLE = (*ERRORS, STOP)


@pytest.fixture
def tmp() -> Iterator[Path]:
    """Return a folder in memory: these tests write many thousand files."""
    with tempfile.TemporaryDirectory(prefix="grpo-faults-", dir=memory()) as folder:
        yield Path(folder)


def started(name: str, task: dict[str, Any]) -> str:
    """Run a task in this process; return why it failed, or an empty text."""
    program = load_task(name)
    try:
        getattr(program, name if name in ("convert", "evaluate") else "main")(task)
    except (load_task("runtime").JobError, OSError) as error:
        return str(error) or type(error).__name__
    return ""


def converted(tmp: Path) -> tuple[Run, Path, dict[str, Any]]:
    """Return a run with a step that was converted, and then trained and saved once more; the step, and its task."""
    run = Run(tmp)
    step = files.nemo_rl(run.tmp / "run", 30, kind="consolidated")
    ready = step / "policy/weights/model/consolidated"
    shutil.rmtree(ready)
    shutil.copytree(run.tmp / "made", ready)
    task = json.loads(run.task(step="30").read_text())
    assert not started("convert", task)
    os.utime(step / "training_info.json", (1, 1))
    return run, step, task


@pytest.mark.parametrize("step", STEPS)
def test_a_converted_model_survives_any_fault(tmp: Path, points: Points, step: int) -> None:
    """The law of convert: the old result or the new one is whole, under its name or after the next start."""
    run, checkpoint, task = converted(tmp)
    result, gone = run.hf / "step_30", tmp / "gone"
    for what in outcomes(run.tmp / "run", tmp / "store", lambda: started("convert", task), STOPPABLE, step):
        points.add(what)
        checkpoint.rename(gone)
        assert not started("convert", task), f"{what}: neither the old nor the new result is left"
        gone.rename(checkpoint)
        assert not started("convert", task), what
        record = json.loads((result / "grpo.json").read_text())
        assert record["saved"] == 1, what
        assert all((result / name).stat().st_size == size for name, size in record["files"].items()), what
        assert {*record["files"], "grpo.json"} == {*os.listdir(result)}, what
        assert os.listdir(run.hf) == ["step_30"], what
    enough(points, step)


def enough(points: Points, step: int) -> None:
    """Fail if a program no longer comes by here: then it would show nothing."""
    assert points.all() > 100 // step


FOREIGN = {"README.md": "mine", "awq/model.safetensors": "small", ".cache/link": "->../README.md"}


def add(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    if text.startswith("->"):
        (folder / name).symlink_to(text[2:])
    else:
        (folder / name).write_text(text)


def test_a_converted_model_with_foreign_files_is_kept(tmp: Path) -> None:
    """Nobody can make them again; a result that needs no replacement is used with them."""
    run, checkpoint, task = converted(tmp)
    result = run.hf / "step_30"
    cases: list[tuple[str, Callable[[Path], object]]] = [
        *((name, lambda folder, name=name, text=text: add(folder, name, text)) for name, text in FOREIGN.items()),
        ("config.json", lambda folder: add(folder, "config.json", '{"model_type": "mine"}')),
        ("config.json", lambda folder: (folder / "grpo.json").unlink()),
        ("step_30", lambda folder: (shutil.rmtree(folder), folder.symlink_to(run.tmp / "made"))),
        ("step_30", lambda folder: (shutil.rmtree(folder), folder.write_text("mine"))),
    ]
    shutil.copytree(run.tmp / "run", tmp / "start")
    for name, change in cases:
        put(tmp / "start", run.tmp / "run")
        change(result)
        before = contents(run.hf)
        failed = started("convert", task)
        assert f"somebody has added or changed files in it ({name}" in failed, failed
        assert f"{result} is not replaced" in failed
        assert contents(run.hf) == before
        # Added while the new one is made.
        put(tmp / "start", run.tmp / "run")
        with Calls(run.hf) as calls:
            calls.before = lambda call, path, change=change: (
                change(result) if "grpo.json" in path and call == "open" else None
            )
            failed = started("convert", task)
        assert f"somebody has added or changed files in it ({name}" in failed, failed
        assert contents(run.hf) == before
    put(tmp / "start", run.tmp / "run")
    shutil.rmtree(checkpoint)
    for name, text in FOREIGN.items():
        add(result, name, text)
    assert not started("convert", task)
    assert all(os.path.lexists(result / name) for name in FOREIGN)


def contents(folder: Path) -> dict[str, str]:
    """Return what is below a folder: texts of files, targets of links."""
    found = {}
    for path in sorted(folder.rglob("*")):
        kind = (
            f"->{path.readlink()}" if path.is_symlink() else "" if path.is_dir() else path.read_text(errors="replace")
        )
        found[str(path.relative_to(folder))] = kind
    return found


@pytest.mark.parametrize("links", [True, False])
def test_a_record_has_one_creator_and_is_never_deleted(
    tmp: Path, points: Points, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The law of a record: of two pods at most one creates it, and what the other meets does not take it away."""
    create, path = load_task("files").create_exclusively, tmp / "volume/record"
    if not links:
        # As an object store answers, and some shares.
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(errno.EPERM, "no links")))
    path.parent.mkdir()
    with Calls(tmp / "volume") as calls:
        assert create(path, "mine")
    assert (path.read_text(), os.listdir(path.parent)) == ("mine", ["record"])
    assert not create(path, "theirs")
    for kind, at, theirs_at in itertools.product(ERRORS, range(1, calls.count + 1), range(calls.count + 1)):
        shutil.rmtree(path.parent)
        path.parent.mkdir()
        made: list[bool | None] = [None, None]

        def other(*_: object) -> None:
            if failing.count == theirs_at:  # noqa: B023
                made[1] = create(path, "theirs")  # noqa: B023

        with Calls(tmp / "volume", kind, at) as failing, contextlib.suppress(OSError):
            failing.before = other
            made[0] = create(path, "mine")
        what = f"{kind}: at call {at}, the other one at {theirs_at}: {made}"
        points.add(what)
        found = path.read_text() if path.exists() else ""
        assert made.count(True) <= 1, what
        assert not made[0] or found == "mine", what
        assert not made[1] or found == "theirs", what
        # On a volume with links, a part of a record never has its name, and a full disk uses up none.
        assert not links or found in ("mine", "theirs", ""), what
        assert not links or kind != "full" or bool(found) == any(made), what


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.ENOSPC])
def test_a_record_that_replaced_ours_on_an_object_store_is_kept(tmp: Path, number: int) -> None:
    """There the first of two files that are flushed gets the name, though both were opened."""
    path, create = tmp / "record", load_task("files").create_exclusively

    def flush(file: int) -> None:
        if os.readlink(f"/proc/self/fd/{file}") == str(path):
            (tmp / "other").write_text("theirs")
            (tmp / "other").replace(path)
            raise OSError(number, os.strerror(number))

    no_links = mock.patch.object(os, "link", side_effect=OSError(errno.ENOSYS, ""))
    error = contextlib.nullcontext() if number == errno.ESTALE else pytest.raises(OSError, match=os.strerror(number))
    with no_links, mock.patch.object(os, "fsync", flush), error:
        assert not create(path, "mine")
    assert path.read_text() == "theirs"


def test_a_file_has_its_old_or_new_content_after_any_fault(tmp: Path, points: Points) -> None:
    """The law of write_atomically, which all records go through; an error leaves no draft on a full disk."""
    write, path = load_task("files").write_atomically, tmp / "volume/record.json"
    add(path.parent, path.name, "old")
    for what in outcomes(path.parent, tmp / "store", lambda: write(path, "new"), ERRORS):
        points.add(what)
        assert path.read_text() in ("old", "new"), what
        assert "dies" in what or len(os.listdir(path.parent)) == 1 or "dead" in what or "unlink" in what, what
    enough(points, 4)


def run_to_clean(run: Path, framework: str) -> None:
    """Make a run with two steps, of which the trainer needs each file, and one converted model."""
    for number in (10, 20):
        path = (files.verl if framework == "verl" else files.nemo_rl)(run, number)
        for name in ("policy/optimizer/state", "policy/tokenizer/tokenizer.json", "train_dataloader.pt", "a", "z/a"):
            add(path, name, name)
    for name in ("config.json", "grpo.json", "model.safetensors", "a", "z/a"):
        add(run, f"hf/step_10/{name}", name)
    for name in ("logs/l", "evaluations/e"):
        add(run, name, name)
    (run / "checkpoints/linked").symlink_to(run / "logs")


def taken_for_whole(run: Path, framework: str) -> Iterator[Path]:
    """Yield the steps that a resume, convert and evaluate would take."""
    found = load_task("checkpoints").list_checkpoints(run, framework)
    yield from (Path(one.path) for one in found if one.complete)
    yield from (path.parent for path in run.glob("hf/*/config.json"))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("framework", "renames"), thin([("nemo-rl", True), ("nemo-rl", False), ("verl", False)], 3))
def test_clean_deletes_only_what_it_names(
    tmp: Path, points: Points, monkeypatch: pytest.MonkeyPatch, framework: str, renames: bool, step: int
) -> None:
    """The law of clean: the rest stays, nobody takes a half of a step for a step, and the next clean does the rest."""
    run, clock, owner, clean = tmp / "data/runs/a-run", Clock(), load_task("owner"), load_task("clean")
    for name, value in {"now": clock.monotonic, "pause": clock.sleep, "LAPSE_SECONDS": 20.0}.items():
        monkeypatch.setattr(owner, name, value)
    monkeypatch.setattr(clean, "LAPSE_SECONDS", 20.0)
    monkeypatch.setattr(clean, "on_every_node", mock.Mock(side_effect=ImportError))
    rename = os.rename

    def refuse(source: str, target: str) -> None:
        """Answer as a bucket without folders does."""
        if os.path.isdir(source):
            raise OSError(errno.EPERM, "a folder")
        rename(source, target)

    if not renames:
        monkeypatch.setattr(os, "rename", refuse)
    run_to_clean(run, framework)
    for name in ("runs/other/checkpoints/step_1/w", "disk/grpo-staged/other/w", "disk/grpo-staged/a-run/0/model/w"):
        add(tmp / "data", name, name)
    task = {"run": run.name, "runDirectory": str(run), "stageDirectory": str(tmp / "data/disk")}
    task["what"] = ["checkpoints", "converted", "staged"]
    before = {path: contents(path) for path in taken_for_whole(run, framework)}
    kept = [run / "logs", run / "evaluations", tmp / "data/runs/other", tmp / "data/disk/grpo-staged/other"]
    before |= {path: contents(path) for path in kept}
    assert len(before) == 7
    for what in outcomes(tmp / "data", tmp / "store", lambda: started("clean", task), STOPPABLE, step):
        points.add(what)
        clock.pauses.clear()
        for path in (*kept, *taken_for_whole(run, framework)):
            assert contents(path) == before[path], f"{what}: {path}"
        assert not started("clean", task), what
        assert {name for name in os.listdir(run) if "owner" not in name} == {"logs", "evaluations"}, what
        assert os.listdir(tmp / "data/disk/grpo-staged") == ["other"], what
        assert all(contents(path) == before[path] for path in kept), what
    for at in itertools.count(1, step):
        clock.pauses.clear()
        put(tmp / "store/start", tmp / "data")
        taken = list[str]()

        def take_over(call: str, path: str) -> None:
            record = load_task("files").read_json(str(run / "owner.json"))
            if calls.count + 1 >= at and not taken and record.get("task") == "clean":  # noqa: B023
                taken.append(f"stopped for 3 lapses: before {call} of {path}")  # noqa: B023
                clock.sleep(60)
                term = record["term"] + 1
                record |= {"term": term, "token": "theirs", "state": "running"}
                for name in ("owner.json", f"owners/{term}.json"):
                    add(run, name, json.dumps(record))
                (files.verl if framework == "verl" else files.nemo_rl)(run, 30)

        with Calls(tmp / "data") as calls:
            calls.before = take_over
            failed = started("clean", task)
        if not taken:
            break
        points.add(taken[0])
        assert any(path.name.endswith("step_30") for path in taken_for_whole(run, framework)), f"{taken}: {failed}"
    enough(points, step)


def played_validation(words: list[str], _folder: str, read: Callable[[str], None]) -> int:
    """Take the place of verl: write the samples where it is told to, and print their mean."""
    options = dict(word.split("=", 1) for word in words if "=" in word)
    add(Path(json.loads(options["trainer.validation_data_dir"])), "0.jsonl", '{"score": 1}\n{"score": 0}\n')
    read("step:0 - val-core/openai/gsm8k/reward/mean@1:0.5")
    return 0


@pytest.mark.parametrize("step", STEPS)
def test_an_evaluation_result_is_complete_and_never_recomputed(
    tmp: Path, points: Points, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The law of evaluate: a result is the old one or the new one, and one that was written takes no GPU again."""
    evaluate, engine, run = load_task("evaluate"), load_task("verl_evaluation"), tmp / "volume/runs/a-run"
    validate = mock.Mock(side_effect=played_validation)
    monkeypatch.setattr(engine, "run", validate)
    monkeypatch.setattr(engine, "prompt_length", lambda _: 512)
    monkeypatch.setattr(evaluate, "staged", lambda _, model: model)
    monkeypatch.setenv("GRPO_DATASETS", str(tmp / "datasets"))
    add(tmp, "datasets/gsm8k/test.parquet", "rows")
    for name in ("attempts/1/config.yaml", "attempts/1/code/rewards.json", "hf/global_step_10/config.json"):
        add(run, name, "{}")
    settings = {"temperature": 0.0, "topP": 1.0, "maxNewTokens": 8, "samples": 1, "seed": 1}
    task = {"run": run.name, "runDirectory": str(run), "framework": "verl", "version": "v0.9.0", "model": "a/b"}
    task |= {"workingDirectory": str(tmp), "nodes": 1, "gpusPerNode": 8, "step": "10", "tensorParallelSize": 1}
    task |= {"models": ["base", "checkpoint"], "benchmarks": {"gsm8k": settings}}
    assert not started("evaluate", task)
    # The next one has other settings.
    task["benchmarks"] = {"gsm8k": {**settings, "seed": 2}}
    names = {"gsm8k-base.json", "gsm8k-step_10.json"}

    def results() -> dict[str, int]:
        found = {name: json.loads((run / "evaluations" / name).read_text()) for name in names}
        assert all(one["score"] == 0.5 for one in found.values())
        return {name: one["settings"]["seed"] for name, one in found.items()}

    for what in outcomes(tmp / "volume", tmp / "store", lambda: started("evaluate", task), STOPPABLE, step):
        points.add(what)
        seeds = [*results().values()]
        validate.reset_mock()
        assert not started("evaluate", task), what
        assert validate.call_count == seeds.count(1), what
        assert set(results().values()) == {2}, what
    enough(points, step)


def test_a_runs_hours_are_counted_once(tmp: Path, points: Points, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law of status.json: it can be read, and what earlier attempts have spent and saved stays in it."""
    status, path = load_task("status"), tmp / "volume/run/status.json"
    path.parent.mkdir(parents=True)
    # The test writes, not a thread.
    monkeypatch.setattr(status.Status, "keep", lambda _: None)

    def attempt() -> None:
        kept = status.Status(path.parent, {"run": "a-run", "gpus": 1}, lambda: True)
        for _ in range(3):
            kept.spend(3600)
            kept.write()
        kept.save(3600)
        kept.set(checkpoint={"step": 10})
        kept.write()
        kept.close()

    def read() -> tuple[float, float, int]:
        record = json.loads(path.read_text())
        hours = record["gpuHours"]
        return hours["spent"], hours["lost"] + hours["unsaved"], record["checkpoint"]["step"]

    for _ in range(2):
        attempt()
    assert read() == (6, 2, 10)
    for what in outcomes(tmp / "volume", tmp / "store", attempt, STOPPABLE):
        points.add(what)
        spent, lost, _ = read()
        assert 6 <= spent <= 9, what
        assert 2 <= lost <= 5, what
        attempt()
        assert read() == (spent + 3, lost + 1, 10), what
    enough(points, 1)


def test_an_attempt_ended_by_a_sign_is_rejected(tmp: Path, points: Points) -> None:
    """The law of stopped.txt: where it is, the next start of the attempt says so, however much of it was written."""
    guard, error = load_task("guard").Guard, load_task("runtime").JobError
    one = types.SimpleNamespace(
        folder=tmp / "volume", stop_on={}, stopping=True, sign="s", reason="r", evidence_folder="e"
    )
    one.folder.mkdir()

    def end() -> None:
        with contextlib.suppress(error):
            guard.should_restart(one)

    for what in outcomes(one.folder, tmp / "store", end, STOPPABLE):
        points.add(what)
        if os.listdir(one.folder):
            with pytest.raises(error, match=r"ended this attempt: \w"):
                guard.refuse(one)
        end()
        with pytest.raises(error, match="ended this attempt: r"):
            guard.refuse(one)


@pytest.mark.parametrize("step", STEPS)
def test_prepared_data_is_complete_and_edited_data_is_kept(tmp: Path, points: Points, step: int) -> None:
    """The law of prepare-data: what the record names is whole, and rows that somebody has edited stay somewhere."""
    source, folder = tmp / "raw", tmp / "volume/gsm8k"
    for split in ("train", "test"):
        add(source, f"{split}.jsonl", json.dumps({"question": f"{split}?", "answer": "#### 72"}) + "\n")
    entry = {"repository": str(source), "subset": "", "question": "question", "answer": "answer"}
    task = {"directory": str(folder.parent), "format": "jsonl", "datasets": {"gsm8k": entry}}
    assert not started("prepare_data", task)
    whole = contents(folder)
    add(folder, "train.jsonl", "edited by hand")
    for what in outcomes(folder.parent, tmp / "store", lambda: started("prepare_data", task), ERRORS, step):
        points.add(what)
        assert "edited by hand" in contents(folder).values(), what
        assert not started("prepare_data", task), what
        found = contents(folder)
        assert whole.items() <= found.items(), what
        assert "edited by hand" in found.values(), what
        assert all("changed" in name or name.startswith(".prepared") for name in found.keys() - whole.keys()), what
    enough(points, step)


@pytest.mark.parametrize("step", STEPS)
def test_a_local_copy_is_complete_or_absent(
    tmp: Path, points: Points, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The law of staging: the next start finds a whole copy or makes it, and copies of others stay."""
    staging, source, disk = load_task("model_staging"), tmp / "model", tmp / "volume/disk"
    monkeypatch.setattr(staging, "READERS", 1)
    for name in ("config.json", "model.safetensors", "sub/tokenizer.model"):
        add(source, name, name)
    add(disk, "other/theirs/config.json", "theirs")
    add(disk, "killed/model.part/config.json", "half")
    add(disk, "0/model/config.json", "cut")
    sizes, target = staging.files_of(str(source)), disk / "0/model"
    room = {"directory": str(disk), "advice": ""}
    whole = contents(source)

    def copy() -> None:
        staging.copy(str(source), str(target), sizes, room)

    for what in outcomes(disk.parent, tmp / "store", copy, ERRORS, step):
        points.add(what)
        assert not staging.whole(str(target), sizes) or contents(target) == whole, what
        copy()
        assert contents(target) == whole, what
        assert contents(disk / "other/theirs") == {"config.json": "theirs"}, what
        # A folder that cannot be listed may be somebody else's, and its parts wait for the next copy.
        assert "scandir" in what or not list(disk.glob("*/*.part")), what
    enough(points, step)


def test_an_incomplete_directory_listing_never_yields_a_smaller_model(tmp: Path) -> None:
    """A copy without the files of that folder would be whole for those who count by the same list."""
    staging, digest = load_task("model_staging"), load_task("code_digest").tree_digest
    add(tmp, "model/config.json", "{}")
    add(tmp, "model/sub/tokenizer.model", "x")
    for read in (staging.files_of, digest):
        whole = read(str(tmp / "model"))
        for at in range(1, 100):
            with Calls(tmp, "error", at), contextlib.suppress(OSError):
                assert read(str(tmp / "model")) == whole, f"call {at}"


def test_an_incomplete_directory_listing_never_makes_a_step_complete(tmp: Path, points: Points) -> None:
    listed = load_task("checkpoints").list_checkpoints
    broken = files.nemo_rl(tmp / "nemo-rl", 10)
    files.dcp(broken / "policy/optimizer")
    (broken / "policy/optimizer/.metadata").unlink()
    (files.verl(tmp / "verl", 10) / "actor/optim_world_size_2_rank_1.pt").unlink()
    for framework, at in itertools.product(("nemo-rl", "verl"), range(1, 60)):
        points.add(f"error: at call {at}")
        with Calls(tmp, "error", at), contextlib.suppress(OSError):
            assert not any(one.complete for one in listed(tmp / framework, framework)), f"{framework}: call {at}"


@pytest.mark.parametrize("framework", ["nemo-rl", "verl"])
def test_a_single_volume_error_does_not_set_a_run_back(tmp: Path, points: Points, framework: str) -> None:
    """A whole step that cannot be read now is read by the next start."""
    resume, run = load_task("resume"), tmp / "run"
    for number in (10, 20):
        step = (files.verl if framework == "verl" else files.nemo_rl)(run, number)
    tracker = run / "checkpoints/latest_checkpointed_iteration.txt"
    if framework == "verl":
        tracker.write_text("20")
    else:
        files.dcp(step / "policy/optimizer")
    before = contents(run)
    for at in itertools.count(1):
        what = list[str]()
        with Calls(run, "error", at) as calls, contextlib.suppress(OSError, load_task("runtime").JobError):
            calls.before = lambda name, path: what.append(f"{name} of {path}")  # noqa: B023
            resume.ensure_complete({"identity": {"framework": framework}}, run, lambda: None)
        if calls.count < at:
            break
        points.add(f"error: at call {at}")
        assert contents(run) == before, what[at - 1]
    enough(points, 4)


@pytest.mark.parametrize("step", STEPS)
def test_fetched_code_is_verified_or_absent(
    tmp: Path, points: Points, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The law of job.code: the directory has the code of its record, or a start says that it has not."""
    fetch_code, digest = load_task("fetch_code"), load_task("code_digest")
    directory = tmp / "volume/code/a"

    def get(_repository: str, _revision: str, folder: str) -> None:
        for name in ("a.py", "sub/b.py"):
            add(Path(folder), name, name)

    monkeypatch.setattr(fetch_code, "get_repository", get)
    add(tmp / "volume", "code/other/c.py", "theirs")
    code = {"directory": str(directory), "repository": "https://example.com/a", "revision": "0" * 40}
    for what in outcomes(tmp / "volume", tmp / "store", lambda: fetched(fetch_code, code), ERRORS, step):
        points.add(what)
        assert contents(tmp / "volume/code/other") == {"c.py": "theirs"}, what
        failed = fetched(fetch_code, code)
        # What a node had not written when it died is noticed, and told.
        assert not failed or ("node dies" in what and "run the fetch task again" in failed), f"{what}: {failed}"
        assert failed or digest.verify_code(str(directory)), what
    enough(points, step)


def fetched(program: Any, code: dict[str, Any]) -> str:
    try:
        program.fetch_code(code)
    except load_task("runtime").JobError as error:
        return str(error)
    return ""


class Library:
    """The Hub's library as fetch.py uses it: a file gets its name when it is whole, and a snapshot has links."""

    def __init__(self, sizes: dict[str, int], commit: str) -> None:
        self.sizes, self.commit, self.downloads = sizes, commit, 0

    def HfApi(self) -> Any:  # noqa: N802
        return self

    def repo_info(self, _repository: str, **_: Any) -> Any:
        files = [types.SimpleNamespace(rfilename=name, size=size) for name, size in self.sizes.items()]
        return types.SimpleNamespace(sha=self.commit, siblings=files)

    def hf_hub_download(self, repository: str, name: str, *, revision: str, cache_dir: str, repo_type: str) -> None:
        self.downloads += 1
        folder = os.path.join(cache_dir, f"{repo_type}s--" + repository.replace("/", "--"))
        blob, link = f"{folder}/blobs/{name}", f"{folder}/snapshots/{revision}/{name}"
        for path in (blob, link):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(f"{blob}.incomplete", "w") as file:
            file.write("x" * self.sizes[name])
        os.replace(f"{blob}.incomplete", blob)
        if not os.path.lexists(link):
            os.symlink(blob, link)


@pytest.mark.parametrize("step", STEPS)
def test_a_fetched_model_is_complete_when_its_record_says_so(
    tmp: Path, points: Points, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The law of fetch: whole files are kept and not loaded again, and refs/main names a snapshot that is whole."""
    fetch, sizes = load_task("fetch"), {"config.json": 2, "model.safetensors": 500, "vocab.txt": 50}
    library, hub = Library(sizes, "1" * 40), tmp / "volume/hub"
    model = hub / "models--a--b"
    monkeypatch.setenv("HF_HOME", str(tmp / "volume"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setattr(fetch, "hub", lambda: library)
    for name, value in (("STREAMS", 1), ("PAUSE", 0.0)):
        monkeypatch.setattr(fetch, name, value)
    task = {"models": {"a/b": {"revision": "main"}}, "datasets": {}, "code": None}

    def is_whole(commit: str) -> bool:
        return all(fetch.size_of(f"{model}/snapshots/{commit}/{name}") == size for name, size in sizes.items())

    # Fetched once; then one file of it was cut off.
    assert not started("fetch", task)
    (model / "blobs/vocab.txt").write_text("cut")
    whole = (model / "blobs/model.safetensors").read_text()
    for what in outcomes(tmp / "volume", tmp / "store", lambda: started("fetch", task), ERRORS, step):
        points.add(what)
        library.downloads = 0
        assert (model / "refs/main").read_text() == "1" * 40, what
        assert (model / "blobs/model.safetensors").read_text() == whole, what
        assert not started("fetch", task), what
        assert is_whole("1" * 40), what
        assert library.downloads <= 1, what
    enough(points, step)


def volume_of(machine: Machine) -> Path:
    """Make a run on the volume of a machine, whose newest step is not complete, for the second time."""
    files.nemo_rl(machine.directory, 10)
    files.nemo_rl(machine.directory, 20, state="incomplete_")
    add(files.nemo_rl(machine.directory, 20), "policy/weights/__1_0.distcp", "wei")
    return machine.tmp / "data"


def launch(machine: Machine, attempt: int) -> Launch:
    plan = machine.plan(attempt, command=["sleep", str(LAPSE / 4)], takeoverSeconds=100 * LAPSE)
    plan["identity"] = {"run": "gemma3-gsm8k", "framework": "nemo-rl"}
    started: Launch = machine.start_plan(plan)
    return started


def never_two(machine: Machine, what: str) -> int:
    """Return how many trainers there were, none of them beside another."""
    trainers = [one for one in machine.table.processes.values() if one.parent and one.pid != one.group]
    spans = sorted((one.started, one.ended) for one in trainers)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans)), f"{what}: {spans}"
    return len(spans)


@contextlib.contextmanager
def simulated(folder: Path) -> Iterator[Machine]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    machine = Machine(folder)
    machine.environment["GRPO_OWNER_BEAT_SECONDS"] = str(LAPSE / 8)
    try:
        yield machine
    finally:
        machine.close()


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("framework", ["nemo-rl", "verl"])
def test_a_delayed_launcher_does_not_touch_its_successors_steps(
    tmp: Path, points: Points, framework: str, step: int
) -> None:
    """The law of a start with an incomplete step: the next attempt may own the run from any moment on."""
    resume, listed = load_task("resume"), load_task("checkpoints").list_checkpoints
    error, run, plan = load_task("runtime").JobError, tmp / "run", {"identity": {"framework": framework}}
    make, last = (files.verl, 30) if framework == "verl" else (files.nemo_rl, 20)
    tracker = run / "checkpoints/latest_checkpointed_iteration.txt"
    for at in itertools.count(1, step):
        shutil.rmtree(run, ignore_errors=True)
        make(run, 10)
        if framework == "verl":
            (make(run, 20) / "data.pt").unlink()
            tracker.write_text("20")
        else:
            files.nemo_rl(run, 20, state="incomplete_")
            add(make(run, 20), "policy/weights/__1_0.distcp", "wei")
        taken = list[str]()

        def take_over(call: str, path: str) -> None:
            if calls.count + 1 == at:  # noqa: B023
                taken.append(f"stopped for 3 lapses: before {call} of {path}")  # noqa: B023
                resume.ensure_complete(plan, run, lambda: None)
                if not (run / f"checkpoints/step_{last}").exists():
                    make(run, last)
                    if framework == "verl":
                        tracker.write_text(str(last))

        def prove() -> None:
            if taken:  # noqa: B023
                raise error("taken over")

        with Calls(run) as calls, contextlib.suppress(error, OSError):
            calls.before = take_over
            resume.ensure_complete(plan, run, prove)
        if not taken:
            break
        points.add(taken[0])
        (resumed,) = (one for one in listed(run, framework) if one.resume)
        assert (resumed.step, resumed.complete) == (last, True), taken
        kept = run / "checkpoints/incomplete_step_20/policy/weights/__1_0.distcp"
        assert framework == "verl" or kept.read_text() == "wei", taken
    enough(points, step)


def both(machine: Machine) -> None:
    """Let a second attempt wait for the first one, until both have ended."""
    first = launch(machine, 1)
    machine.sleep(LAPSE / 10)
    second = launch(machine, 2)
    machine.until(lambda: first.ended() and second.ended(), "both attempts end")


def no_step_is_lost(machine: Machine, what: str) -> None:
    folder, last = machine.directory / "checkpoints", "policy/weights/__1_0.distcp"
    assert (folder / "step_10/training_info.json").exists(), what
    found = [folder / name / last for name in ("step_20", "incomplete_step_20")]
    assert any(path.exists() and path.read_text() == "wei" for path in found), what


def strike(machine: Machine, calls: Calls, kind: str, at: int) -> None:
    """Kill the launcher that makes a call, just before it, or stop it for much longer than the lapse."""

    def before(_name: str, _path: str) -> None:
        if calls.count + 1 != at:
            return
        task = getcurrent()
        assert isinstance(task, Task)
        pid = cast(Process, task.host).pid

        def go_on() -> None:
            machine.sleep(3 * LAPSE)
            machine.kill(pid, signal.SIGCONT)

        if kind == HELD_UP:
            machine.start_task(go_on)
        machine.kill(pid, signal.SIGSTOP if kind == HELD_UP else signal.SIGKILL)

    calls.before = before


KILLED, HELD_UP = "launcher killed", "launcher stopped for 3 lapses"


@pytest.mark.parametrize("step", [pytest.param(120), pytest.param(1, marks=pytest.mark.full)])
def test_a_run_has_one_writer_and_can_always_be_restarted(tmp: Path, points: Points, step: int) -> None:
    """The law of the owner and its records: whatever fails, never two trainers, and the next start trains."""
    with simulated(tmp / "machine") as machine:
        crashes = Crashes(volume_of(machine), tmp / "store")
        crashes.store.mkdir()
        with Calls(crashes.root) as calls:
            calls.before, calls.after = crashes.before, crashes.after
            both(machine)
        assert never_two(machine, "no fault") == 2
    deaths = [*crashes.deaths()]
    for (what, copy, lost), attempt in itertools.product(deaths[:: max(1, step // 4)], (1, 2)):
        points.add(what)
        with simulated(tmp / "machine") as machine:
            put(copy, machine.tmp / "data", lost)
            again = launch(machine, attempt)
            said = again.wait(), again.output
            # The first attempt may find that the second one exists.
            assert said[0] == 0 or (attempt == 1 and "attempt 2 of gemma3-gsm8k exists" in said[1]), f"{what}: {said}"
            no_step_is_lost(machine, what)
    for kind, at in itertools.product((*ERRORS, KILLED, HELD_UP), range(1, calls.count + 1, step)):
        what = f"{kind}: at call {at}"
        points.add(what)
        with simulated(tmp / "machine") as machine:
            with Calls(volume_of(machine), kind, at) as failing:
                if kind not in ERRORS:
                    strike(machine, failing, kind, at)
                both(machine)
            last = launch(machine, 3)
            assert last.wait() == 0, f"{what}: {last.output}"
            never_two(machine, what)
            no_step_is_lost(machine, what)
    enough(points, step)
