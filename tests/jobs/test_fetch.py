"""Fetching with the real huggingface_hub from a Hub on this machine; code with the real git and pip."""

from __future__ import annotations

import compileall
import io
import json
import os
import re
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from .hub import Hub, Repository, serve
from .tasks import GSM8K, Done, load_task, run_task, run_task_here, solutions

MODEL, DATA = "google/gemma-3-27b-it", "openai/gsm8k"
TOKEN = "hf_" + "x" * 34
FILES = {
    "config.json": b"{}",
    "model-00001-of-00002.safetensors": b"1" * 5000,
    "model-00002-of-00002.safetensors": b"2" * 6000,
    "tokenizer.json": b"[]",
}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serve() as hub:
        yield hub


@pytest.fixture
def model(hub: Hub) -> Repository:
    return hub.add(MODEL, dict(FILES))


def fetch(
    tmp_path: Path, hub: Hub, *, revision: str = "main", token: str = "", model: str = MODEL, **keys: Any
) -> Done:
    task = {"models": {model: {"revision": revision}}, "datasets": {}, "code": None, **keys}
    secret = {"HF_TOKEN": token} if token else {}
    # The offline switch stands in the pods' environment; fetching is what makes offline training possible.
    settings = {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_OFFLINE": "1",
        "GRPO_FETCH_PAUSE_SECONDS": "0.1",
        **secret,
    }
    done = run_task("fetch", task, tmp_path, **settings)
    assert not token or token not in done.output
    return done


def load_offline(tmp_path: Path, model: str, *, kind: str = "model", hub: Hub | None = None) -> dict[str, bytes]:
    """Load a repository as a trainer does: without a revision, and offline unless a Hub is given."""
    script = "import sys, huggingface_hub as h; print(h.snapshot_download(sys.argv[1], repo_type=sys.argv[2]))"
    place = {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0"} if hub else {"HF_HUB_OFFLINE": "1"}
    path = subprocess.run(
        [sys.executable, "-c", script, model, kind],
        env={**os.environ, "HF_HOME": str(tmp_path / "hf"), **place},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    return {str(file.relative_to(path)): file.read_bytes() for file in Path(path).rglob("*") if file.is_file()}


CARD = """---
configs:
- config_name: main
  data_files: [{split: train, path: main/train-*}]
- config_name: socratic
  data_files: [{split: train, path: socratic/train-*}]
---
"""


def data_files(number: int = 0) -> dict[str, bytes]:
    """Return a data set repository of two configurations as the Hub has it."""
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(solutions()[number:]), file)
    names = [f"{config}/train-00000-of-00001.parquet" for config in ("main", "socratic")]
    return {"README.md": CARD.encode(), **dict.fromkeys(names, file.getvalue())}


def load_by_name(tmp_path: Path) -> int:
    """Load the data set as NeMo RL does, offline; return its number of rows."""
    script = "import datasets; print(datasets.load_dataset('openai/gsm8k', 'main')['train'].num_rows)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout)


def record(tmp_path: Path) -> Path:
    return tmp_path / "hf/grpo-fetched/models--google--gemma-3-27b-it.json"


@pytest.mark.full
def test_a_fetched_model_and_data_set_are_found_offline(tmp_path: Path, hub: Hub, model: Repository) -> None:
    rows = data_files()
    hub.add(f"datasets/{DATA}", rows)
    said = fetch(tmp_path, hub, datasets={DATA: {"revision": "main"}}).succeeds()
    assert load_offline(tmp_path, MODEL) == FILES
    assert load_offline(tmp_path, DATA, kind="dataset") == rows
    commit = model.branches["main"]
    assert f"to pin it, set job.fetch.models.{MODEL}.revision to {commit}" in said
    assert json.loads(record(tmp_path).read_text())["commit"] == commit


@pytest.mark.full
def test_a_data_set_loads_by_name_offline(tmp_path: Path, hub: Hub) -> None:
    repository = hub.add(f"datasets/{DATA}", data_files())
    first = repository.branches["main"]
    fetch(tmp_path, hub, models={}, datasets={DATA: {}}).succeeds()
    assert load_by_name(tmp_path) == len(GSM8K)
    asked = len(hub.requests)
    fetch(tmp_path, hub, models={}, datasets={DATA: {}}).succeeds()
    assert len(hub.requests) == asked, hub.requests[asked:]
    # Another commit, and the first one again: its tables are the older ones.
    second = repository.push(data_files(3))
    fetch(tmp_path, hub, models={}, datasets={DATA: {"revision": second}}).succeeds()
    assert load_by_name(tmp_path) == len(GSM8K) - 3
    fetch(tmp_path, hub, models={}, datasets={DATA: {"revision": first}}).succeeds()
    assert load_by_name(tmp_path) == len(GSM8K)


@pytest.mark.full
def test_a_data_set_that_the_library_cannot_parse_is_still_fetched(tmp_path: Path, hub: Hub) -> None:
    hub.add(f"datasets/{DATA}", {"README.md": b"#", "notes.xyz": b"1"})
    said = fetch(tmp_path, hub, models={}, datasets={DATA: {}}).succeeds()
    assert "it cannot be loaded by name offline" in said
    assert set(load_offline(tmp_path, DATA, kind="dataset")) == {"README.md", "notes.xyz"}


@pytest.mark.full
def test_a_branch_is_resolved_once(tmp_path: Path, hub: Hub, model: Repository) -> None:
    fetch(tmp_path, hub).succeeds()
    asked, first = len(hub.requests), model.branches["main"]
    model.push({**FILES, "config.json": b'{"new": 1}'})
    assert f"commit {first} is in the cache already" in fetch(tmp_path, hub).succeeds()
    assert fetch(tmp_path, hub, revision=first).succeeds()
    assert len(hub.requests) == asked, hub.requests[asked:]
    # Even when files are gone.
    next((tmp_path / "hf/hub").glob("*/snapshots/*/config.json")).unlink()
    fetch(tmp_path, hub).succeeds()
    assert load_offline(tmp_path, MODEL) == FILES


@pytest.mark.full
def test_fetching_another_commit_makes_it_the_default(tmp_path: Path, hub: Hub, model: Repository) -> None:
    fetch(tmp_path, hub).succeeds()
    old = model.branches["main"]
    new = model.push({**FILES, "config.json": b'{"new": 1}'})
    assert "write this revision" not in fetch(tmp_path, hub, revision=new).succeeds()
    assert load_offline(tmp_path, MODEL)["config.json"] == b'{"new": 1}'
    fetch(tmp_path, hub, revision=old).succeeds()
    assert load_offline(tmp_path, MODEL)["config.json"] == b"{}"


@pytest.mark.full
def test_a_trainer_with_network_access_does_not_load_a_pinned_commit(
    tmp_path: Path, hub: Hub, model: Repository
) -> None:
    """What the rule job/revision-not-used says of the library: without a revision it asks for main."""
    old = model.branches["main"]
    model.push({**FILES, "config.json": b'{"new": 1}'})
    fetch(tmp_path, hub, revision=old).succeeds()
    assert load_offline(tmp_path, MODEL)["config.json"] == b"{}"
    assert load_offline(tmp_path, MODEL, hub=hub)["config.json"] == b'{"new": 1}'


@pytest.mark.full
def test_a_branch_other_than_main_becomes_the_default_too(tmp_path: Path, hub: Hub, model: Repository) -> None:
    model.push({**FILES, "config.json": b'{"pr": 7}'}, branch="refs/pr/7")
    fetch(tmp_path, hub, revision="refs/pr/7").succeeds()
    assert load_offline(tmp_path, MODEL)["config.json"] == b'{"pr": 7}'
    assert (tmp_path / "hf/hub/models--google--gemma-3-27b-it/refs/refs/pr/7").exists()


@pytest.mark.full
def test_a_truncated_file_is_fetched_again(tmp_path: Path, hub: Hub, model: Repository) -> None:
    fetch(tmp_path, hub).succeeds()
    weights = next((tmp_path / "hf/hub").glob("*/snapshots/*/model-00001*"))
    weights.resolve().write_bytes(b"1" * 10)
    before = len(hub.requests)
    fetch(tmp_path, hub).succeeds()
    assert load_offline(tmp_path, MODEL) == FILES
    assert not [line for line in hub.requests[before:] if "model-00002" in line]


@pytest.mark.full
def test_an_interrupted_fetch_is_completed(tmp_path: Path, hub: Hub, model: Repository) -> None:
    """Without its record the snapshot counts as unfinished, and what is there is kept."""
    fetch(tmp_path, hub).succeeds()
    record(tmp_path).unlink()
    next((tmp_path / "hf/hub").glob("*/snapshots/*/model-00002*")).unlink()
    before = len(hub.requests)
    fetch(tmp_path, hub).succeeds()
    assert load_offline(tmp_path, MODEL) == FILES
    assert not [line for line in hub.requests[before:] if "model-00001" in line]


@pytest.mark.parametrize(
    ("more", "left_out"),
    [
        (["original/consolidated.00.pth", "pytorch_model-00001-of-00001.bin", "tf_model.h5", "model.gguf"], True),
        (["consolidated.safetensors", "consolidated-00001-of-00002.safetensors", "onnx/model.onnx"], True),
        (["training_args.bin", "adapter_model.bin", "state.pkl", "pooling/pytorch_model.bin"], True),
        (["chat_template.jinja", "tokenizer.model", "vision/config.json", "modeling_gemma.py"], False),
    ],
)
def test_weights_are_fetched_in_one_format_only(more: list[str], left_out: bool) -> None:
    chosen = load_task("fetch").chosen
    assert chosen([*FILES, *more]) == [*FILES, *([] if left_out else more)]


@pytest.mark.parametrize(
    "weights", ["pytorch_model.bin", "consolidated.safetensors", "consolidated.00.pth", "model.gguf"]
)
def test_the_only_weights_are_never_left_out(weights: str) -> None:
    assert load_task("fetch").chosen(["config.json", weights]) == ["config.json", weights]


def test_only_the_weights_may_be_pickles() -> None:
    chosen = load_task("fetch").chosen
    more = ["training_args.bin", "optimizer.pt", "state.pickle", "original/consolidated.00.pth"]
    assert chosen(["config.json", "pytorch_model.bin", *more]) == ["config.json", "pytorch_model.bin"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            ["modeling_own.py", "tokenization_own.py"],
            "it has code, which may run in the pods: modeling_own.py and 1 more",
        ),
        (["pytorch_model.bin"], "a format that can carry code; prefer safetensors: pytorch_model.bin"),
        (["model.safetensors", "training_args.bin"], ""),
    ],
)
def test_code_that_could_run_in_the_pods_is_named(
    files: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = load_task("fetch")
    module.warn_of_code(module.Wanted("model", MODEL, "main"), module.chosen(["config.json", *files]))
    assert said in capsys.readouterr().out if said else not capsys.readouterr().out


@pytest.mark.full
def test_duplicate_weights_are_not_downloaded(tmp_path: Path, hub: Hub) -> None:
    hub.add(MODEL, {**FILES, "original/consolidated.00.pth": b"3" * 11000})
    assert "skipped 1 files: copies of the weights" in fetch(tmp_path, hub).succeeds()
    assert load_offline(tmp_path, MODEL) == FILES


def test_a_full_volume_is_detected_before_the_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = load_task("fetch")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 12 << 30}))
    with pytest.raises(module.JobError) as caught:
        module.download(module.Wanted("model", MODEL, "main"), "0" * 40, {"model.safetensors": 55 << 30})
    assert f"{MODEL} needs 55.0 GiB more and {tmp_path}/hub has 12.0 GiB free: delete files" in str(caught.value)


@pytest.mark.full
def test_a_gated_models_error_asks_to_accept_the_licence(tmp_path: Path, hub: Hub) -> None:
    hub.add(MODEL, FILES, gated=True)
    said = fetch(tmp_path, hub).fails()
    assert "is gated: accept the licence on its page, and set huggingface.secret" in said
    hub.tokens = {TOKEN: False}
    assert "the account of this token has no access: accept the licence" in fetch(tmp_path, hub, token=TOKEN).fails()
    hub.tokens = {TOKEN: True}
    fetch(tmp_path, hub, token=TOKEN).succeeds()


def test_a_token_that_the_hub_rejects_is_reported(tmp_path: Path, hub: Hub, model: Repository) -> None:
    assert "the Hub rejects the token: put a valid one" in fetch(tmp_path, hub, token=TOKEN).fails()


@pytest.mark.full
def test_a_missing_or_hidden_model_is_reported(tmp_path: Path, hub: Hub, model: Repository) -> None:
    model.private = True
    said = fetch(tmp_path, hub).fails()
    assert f"{MODEL} (job.fetch.models.{MODEL}) was not found: check its spelling, or it is private" in said
    hub.tokens = {TOKEN: True}
    said = fetch(tmp_path, hub, model="google/gema", token=TOKEN).fails()
    assert "was not found: check its spelling, or this token may not see it" in said
    said = fetch(tmp_path, hub, token=TOKEN, revision="mian").fails()
    assert "has no revision mian: set an existing branch or commit" in said


@pytest.mark.parametrize("name", ["../../etc", "a/b/c", "google/..", ""])
def test_an_invalid_repository_name_is_rejected(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whoever would ask the hub fails with another sentence.
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    done = run_task_here("fetch", {"models": {name: {"revision": "main"}}}, tmp_path, HF_HOME=str(tmp_path / "hf"))
    assert "expected a repository such as google/gemma-3-27b-it" in done.fails()


def test_without_a_network_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = Hub(url=f"http://127.0.0.1:{unused.getsockname()[1]}")
        said = fetch(tmp_path, nobody).fails()
    assert f"no answer from {nobody.url}: this pod needs internet access" in said


@pytest.mark.full
def test_transient_errors_are_retried(tmp_path: Path, hub: Hub, model: Repository) -> None:
    hub.faults = [503, 429]
    fetch(tmp_path, hub).succeeds()
    hub.faults = [503] * 30
    said = fetch(tmp_path, hub, revision=model.push(FILES)).fails()
    assert "the Hub answered 503: try again later" in said


def test_without_a_cache_nothing_is_fetched(tmp_path: Path) -> None:
    done = run_task_here("fetch", {"models": {MODEL: {"revision": "main"}}}, tmp_path)
    assert "HF_HOME is not set: set huggingface.cache.volume" in done.fails()


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """A git repository with two commits."""
    folder, commits = tmp_path_factory.mktemp("upstream"), []
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    for number in (1, 2):
        (folder / "verl").mkdir(exist_ok=True)
        (folder / "verl/__init__.py").write_text(f"number = {number}\n")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", "x"], check=True)
        head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
        commits.append(head.stdout.strip())
    return f"file://{folder}", commits


def fetch_code(tmp_path: Path, **code: Any) -> Done:
    return run_task_here("fetch", {"code": {"directory": str(tmp_path / "code/verl"), **code}}, tmp_path)


def code_digest(tmp_path: Path) -> str:
    digest: str = load_task("code_digest").verify_code(str(tmp_path / "code/verl"))
    return digest


def test_a_repository_is_fetched_at_a_commit(tmp_path: Path, upstream: tuple[str, list[str]]) -> None:
    repository, (first, _) = upstream
    fetch_code(tmp_path, repository=repository, revision=first).succeeds()
    assert (tmp_path / "code/verl/verl/__init__.py").read_text() == "number = 1\n"
    assert not (tmp_path / "code/verl/.git").exists()
    assert os.listdir(tmp_path / "code") == ["verl"]
    digest = code_digest(tmp_path)
    # Training writes byte code beside the sources, and that changes nothing.
    compileall.compile_dir(tmp_path / "code/verl", quiet=1)
    assert (tmp_path / "code/verl/verl/__pycache__").exists()
    again = fetch_code(tmp_path, repository=repository, revision=first).succeeds()
    assert f"contains the requested code (digest {digest[:12]})" in again


def test_a_branch_or_a_short_commit_is_rejected_as_a_revision(tmp_path: Path, upstream: tuple[str, list[str]]) -> None:
    for revision in ("main", upstream[1][0][:12]):
        said = fetch_code(tmp_path, repository=upstream[0], revision=revision).fails()
        assert f"job.code.revision is '{revision}', expected a full commit of 40 hexadecimal digits" in said
    said = fetch_code(tmp_path, repository=upstream[0], revision="0" * 40).fails()
    assert f"cannot get {'0' * 12} of {upstream[0]} (job.code): git ended with" in said
    assert os.listdir(tmp_path / "code") == []


def test_modified_code_is_rejected(tmp_path: Path, upstream: tuple[str, list[str]]) -> None:
    repository, (first, second) = upstream
    fetch_code(tmp_path, repository=repository, revision=first).succeeds()
    said = fetch_code(tmp_path, repository=repository, revision=second).fails()
    assert "contains other code" in said
    assert first in said
    (tmp_path / "code/verl/verl/__init__.py").write_text("number = 3\n")
    said = fetch_code(tmp_path, repository=repository, revision=first).fails()
    assert "is not what was fetched" in said
    assert "delete the directory, and run the fetch task again" in said
    refused = load_task("runtime").JobError
    with pytest.raises(refused, match="is not what was fetched"):
        code_digest(tmp_path)


def test_a_directory_owned_by_someone_else_is_rejected(tmp_path: Path, upstream: tuple[str, list[str]]) -> None:
    (tmp_path / "code/verl").mkdir(parents=True)
    (tmp_path / "code/verl/notes.txt").write_text("mine")
    said = fetch_code(tmp_path, repository=upstream[0], revision=upstream[1][0]).fails()
    assert "was not made by the fetch task (no grpo.json)" in said
    assert os.listdir(tmp_path / "code/verl") == ["notes.txt"]


@pytest.mark.parametrize("change", ["content", "name", "added", "removed", "link"])
def test_every_change_changes_the_digest(tmp_path: Path, change: str) -> None:
    digest = load_task("code_digest").tree_digest
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one.py").write_text("1")
    (tmp_path / "a/link").symlink_to("one.py")
    (tmp_path / "b.py").write_text("2")
    before = digest(str(tmp_path))
    assert digest(str(tmp_path)) == before
    if change == "content":
        (tmp_path / "a/one.py").write_text("2")
    elif change == "name":
        (tmp_path / "a/one.py").rename(tmp_path / "a/two.py")
    elif change == "added":
        (tmp_path / "a/new.py").write_text("")
    elif change == "removed":
        (tmp_path / "b.py").unlink()
    else:
        (tmp_path / "a/link").unlink()
        (tmp_path / "a/link").symlink_to("../b.py")
    assert digest(str(tmp_path)) != before


def wheel(folder: Path, version: str, name: str = "verl") -> None:
    """Write the smallest wheel, with a dependency that exists nowhere."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: nowhere\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}/__init__.py", f"__version__ = {version!r}\n")
        file.writestr(f"{info}/METADATA", metadata)
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: a\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", f"{name}/__init__.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


@pytest.mark.full
def test_packages_are_installed_without_dependencies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(tmp_path / "wheels", "0.7.1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    said = fetch_code(tmp_path, packages={"verl": "0.7.0"}).fails()
    assert "cannot install verl==0.7.0 (job.code.packages)" in said
    assert "No matching distribution found for verl==0.7.0" in said
    fetch_code(tmp_path, packages={"verl": "0.7.1"}).succeeds()
    assert (tmp_path / "code/verl/verl/__init__.py").read_text() == "__version__ = '0.7.1'\n"
    assert os.listdir(tmp_path / "code") == ["verl"]
    first = code_digest(tmp_path)
    assert "contains the requested code" in fetch_code(tmp_path, packages={"verl": "0.7.1"}).succeeds()
    # The same packages make the same digest wherever they are installed.
    code = {"directory": str(tmp_path / "other/verl"), "packages": {"verl": "0.7.1"}}
    run_task("fetch", {"code": code}, tmp_path).succeeds()
    assert load_task("code_digest").verify_code(code["directory"]) == first


@pytest.mark.full
def test_a_repository_and_packages_share_the_directory(
    tmp_path: Path, upstream: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(tmp_path / "wheels", "1.0", "extra")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    repository, (first, _) = upstream
    code = {"repository": repository, "revision": first, "packages": {"extra": "1.0"}}
    fetch_code(tmp_path, **code).succeeds()
    assert sorted(os.listdir(tmp_path / "code/verl")) == ["extra", "extra-1.0.dist-info", "grpo.json", "verl"]
    assert json.loads((tmp_path / "code/verl/grpo.json").read_text())["source"] == code
    # The chart writes what is not asked for as empty.
    (tmp_path / "other").mkdir()
    empty = {"repository": "", "revision": "", "packages": {"extra": "1.0"}, "directory": str(tmp_path / "other/x")}
    run_task("fetch", {"code": empty}, tmp_path).succeeds()
    assert "names neither packages nor a repository" in fetch_code(tmp_path, packages={}).fails()


def test_without_git_the_archive_is_downloaded(
    tmp_path: Path, upstream: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load_task("fetch_code")
    commit, asked = upstream[1][0], []
    archive = tmp_path / "archive.tar.gz"
    git = ["git", "-C", upstream[0].removeprefix("file://"), "archive", "--prefix=verl-x/", "-o", str(archive), commit]
    subprocess.run(git, check=True)

    def urlopen(url: str, timeout: float) -> Any:
        asked.append(url)
        return archive.open("rb")

    monkeypatch.setattr(module.urllib.request, "urlopen", urlopen)
    (tmp_path / "out").mkdir()
    module.download("https://github.com/verl-project/verl.git", commit, str(tmp_path / "out"))
    assert (tmp_path / "out/verl/__init__.py").read_text() == "number = 1\n"
    assert asked == [f"https://github.com/verl-project/verl/archive/{commit}.tar.gz"]
    with pytest.raises(module.JobError, match=f"has commit {commit[:12]}, expected {'1' * 12}"):
        module.download("https://github.com/verl-project/verl", "1" * 40, str(tmp_path / "out"))


def test_no_token_is_written_to_a_file(tmp_path: Path, hub: Hub, model: Repository) -> None:
    hub.tokens = {TOKEN: True}
    fetch(tmp_path, hub, token=TOKEN).succeeds()
    texts = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not [text for text in texts if re.search(TOKEN.encode(), text)]
