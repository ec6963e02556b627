"""`grpo upload` with a stand-in for kubectl, which runs the program of the pod; tests/e2e/node has pods."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from grpo.cli import main as cli
from grpo.cli.uploading import sending
from tests.cli.clusters import Cluster, Waits, stand_in
from tests.conftest import ROOT, Render, by_kind, stack_files

FILES = [word for path in stack_files() for word in ("-f", str(path))]
VERL = [word for path in stack_files("b200", "qwen2.5-32b-gsm8k-verl") for word in ("-f", str(path))]
CLAIM = "gemma-data"
DATA = b'{"question": "1 + 1", "answer": "2"}\n' * 50_000
TOKEN = "hf_" + "aB3" * 8
ROW = DATA.splitlines(keepends=True)[0]


def pod(name: str = "ray-head", claim: str = CLAIM, **changes: Any) -> dict[str, Any]:
    """Return a pod as the API server does; a sidecar that does not mount the volume comes first."""
    mount = {"name": "data", "mountPath": "/data", **changes.pop("mount", {})}
    source = {"claimName": claim, **changes.pop("source", {})}
    return {
        "metadata": {"name": name, "labels": {"ray.io/node-type": "head"}, **changes},
        "spec": {
            "containers": [{"name": "sidecar"}, {"name": "ray", "volumeMounts": [mount]}],
            "volumes": [{"name": "dshm", "emptyDir": {}}, {"name": "data", "persistentVolumeClaim": source}],
        },
        "status": {"phase": "Running"},
    }


@pytest.fixture
def cluster(tmp_path: Path, render: Render, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = stand_in(tmp_path, monkeypatch, render)
    (tmp_path / "data").mkdir()
    found.put("pods.json", {"items": [pod()]})
    return found


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("train.jsonl").write_bytes(DATA)
    Path("test.jsonl").write_bytes(ROW)
    return tmp_path / "here"


class Upload:
    """A command line, with what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *words: str, files: list[str] = FILES) -> int:
        code = cli.main(["upload", *files, "-n", "rl", *words])
        self.out, self.err = self._capsys.readouterr()
        return code


@pytest.fixture
def upload(capsys: pytest.CaptureFixture[str], cluster: Cluster, here: Path) -> Upload:
    return Upload(capsys)


def arrived(cluster: Cluster) -> dict[str, bytes]:
    root = cluster.folder / "data"
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_uploaded_files_are_not_sent_again(cluster: Cluster, upload: Upload) -> None:
    assert upload("train.jsonl", "test.jsonl") == 0, upload.err
    assert arrived(cluster) == {"datasets/train.jsonl": DATA, "datasets/test.jsonl": ROW}
    assert upload.out == "/data/datasets/train.jsonl\n/data/datasets/test.jsonl\n"
    assert f"train.jsonl has arrived, 1.9 MB, sha256 {hashlib.sha256(DATA).hexdigest()}\n" in upload.err
    assert "job.config.data.train.data_path" in upload.err
    assert upload("train.jsonl", "test.jsonl") == 0
    assert "train.jsonl was there already, sha256 " in upload.err
    asked, sent, *_ = cluster.calls("exec")
    assert asked.startswith("exec ray-head --namespace rl --container ray -- python3 -I -c ")
    assert sent.startswith("exec --stdin ray-head --namespace rl --container ray -- python3 -I -c ")


def test_verl_uploads_print_the_folder_and_the_keys_to_set(cluster: Cluster, upload: Upload) -> None:
    for folder in ("mine/v2", "/data/datasets/mine/v2/"):
        assert upload("train.jsonl", "--to", folder, files=VERL) == 0, upload.err
        assert upload.out == "/data/datasets/mine/v2/train.jsonl\n"
    assert [*arrived(cluster)] == ["datasets/mine/v2/train.jsonl"]
    assert "job.config.data.train_files" in upload.err


def test_different_content_is_replaced_only_with_replace(cluster: Cluster, here: Path, upload: Upload) -> None:
    assert upload("train.jsonl") == 0
    Path("train.jsonl").write_bytes(ROW)
    assert upload("train.jsonl") == 2
    assert "/data/datasets/train.jsonl has another content\n  fix: --replace, " in upload.err
    assert arrived(cluster) == {"datasets/train.jsonl": DATA}
    assert upload("train.jsonl", "--replace") == 0
    assert arrived(cluster) == {"datasets/train.jsonl": ROW}


@pytest.mark.parametrize(
    ("on_the_way", "message"),
    [
        ("head -c 100000", f"train.jsonl: the connection ended, 100000 of {len(DATA)} bytes came"),
        ("tr 1 2", "train.jsonl: other bytes came than were sent: their sha256 differs"),
    ],
)
def test_an_incomplete_upload_leaves_no_file(cluster: Cluster, upload: Upload, on_the_way: str, message: str) -> None:
    (cluster.folder / "on-the-way").write_text(on_the_way)
    assert upload("train.jsonl") == 3
    assert upload.err.splitlines()[1:] == [
        message,
        "  fix: run it again: nothing under the name of the file has changed",
    ]
    assert (arrived(cluster), upload.out) == ({}, "")
    (cluster.folder / "on-the-way").unlink()
    assert upload("train.jsonl") == 0


def test_a_killed_pod_is_not_reported_as_success(cluster: Cluster, upload: Upload) -> None:
    """The pod is killed: kubectl says so, or nothing at all."""
    (cluster.folder / "bin/python3").write_text("#!/bin/sh\necho at 0; exec kill -9 $$\n")
    (cluster.folder / "bin/python3").chmod(0o755)
    assert upload("train.jsonl") == 3
    (cluster.folder / "bin/python3").write_text("#!/bin/sh\necho at 0\n")
    assert upload("train.jsonl") == 3
    assert "the connection ended before the pod had said that the file is there" in upload.err
    assert upload.out == ""


@pytest.mark.parametrize(
    "name", ["a b.jsonl", "$(id).jsonl", "-x.jsonl", ".hidden.jsonl", "a;b", "ä.jsonl", "a\nb", "*"]
)
def test_odd_names_are_refused(here: Path, cluster: Cluster, upload: Upload, name: str) -> None:
    Path(name).write_bytes(ROW)
    assert upload("--", f"./{name}") == 2
    assert "a name on the volume has letters, digits, and . _ - after the first one, at most 200" in upload.err
    assert not cluster.calls("exec")


@pytest.mark.parametrize(
    "folder", ["..", "../../etc", "/etc", "/data", "/data/runs/mine", "a//b", "a b", "-x", ".x", "/data/datasets/../x"]
)
def test_odd_folders_are_refused(cluster: Cluster, upload: Upload, folder: str) -> None:
    assert upload("train.jsonl", f"--to={folder}") == 2
    assert f"--to is {folder!r}, expected a folder below /data/datasets" in upload.err
    assert not cluster.calls("get")


def test_uploading_into_a_prepared_data_folder_is_refused(upload: Upload) -> None:
    """prepare-data ends at a file that it has not written."""
    assert upload("train.jsonl", "--to", "gsm8k") == 2
    assert "job.prepareData has gsm8k" in upload.err


@pytest.mark.parametrize("name", [".env", "prod.env", "id_rsa", "server.pem", ".ssh/known", ".config/gcloud/rows.json"])
def test_a_file_named_like_a_secret_is_refused(here: Path, cluster: Cluster, upload: Upload, name: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(ROW)
    assert upload(name) == 2
    assert f"{name}: by its name it holds secrets" in upload.err
    assert not cluster.calls("get")


def test_a_folder_named_like_a_secret_is_refused_with_advice(here: Path, cluster: Cluster, upload: Upload) -> None:
    (here / ".envs").mkdir()
    (here / ".envs/train.jsonl").write_bytes(ROW)
    assert upload(".envs/train.jsonl") == 2
    assert "holds secrets\n  fix: copy it into a folder with another name if it is data" in upload.err
    assert not arrived(cluster)


def test_a_link_out_of_the_folder_is_refused(here: Path, tmp_path: Path, upload: Upload) -> None:
    (tmp_path / "outside").write_bytes(ROW)
    links = {
        "out": tmp_path / "outside",
        "none": here / "nothing",
        "passwd": Path("/etc/passwd"),
        "secret": here / ".env",
    }
    (here / ".env").write_bytes(ROW)
    for name, target in links.items():
        Path(name).symlink_to(target)
        assert upload(name) == 2, name
    os.mkfifo("pipe")
    assert upload("pipe") == 2
    assert "no ordinary file" in upload.err
    Path("same.jsonl").symlink_to("train.jsonl")
    assert upload("same.jsonl") == 0


def test_a_token_in_a_file_is_refused(here: Path, cluster: Cluster, upload: Upload) -> None:
    Path("rows.jsonl").write_text(f'{{"question": "x"}}\n{{"answer": "{TOKEN}"}}\n')
    assert upload("rows.jsonl") == 2
    assert upload.err.splitlines()[1].startswith("rows.jsonl:2:13: this is a huggingface token")
    assert upload.err.rstrip().endswith("or delete it from the data")
    assert TOKEN not in upload.err
    assert not cluster.calls("exec")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "grpo upload: no file is given\n  fix: grpo upload FILE … -f VALUES …"),
        (["nothing.jsonl"], 3, "nothing.jsonl: there is no such file"),
        (["folder"], 2, "folder: this is a folder\n  fix: name its files: folder/*"),
        (["train.jsonl", "folder/train.jsonl"], 2, "folder/train.jsonl: train.jsonl has the same name"),
        (["train.jsonl", "--set", "job.volume=other"], 2, "job.volume is 'other', and storage has no volume"),
        (["train.jsonl", "--set", "job.volume=scratch"], 2, "job.volume is 'scratch', a local disk of each pod"),
    ],
)
def test_wrong_command_lines_are_refused(here: Path, upload: Upload, words: list[str], code: int, message: str) -> None:
    Path("folder").mkdir()
    Path("folder/train.jsonl").write_bytes(ROW)
    scratch = '{"mountPath": "/scratch", "ephemeral": {"size": "1Gi"}}'
    assert upload(*words, "--set-json", f"storage.scratch={scratch}") == code
    assert upload.err.startswith(message), upload.err
    assert upload.out == ""


def test_nothing_outside_the_checkout_is_sent(
    cluster: Cluster, upload: Upload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.jsonl").write_bytes(ROW)
    monkeypatch.setenv("GRPO_CHECKOUT", str(ROOT))
    assert upload(str(tmp_path / "rows.jsonl")) == 2
    assert "this is outside of the checkout" in upload.err
    assert not cluster.calls("get")


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ([], "job.config.data.train.data_path, or validation.data_path, with dataset_name: ResponseDataset"),
        (
            ["job.version=v0.5.0"],
            "job.config.data.train_data_path, or val_data_path, with dataset_name: ResponseDataset",
        ),
    ],
)
def test_the_printed_key_is_that_of_the_framework_version(upload: Upload, changes: list[str], key: str) -> None:
    assert upload("test.jsonl", *(word for each in changes for word in ("--set", each))) == 0
    assert upload.err.endswith(f"grpo: write the path into the values: {key}\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_named(here: Path, upload: Upload) -> None:
    Path("train.jsonl").chmod(0)
    assert upload("train.jsonl") == 3
    assert "train.jsonl: cannot be read" in upload.err


def test_the_head_pod_is_preferred_for_the_upload(cluster: Cluster, upload: Upload) -> None:
    others = [
        pod("a-worker", labels={"ray.io/node-type": "worker"}),
        pod("another-claim", "else"),
        pod("going", deletionTimestamp="2026-11-01T00:00:00Z"),
        pod("looks-only", mount={"readOnly": True}),
        pod("is-read-only", source={"readOnly": True}),
        pod("sees-a-part", mount={"subPath": "x"}),
    ]
    for items, name in ([[*others, pod("the-head")], "the-head"], [others, "a-worker"]):
        cluster.put("pods.json", {"items": items})
        assert upload("train.jsonl") == 0, upload.err
        assert f"through the pod {name}\n" in upload.err


@pytest.mark.parametrize(
    "fails",
    [
        "exit 127",
        'echo "exec failed: exec: \\"python3\\": executable file not found in \\$PATH: unknown" >&2; exit 1',
    ],
)
def test_a_pod_without_python_is_skipped(cluster: Cluster, upload: Upload, fails: str) -> None:
    """And not asked for the second file again."""
    program = cluster.folder / "bin/kubectl"
    usual = program.read_text()
    program.write_text(usual.replace("  exec) ", f'  exec) case "$2" in a-web) {fails} ;; esac\n        ', 1))
    labels = {"app": "web"}
    cluster.put("pods.json", {"items": [pod("a-web", labels=labels), pod("b-tools", labels=labels)]})
    assert upload("train.jsonl", "test.jsonl") == 0, upload.err
    assert "the pod a-web has no Python that begins, so b-tools is asked" in upload.err
    assert arrived(cluster) == {"datasets/train.jsonl": DATA, "datasets/test.jsonl": ROW}
    assert sum("a-web" in call for call in cluster.calls("exec")) == 1
    cluster.put("pods.json", {"items": [pod("a-web", labels=labels)]})
    assert upload("train.jsonl") == 3


def test_unexpected_pod_output_does_not_break_the_progress(
    cluster: Cluster, upload: Upload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "_OFTEN", -1.0)
    (cluster.folder / "bin/python3").write_text("#!/bin/sh\necho at 1000000; echo at the gates; echo at\necho there\n")
    (cluster.folder / "bin/python3").chmod(0o755)
    assert upload("train.jsonl") == 0
    assert "train.jsonl: 1 of 2 MB" in upload.err


def test_files_go_to_the_mount_path_of_the_chosen_pod(cluster: Cluster, upload: Upload) -> None:
    """A pod of somebody else may mount the volume elsewhere; the path is that of the stack's pods."""
    (cluster.folder / "mnt/volume").mkdir(parents=True)
    cluster.put("pods.json", {"items": [pod(mount={"mountPath": "/mnt/volume"})]})
    assert upload("train.jsonl") == 0
    assert upload.out == "/data/datasets/train.jsonl\n"
    assert (cluster.folder / "mnt/volume/datasets/train.jsonl").read_bytes() == DATA


BUCKET = ["storage.data.gcsfuse.bucket=acme-runs"]
INSIDE = [*BUCKET, "storage.data.gcsfuse.mountOptions.only-dir=/team/a/"]
OTHERS = ["storage.data.gcsfuse=null", "storage.data.existingClaim.name=mine"]
CLAIMED = [*OTHERS, "storage.data.existingClaim.gcsfuse.enabled=true"]


@pytest.mark.parametrize(
    ("values", "fix"),
    [
        (BUCKET, "gcloud storage cp train.jsonl test.jsonl gs://acme-runs/datasets/mine/"),
        (INSIDE, "gcloud storage cp train.jsonl test.jsonl gs://acme-runs/team/a/datasets/mine/"),
        (
            CLAIMED,
            'gcloud storage cp train.jsonl test.jsonl gs://"$(kubectl get pv "$(kubectl get pvc mine -n rl -o '
            "'jsonpath={.spec.volumeName}')\" -o 'jsonpath={.spec.csi.volumeHandle}')\"/datasets/mine/",
        ),
    ],
)
def test_without_a_pod_the_bucket_is_named(cluster: Cluster, upload: Upload, values: list[str], fix: str) -> None:
    cluster.put("pods.json", {"items": []})
    options = [word for value in values for word in ("--set", value)]
    assert upload("train.jsonl", "test.jsonl", "--to", "mine", *options) == 3
    said, found = upload.err.rstrip().split("\n  fix: ")
    assert said.startswith("no running pod in rl mounts the claim ")
    assert found == fix
    subprocess.run(["bash", "-n"], input=found, text=True, check=True)


def test_without_a_pod_a_manifest_for_a_small_one_is_printed(cluster: Cluster, upload: Upload) -> None:
    """The printed pod is one that the next call finds."""
    cluster.put("pods.json", {"items": []})
    options = [word for value in OTHERS for word in ("--set", value)]
    assert upload("train.jsonl", *options) == 3
    start, rest = upload.err.partition("\n  fix: ")[2].split(" && ", 1)
    words = shlex.split(start)
    assert words[:4] == ["kubectl", "run", "grpo-upload", "-n"]
    assert rest.startswith(
        "kubectl wait --for=condition=Ready pod/grpo-upload -n rl --timeout=10m; then run this again"
    )
    made = json.loads(words[words.index("--overrides") + 1])
    cluster.put("pods.json", {"items": [{"metadata": {"name": "grpo-upload"}, **made}]})
    assert upload("train.jsonl", *options) == 0, upload.err
    assert "through the pod grpo-upload\n" in upload.err


@pytest.mark.parametrize("verb", ["get", "exec"])
def test_a_hung_cluster_is_reported(upload: Upload, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    waits = Waits(monkeypatch, hang=verb)
    assert upload("train.jsonl") == 3
    assert "did not answer within 6 s" in upload.err or "the pod ray-head does not answer" in upload.err
    assert 6 <= waits.clock.moment < 10


def test_a_missing_permission_is_reported_with_kubectls_message(cluster: Cluster, upload: Upload) -> None:
    cluster.refuse("exec", 'Error from server (Forbidden): pods "ray-head" is forbidden: User "me" cannot create')
    assert upload("train.jsonl") == 3
    assert 'kubectl failed: Error from server (Forbidden): pods "ray-head" is forbidden' in upload.err


@pytest.mark.parametrize("job", [{}, {"volume": "second"}])
def test_the_pods_of_the_charts_are_found(
    cluster: Cluster, upload: Upload, render: Render, tmp_path: Path, job: dict[str, str]
) -> None:
    """By the claim and the folder that the charts give them."""
    values = {"job": job, "storage": {"second": {"mountPath": "/second", "existingClaim": {"name": "mine"}}}}
    (tmp_path / "more.json").write_text(json.dumps(values))
    head = by_kind(render("raycluster", values=values), "RayCluster")["spec"]["headGroupSpec"]["template"]
    head["metadata"]["name"] = "the-head"
    cluster.put("pods.json", {"items": [head]})
    (cluster.folder / "second").mkdir()
    assert upload("train.jsonl", "-f", str(tmp_path / "more.json")) == 0, upload.err
    mount = "/second" if job else "/data"
    assert upload.out == f"{mount}/datasets/train.jsonl\n"
    assert (cluster.folder / f"{mount}/datasets/train.jsonl".lstrip("/")).read_bytes() == DATA


def test_the_page_shows_the_commands_that_upload_prints(here: Path, cluster: Cluster, upload: Upload) -> None:
    page = (ROOT / "docs/howto/own-data.md").read_text(encoding="utf-8")
    cluster.put("pods.json", {"items": []})
    site = str(ROOT / "values/examples/site.yaml")
    cases: list[tuple[list[str], str]] = [
        ([], "\n"),
        (["--set-json", 'storage.data={"mountPath":"/data","pvc":{}}'], "; then run"),
    ]
    for options, end in cases:
        assert upload("train.jsonl", "test.jsonl", "--to", "answers", "-f", site, *options) == 3
        for command in upload.err.partition("\n  fix: ")[2].partition(end)[0].split(" && "):
            assert f"\n{command}\n" in page
