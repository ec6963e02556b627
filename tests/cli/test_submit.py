"""What `grpo submit` packs and refuses; tests/e2e/planted has a Ray, and tests/e2e/node pods."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from grpo import deadline
from grpo.cli import main as cli
from grpo.cli.jobs import packing, submitted
from grpo.cli.jobs.request import Request
from grpo.cli.jobs.run import Run
from grpo.helm import kubectl
from postrender.errors import ClusterError, InputError, UnreadableError
from tests.cli.clusters import Waits, stand_in
from tests.conftest import ROOT, Render, stack_files

FILES = [word for path in stack_files() for word in ("-f", str(path))]
TOKEN = "hf_" + "aB3" * 8
RAY = ROOT / ".tools/ray/bin/python"
TREE = {
    ".gitignore": "*.ckpt\n/out/\n!keep.ckpt\n# no pattern\n\\#odd\nsub/deep/*.log\n",
    ".rayignore": "notes.md\n",
    "train.py": "print(1)\n",
    "notes.md": "x",
    "a.ckpt": "x",
    "keep.ckpt": "x",
    "#odd": "x",
    "out/result": "x",
    "sub/out/result": "x",
    "sub/.gitignore": "*.tmp\nlocal\n",
    "sub/a.tmp": "x",
    "sub/a.py": "x",
    "sub/local/b": "x",
    "sub/deep/c.log": "x",
    "sub/deep/c.txt": "x",
    "b.tmp": "x",
    "local/b": "x",
    ".git/HEAD": "x",
    ".venv/bin/python": "x",
    "sub/venv/x": "x",
    "sub/__pycache__/a.pyc": "x",
    "äöü/ß.py": "x",
}
SENT = {
    *(".gitignore", ".rayignore", "train.py", "keep.ckpt", "sub/out/result", "sub/.gitignore", "sub/a.py"),
    *("sub/deep/c.txt", "b.tmp", "local/b", "äöü/ß.py"),
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in TREE.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text, encoding="utf-8")
    return tmp_path / "tree"


def names(package: packing.Package) -> set[str]:
    return set(zipfile.ZipFile(io.BytesIO(package.content)).namelist())


def test_jobs_submitted_in_the_same_second_have_different_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray takes an id only once, and the folder of a second job may have the same name."""
    monkeypatch.setattr(time, "strftime", lambda _: "1127-181208")
    run = Run({}, {"spec": {}}, {"environment": {}})
    ids = {Request.of("/home/me/my code", ["true"], run).id for _ in range(3)}
    assert len(ids) == 3
    assert {each.rpartition("-")[0] for each in ids} == {"my-code-1127-181208"}


def test_files_excluded_by_patterns_are_not_sent(tree: Path) -> None:
    package = packing.pack(str(tree))
    assert names(package) == SENT
    assert package.count == len(SENT)


# As ray/_private/runtime_env/working_dir.py calls it.
ORACLE = """
import sys; from pathlib import Path; from ray._private.runtime_env import packaging
from ray._private import ray_constants
excludes = ray_constants.get_runtime_env_default_excludes()
packaging.create_package(sys.argv[1], Path(sys.argv[2]), excludes=excludes, include_gitignore=True)
"""


@pytest.mark.full
@pytest.mark.skipif(not RAY.exists(), reason="tools/ray.sh makes Ray")
def test_the_package_has_the_files_ray_itself_would_send(tree: Path, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        [RAY, "-c", ORACLE, tree, tmp_path / "a.zip"], check=False, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    found = {each for each in zipfile.ZipFile(tmp_path / "a.zip").namelist() if not each.endswith("/")}
    assert found == names(packing.pack(str(tree)))


def test_the_same_content_gives_the_same_package_name(tree: Path) -> None:
    first = packing.pack(str(tree))
    os.utime(tree / "train.py", (1, 1))
    assert packing.pack(str(tree)).name == first.name
    (tree / "train.py").write_text("print(2)\n")
    assert packing.pack(str(tree)).name != first.name
    assert first.name.startswith("_ray_pkg_")


def test_links_are_followed_once(tree: Path) -> None:
    (tree / "sub/up").symlink_to(tree)
    (tree / "linked").symlink_to(tree / "sub/deep")
    (tree / "broken").symlink_to(tree / "nothing")
    package = packing.pack(str(tree))
    assert names(package) == {*SENT, "linked/c.txt", "linked/c.log"}
    assert package.left_out == ["broken (a link to nothing)"]


def test_nothing_outside_the_folder_is_sent(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.py").write_text("x")
    (tmp_path / "tree-2").mkdir()
    links = {
        "out.py": tmp_path / "outside/secret.py",
        "sub/folder": tmp_path / "outside",
        "beside": tmp_path / "tree-2",
    }
    links |= {"passwd": Path("/etc/passwd"), "root": Path("/"), "up": Path("..")}
    for name, target in links.items():
        (tree / name).symlink_to(target)
    (tree / "hop").symlink_to("out.py")
    os.mkfifo(tree / "pipe")
    package = packing.pack(str(tree))
    assert names(package) == SENT
    expected = {f"{name} (a link that leaves the directory)" for name in [*links, "hop"]}
    assert {*package.left_out} == {*expected, "pipe (no ordinary file)"}
    # The folder itself may be a link.
    (tmp_path / "link").symlink_to(tree)
    assert packing.pack(str(tmp_path / "link")).name == package.name


PRIVATE = [".env", ".env.local", ".envrc", "sub/.env", ".netrc", "sub/key.pem", "id_rsa", "id_ed25519", ".ssh/config"]
PRIVATE += [".kube/config", ".docker/config.json", ".aws/credentials", "kubeconfig", "rl.kubeconfig", ".npmrc"]
PRIVATE += ["prod.env", "tls.key", "id_rsa.bak", "id_ed25519_sk", ".pgpass", "credentials.json"]
CAPITALS = [".ENV.prod", "Server.PEM"]


def test_files_named_like_secrets_are_listed_and_not_sent(tree: Path) -> None:
    for name in (*PRIVATE, *CAPITALS):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("x")
    for name in ("env.py", "id_map.py", "pem.py", "docker/Dockerfile", "keys.json"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("x")
    (tree / "settings").symlink_to(".env")
    (tree / "head").symlink_to(".git/HEAD")
    package = packing.pack(str(tree))
    assert names(package) == {*SENT, "env.py", "id_map.py", "pem.py", "docker/Dockerfile", "keys.json"}
    tops = {each if "/" not in each or each.startswith("sub/") else each.partition("/")[0] for each in PRIVATE}
    assert {*package.left_out} == {
        f"{each} (by its name it holds secrets)" for each in {*tops, *CAPITALS, "settings", "head"}
    }
    (tree / ".rayignore").write_text(".env*\n*.env\nsettings\nhead\n")
    assert not [each for each in packing.pack(str(tree)).left_out if "env" in each]


def test_a_token_in_a_file_is_refused_with_its_line(tree: Path) -> None:
    (tree / "sub/a.py").write_text(f'import os\nlogin("{TOKEN}")\n')
    with pytest.raises(InputError) as error:
        packing.pack(str(tree))
    assert str(error.value).startswith(f"{tree}/sub/a.py:2:8: this is a huggingface token")
    assert "HF_TOKEN" in error.value.fix
    assert TOKEN not in str(error.value)
    (tree / "sub/a.py").write_bytes(b"\0" + TOKEN.encode())
    assert names(packing.pack(str(tree))) == SENT


def test_the_printed_commands_exclude_the_same_files(tree: Path, tmp_path: Path) -> None:
    for name in PRIVATE:
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("x")

    class Pod:
        def shell(self, words: list[str]) -> str:
            return "cat" if words[0] == "sh" else ""

    line = next(
        iter(Request.of(str(tree), ["true"], Run({}, {"spec": {}}, {"environment": {}})).by_hand(str(tree), Pod()))
    )  # type: ignore[arg-type]
    packed = subprocess.run(["sh", "-c", line], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        found = {each.name.removeprefix("./") for each in archive if each.isfile()}
    assert found
    assert not found & {*PRIVATE}


def test_an_oversized_directory_is_refused_with_its_largest_files(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MAX_BYTES", 3_000_000)
    for name, size in (("data/a", 2_000_000), ("data/b", 3_000_000), ("train.py", 10)):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_bytes(b"x" * size)
    with pytest.raises(InputError) as error:
        packing.pack(str(tree))
    assert "has 4.8 MiB in 13 files, and a job gets at most 2.9 MiB; the largest: data 4.8 MiB, " in str(error.value)
    assert ".rayignore" in error.value.fix
    (tree / ".rayignore").write_text("data\n")
    assert packing.pack(str(tree)).count == len(SENT) + 1


def test_a_directory_without_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*\n")
    with pytest.raises(InputError, match="there is no file to send"):
        packing.pack(str(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_named(tree: Path) -> None:
    (tree / "train.py").chmod(0)
    with pytest.raises(UnreadableError, match=r"train\.py"):
        packing.pack(str(tree))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "grpo submit: a directory and a command are needed"),
        (["DIR"], "grpo submit: a directory and a command are needed\n  fix: grpo submit DIR -f FILE"),
        (["nothing", "--", "true"], "grpo submit: 'nothing' is not a directory here"),
        (["DIR", "--", "train", f"--token={TOKEN}"], "grpo submit: the command has a huggingface token in it"),
        (["DIR", "--set", "job.cluster.mode=ephemeral", "--", "true"], "job.cluster.mode is ephemeral"),
    ],
)
def test_wrong_command_lines_are_refused(
    words: list[str], message: str, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["submit", *FILES, *(str(tree) if word == "DIR" else word for word in words)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.startswith(message), TOKEN in err) == ("", True, False), err


def test_missing_kubectl_is_reported(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["submit", str(tree), *FILES, "--", "true"]) == 3
    assert "cannot run kubectl: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["get", "exec"])
def test_a_hung_cluster_is_reported_before_anything_is_sent(
    tree: Path,
    tmp_path: Path,
    render: Render,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    verb: str,
) -> None:
    cluster = stand_in(tmp_path, monkeypatch, render)
    (tmp_path / "pod-names").write_text("pod/ray-head\n")
    waits = Waits(monkeypatch, hang=verb)
    assert cli.main(["submit", str(tree), *FILES, "-n", "rl", "--", "true"]) == 3
    assert capsys.readouterr().err.startswith("kubectl did not answer within 6 s\n  fix: ")
    assert waits.clock.moment == 6
    assert not [call for call in cluster.calls("exec") if " submit " in call]


def test_packing_time_does_not_reduce_the_cluster_timeout(
    tree: Path, tmp_path: Path, render: Render, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To pack takes ten minutes here, and the head has its whole time."""
    stand_in(tmp_path, monkeypatch, render)
    clock, later, limits = time.monotonic, [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock() + later[0])
    for name, seconds in {"PATIENCE": 6.0, "_IN_ALL": 300.0, "_LEAST": 3.0}.items():
        monkeypatch.setattr(deadline, name, seconds)

    whole = packing.pack

    def pack(directory: str) -> packing.Package:
        later[0] = 600.0
        return whole(directory)

    def reach(head: object, limit: deadline.Deadline) -> None:
        limits.append(limit.seconds)
        raise ClusterError("stop here")

    monkeypatch.setattr(packing, "pack", pack)
    monkeypatch.setattr(submitted, "reach", reach)
    assert cli.main(["submit", str(tree), *FILES, "-n", "rl", "--", "true"]) == 3
    assert limits == [deadline.PATIENCE]


def test_a_packed_program_receives_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the words that start a program of jobs/ which gets a stdin."""
    (tmp_path / "program.py").write_text("import sys; print(sys.argv[1:], sys.stdin.buffer.read())")
    monkeypatch.setattr(kubectl, "program", lambda name: str(tmp_path / f"{name}.py"))
    words = kubectl.packed("program", ["a", "b"])
    done = subprocess.run(words, input=b"\x00\xff\n", capture_output=True, check=True)
    assert done.stdout == b"['a', 'b'] b'\\x00\\xff\\n'\n"
