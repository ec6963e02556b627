"""`grpo helm-plugin`: the plugin through which Helm 4 starts the post-renderer, with real Helms."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from grpo.cli import main as cli
from grpo.cli import plugin
from postrender import __version__
from tests.conftest import ROOT, require_tool, thin
from tests.postrender.streams import pod
from tests.postrender.test_secrets import EXAMPLES

Run = Callable[..., tuple[int, str, str]]
Process = subprocess.CompletedProcess[str]
SECRET = EXAMPLES["huggingface"]
NAME = "grpo-post-render"
VALUES = str(ROOT / "values/accelerators/b200.yaml")
LEGACY = "name: legacy\nversion: 0.1.0\nusage: none\ndescription: none\ncommand: echo it runs\n"


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run `grpo helm-plugin` in-process, in a home of its own; return exit code, stdout, stderr."""
    for name in [name for name in os.environ if name.startswith(("HELM_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(["helm-plugin", *words])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """Make a chart that renders what it is given, and more than a pipe holds."""
    chart = tmp_path / "app"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: app\nversion: 0.1.0\n")
    (chart / "templates/a.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
        "data: {long: {{ repeat 200000 `x` }}, a: {{ .Values.a | quote }}}\n"
    )
    return chart


def helm_4(chart: Path, folder: str, value: str, *words: str, command: str = "template", **environment: str) -> Process:
    """Run Helm 4 with the plugin that lies in a folder."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HELM_", "PYTHON", "GRPO_"))}
    return subprocess.run(
        [require_tool("helm4"), command, "r", chart, "--set", f"a={value}", "--post-renderer", NAME, *words],
        check=False,
        capture_output=True,
        text=True,
        cwd=chart.parent,
        env={**kept, "HELM_PLUGINS": folder, "KUBECONFIG": os.devnull, "GRPO_VALUES": VALUES, **environment},
    )


def refused(done: Process) -> None:
    assert (done.returncode, done.stdout) == (1, "")
    assert "grpo-post-render: refused, nothing was written" in done.stderr
    assert "looks like a secret of the kind huggingface" in done.stderr
    assert SECRET not in done.stderr


def test_dir_prints_the_folder_and_helm_4_renders_through_it(grpo: Run, chart: Path) -> None:
    code, out, err = grpo("dir")
    folder = out.removesuffix("\n")
    assert (code, err) == (0, f"made {folder}/{NAME}\n")
    good = helm_4(chart, folder, "fine")
    assert (good.returncode, good.stderr) == (0, "")
    assert "# Source: app/templates/a.yaml" in good.stdout
    assert 'a: "fine"' in good.stdout
    refused(helm_4(chart, folder, SECRET))


def test_helm_4_output_shows_which_pods_are_not_wired(grpo: Run, chart: Path) -> None:
    """In the manifest where some are wired: it hides what a plugin writes to stderr."""
    folder = grpo("dir")[1].strip()
    (chart / "templates/b.yaml").write_text(
        f"{pod('four', gpus=4)}{{{{- if eq .Values.a `more` }}}}\n---\n{pod()}{{{{- end }}}}\n"
    )
    refused = helm_4(chart, folder, "fine")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Pod four: the pod takes 4 GPUs, and a node of b200 has 8 [wiring/nothing-wired]" in refused.stderr
    allowed = helm_4(chart, folder, "fine", "--post-renderer-args", "--allow-unwired")
    for done in (allowed, helm_4(chart, folder, "more")):
        assert (done.returncode, done.stderr) == (0, "")
        objects = {each["metadata"]["name"]: each for each in yaml.safe_load_all(done.stdout)}
        notes = objects["four"]["metadata"]["annotations"]
        assert notes["grpo-charts/not-wired"] == "the pod takes 4 GPUs, and a node of b200 has 8"
    assert "grpo-charts/not-wired" not in objects["pod"]["metadata"]["annotations"]


def test_an_install_is_refused_before_the_cluster_is_contacted(grpo: Run, chart: Path) -> None:
    folder = grpo("dir")[1].strip()
    good = helm_4(chart, folder, "fine", "--dry-run=client", "-o", "json", command="install")
    assert 'a: "fine"' in json.loads(good.stdout)["manifest"], good.stderr
    # Without a dry run: there is no cluster, and Helm does not come as far as to notice.
    refused(helm_4(chart, folder, SECRET, "--dry-run=client", command="install"))


def test_dir_is_the_same_for_the_same_installation_and_writes_once(grpo: Run, tmp_path: Path) -> None:
    _, first, _ = grpo("dir")
    assert first.startswith(str(tmp_path / "home/.local/share/grpo-charts/helm-plugins") + "/")
    files = {path: path.stat().st_mtime_ns for path in Path(first.strip()).rglob("*")}
    assert {path.name for path in files} == {NAME, "plugin.yaml", "run.sh"}
    assert grpo("dir") == (0, first, "")
    assert files == {path: path.stat().st_mtime_ns for path in Path(first.strip()).rglob("*")}


def test_dir_repairs_changed_files(grpo: Run) -> None:
    folder = grpo("dir")[1].strip()
    script = Path(folder, NAME, "run.sh")
    good = (script.read_text(), script.stat().st_mode)
    script.write_text("exit 3\n")
    assert grpo("dir") == (0, f"{folder}\n", f"made {folder}/{NAME}\n")
    assert (script.read_text(), script.stat().st_mode) == good


def test_a_relative_data_home_is_ignored_as_the_standard_says(
    grpo: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    assert grpo("dir")[1].startswith(str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert grpo("dir")[1].startswith(str(tmp_path / "data/grpo-charts/helm-plugins"))


def test_a_custom_folder_can_be_given(grpo: Run, chart: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(chart.parent)
    code, out, _ = grpo("dir", "my 'plugins' for $HOME")
    assert (code, out) == (0, f"{chart.parent}/my 'plugins' for $HOME\n")
    assert helm_4(chart, out.strip(), "fine").returncode == 0


@pytest.mark.parametrize("name", ["a:b", "a[b", "a*", "a?b"])
def test_a_folder_that_helm_cannot_read_is_refused(grpo: Run, tmp_path: Path, name: str) -> None:
    code, out, err = grpo("dir", str(tmp_path / name))
    assert (code, out) == (2, "")
    assert f"{str(tmp_path / name)!r} contains {name[1]!r}, which has a special meaning in HELM_PLUGINS" in err
    assert not (tmp_path / name).exists()


def test_an_unwritable_folder_is_reported(grpo: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    code, out, err = grpo("dir")
    assert (code, out) == (3, "")
    assert "cannot be written: Not a directory" in err
    assert "fix: name another folder: grpo helm-plugin dir DIRECTORY" in err


@pytest.mark.parametrize("content", ["plugin.yaml", "notes.txt"])
def test_a_foreign_folder_is_left_alone(grpo: Run, tmp_path: Path, content: str) -> None:
    foreign = tmp_path / "plugins" / NAME
    foreign.mkdir(parents=True)
    (foreign / content).write_text("name: grpo-post-render\n")
    code, out, err = grpo("dir", str(tmp_path / "plugins"))
    assert (code, out) == (2, "")
    assert f"{foreign}: not made by grpo helm-plugin, so nothing in it is touched" in err
    assert os.listdir(foreign) == [content]


def test_a_link_created_by_helm_is_replaced_with_a_folder(grpo: Run, tmp_path: Path) -> None:
    """As `helm plugin install DIRECTORY` makes one: written through, it would change the plugin of another Python."""
    first, plugins = Path(grpo("dir", str(tmp_path / "first"))[1].strip(), NAME), tmp_path / "plugins"
    (first / "run.sh").write_text("of another Python\n")
    plugins.mkdir()
    (plugins / NAME).symlink_to(first)
    assert grpo("dir", str(plugins))[0] == 0
    assert not (plugins / NAME).is_symlink()
    assert (first / "run.sh").read_text() == "of another Python\n"
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / NAME).symlink_to(tmp_path / "nothing")
    assert grpo("dir", str(tmp_path / "gone"))[0] == 2


def environment(folder: Path) -> Path:
    """Make an environment that finds this package as an editable installation does; return its Python."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "grpo.pth").write_text("\n".join([str(ROOT), *libraries]) + "\n")
    return folder / "bin/python"


def made_by(python: Path, *words: str) -> str:
    """Return the folder that `grpo helm-plugin dir` of another Python prints."""
    line = [python, "-EP", "-m", "grpo.cli", "helm-plugin", "dir", *words]
    return subprocess.run(line, check=True, capture_output=True, text=True, cwd=python.parent).stdout.strip()


def test_a_python_environment_in_a_path_with_blanks_and_quotes_works(grpo: Run, chart: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / 'my "own" $HOME\'s')
    folder = made_by(python)
    assert folder != grpo("dir")[1].strip(), "each environment has a plugin of its own"
    assert folder == made_by(python.with_name("python3")), "and one, whatever its Python is called"
    # It is the post-renderer that refuses.
    refused(helm_4(chart, folder, SECRET))


def test_a_deleted_python_environment_is_reported(chart: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "environment")
    folder = tmp_path / "plugins"
    made_by(python, str(folder))
    python.unlink()
    done = helm_4(chart, str(folder), "fine")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"grpo-post-render: the Python of this plugin is gone: {python}" in done.stderr
    assert "fix: make it anew with the grpo that is there now: grpo helm-plugin dir, or install" in done.stderr


@pytest.mark.parametrize("half", thin([False, True], 2))
def test_an_uninstalled_package_is_reported(chart: Path, tmp_path: Path, half: bool) -> None:
    folder = tmp_path / "plugins" / NAME
    folder.mkdir(parents=True)
    python = environment(tmp_path / "environment")
    (file,) = (tmp_path / "environment").glob("lib/*/site-packages/grpo.pth")
    file.unlink()
    if half:
        # As an upgrade that was interrupted leaves it.
        shutil.copytree(ROOT / "postrender", tmp_path / "postrender", ignore=shutil.ignore_patterns("__pycache__"))
        (tmp_path / "postrender/main.py").unlink()
    for name, text in plugin.files(str(python), str(tmp_path)).items():
        (folder / name).write_text(text)
    done = helm_4(chart, str(folder.parent), "fine")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"grpo-post-render: cannot be loaded by {python}: " in done.stderr
    assert ("No module named 'postrender.main'" if half else "No module named 'postrender'") in done.stderr
    assert "fix: install grpo-charts there again" in done.stderr


def test_no_module_is_loaded_from_the_working_directory_of_helm(grpo: Run, chart: Path, tmp_path: Path) -> None:
    """A module of the standard library's name, in the working directory and on the path that a user's programs have."""
    folder = grpo("dir")[1].strip()
    for place in (chart.parent, tmp_path / "theirs"):
        place.mkdir(exist_ok=True)
        (place / "re.py").write_text("raise SystemExit(9)\n")
    done = helm_4(chart, folder, "fine", PYTHONPATH=str(tmp_path / "theirs"), PYTHONHOME=str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_arguments_reach_the_post_renderer_unchanged(chart: Path, tmp_path: Path) -> None:
    """A stand-in for the post-renderer says with what it was started."""
    package = tmp_path / "in its 'stead'/postrender"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "main.py").write_text(
        "import os, sys\n\ndef main():\n"
        "    sys.stdin.read()\n    print('kind: Seen')\n    for word in [*sys.argv[1:], os.getcwd()]:\n"
        "        print('---\\nkind: Word\\nword:', repr(word))\n    return 0\n"
    )
    folder = tmp_path / "plugins" / NAME
    folder.mkdir(parents=True)
    for name, text in plugin.files(sys.executable, str(package.parent)).items():
        (folder / name).write_text(text)
    words = ["--values", "a b.yaml", "--values=c,d.yaml", "--report", "$HOME", "*"]
    done = helm_4(chart, str(folder.parent), "fine", *(one for word in words for one in ("--post-renderer-args", word)))
    assert done.returncode == 0, done.stderr
    seen = [line.removeprefix("word: ").strip("'") for line in done.stdout.splitlines() if line.startswith("word: ")]
    assert seen == [*words, str(tmp_path)]


@pytest.mark.full
def test_the_helm_of_helm_python_sdk_runs_the_plugin(grpo: Run, chart: Path) -> None:
    """Its C interface has a post-renderer; Go reads HELM_PLUGINS when the process starts, hence one of its own."""
    folder = grpo("dir")[1].strip()
    code = (
        "import json, sys\nimport helm_python as helm\n"
        "with helm.Config(storage_driver='memory', namespace='n') as config, helm.Chart.load(sys.argv[1]) as chart:\n"
        "    print(json.loads(helm._native.call_string('helm_install', config._raw(), helm._native.HANDLE(0),\n"
        "        chart._raw(), None, 'r', json.dumps({'a': sys.argv[2]}), json.dumps({'dry_run': 'client',\n"
        "        'namespace': 'n', 'post_renderer': 'grpo-post-render'})))['manifest'])\n"
    )

    def embedded(value: str) -> Process:
        return subprocess.run(
            [sys.executable, "-c", code, chart, value],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "HELM_PLUGINS": folder, "KUBECONFIG": os.devnull, "GRPO_VALUES": VALUES},
        )

    good = embedded("fine")
    assert 'a: "fine"' in good.stdout, good.stderr
    bad = embedded(SECRET)
    assert (bad.returncode, bad.stdout) == (1, "")
    assert "looks like a secret of the kind huggingface" in bad.stderr
    assert SECRET not in bad.stderr


def test_install_puts_the_plugin_where_helm_4_looks(grpo: Run, chart: Path, tmp_path: Path) -> None:
    program = str(require_tool("helm4"))
    code, out, err = grpo("install", "--helm", program)
    folder = tmp_path / "home/.local/share/helm/plugins"
    assert (code, err) == (0, "")
    assert out.startswith(f"wrote {folder / NAME}, for helm v4.")
    assert "\n  helm install RELEASE CHART --post-renderer grpo-post-render --post-renderer-args --values" in out
    assert "While this plugin is installed, Helm 3 of the same user loads no plugins" in out
    listed = subprocess.run([program, "plugin", "list"], check=True, capture_output=True, text=True).stdout
    assert [NAME, __version__, "postrenderer/v1", "v1"] == listed.splitlines()[1].split()[:4]
    assert helm_4(chart, str(folder), "fine").returncode == 0
    assert grpo("install", "--helm", program)[1].startswith(f"{folder / NAME} is up to date, for helm v4.")
    subprocess.run([program, "plugin", "uninstall", NAME], check=True, capture_output=True)
    assert list(folder.iterdir()) == []


def test_install_replaces_an_older_plugin_and_refuses_a_foreign_one(
    grpo: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = str(require_tool("helm4"))
    folder = tmp_path / "one" / NAME
    monkeypatch.setenv("HELM_PLUGINS", f"{tmp_path / 'one'}{os.pathsep}{tmp_path / 'two'}")
    assert grpo("install", "--helm", program)[0] == 0
    metadata = folder / "plugin.yaml"
    metadata.write_text(metadata.read_text().replace(__version__, "0.0.1"))
    assert grpo("install", "--helm", program)[1].startswith(f"wrote {folder}, for helm v4.")
    assert f"version: {__version__}\n" in metadata.read_text()
    metadata.write_text("name: grpo-post-render\n")
    assert grpo("install", "--helm", program)[0] == 2
    assert metadata.read_text() == "name: grpo-post-render\n"
    assert not (tmp_path / "two").exists()


def test_install_says_that_helm_3_needs_no_plugin(grpo: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A program that is on the PATH is told by its name alone.
    monkeypatch.setenv("PATH", os.defpath)
    code, out, err = grpo("install", "--helm", str(require_tool("helm3")))
    assert (code, err) == (0, "")
    assert out.startswith("nothing was written: helm v3.")
    assert f"--post-renderer {Path(sys.executable).parent / NAME} --post-renderer-args --values" in out
    assert not (tmp_path / "home").exists()


def test_the_printed_helm_3_command_works(grpo: Run, chart: Path) -> None:
    program = require_tool("helm3")
    out = grpo("install", "--helm", str(program))[1]
    renderer = out.partition("--post-renderer ")[2].split()[0]
    done = subprocess.run(
        [program, "template", "r", chart, "--set", "a=fine", "--post-renderer", renderer],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "GRPO_VALUES": VALUES},
    )
    assert (done.returncode, 'a: "fine"' in done.stdout) == (0, True), done.stderr


@pytest.mark.full
def test_helm_3_behaves_as_the_output_claims(grpo: Run, tmp_path: Path) -> None:
    """Both Helms read the same folder, and Helm 3 knows no plugin with an apiVersion."""
    program = require_tool("helm3")
    (tmp_path / "plugins/legacy").mkdir(parents=True)
    (tmp_path / "plugins/legacy/plugin.yaml").write_text(LEGACY)

    def legacy() -> Process:
        words, variables = [program, "legacy"], {**os.environ, "HELM_PLUGINS": str(tmp_path / "plugins")}
        return subprocess.run(words, check=False, capture_output=True, text=True, env=variables)

    assert legacy().stdout == "it runs\n"
    grpo("dir", str(tmp_path / "plugins"))
    assert 'unknown command "legacy"' in legacy().stderr


def test_without_helm_the_alternatives_are_named(grpo: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, err = grpo("install")
    assert (code, out) == (3, "")
    assert "no helm executable is on PATH" in err
    assert "fix: give it with --helm PATH, or use: grpo helm-plugin dir" in err


def test_an_empty_list_of_folders_is_refused(grpo: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM_PLUGINS", "")
    code, out, err = grpo("install", "--helm", str(require_tool("helm4")))
    assert (code, out) == (2, "")
    assert "helm has no plugin folder, because HELM_PLUGINS is empty" in err


@pytest.mark.full
def test_the_first_folder_wins(grpo: Run, chart: Path, tmp_path: Path) -> None:
    """So that the line with `dir` in front holds beside one that is installed."""
    first = grpo("dir", str(tmp_path / "first"))[1].strip()
    second = grpo("dir", str(tmp_path / "second"))[1].strip()
    Path(second, NAME, "run.sh").write_text("exit 3\n")
    assert helm_4(chart, f"{first}{os.pathsep}{second}", "fine").returncode == 0
    assert helm_4(chart, f"{second}{os.pathsep}{first}", "fine").returncode == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], ": missing command\n  fix: the commands are dir, install; see grpo helm-plugin --help"),
        (["remove"], ": no command is called 'remove'\n  fix: the commands are dir, install"),
        (["dri"], ": no command is called 'dri'\n  fix: did you mean grpo helm-plugin dir?"),
        (["dir", "a", "b"], " dir: 'b' was not expected"),
        (["install", "a"], " install: 'a' was not expected"),
        (["dir", "--helm", "helm"], " dir: no option is called --helm"),
        (["dir", ""], " dir: the folder has no name"),
        (["dir", "-f", "site.yaml"], " dir: -f is not an option"),
    ],
)
def test_a_wrong_command_line_says_what_was_expected(grpo: Run, words: list[str], said: str) -> None:
    code, out, err = grpo(*words)
    assert (code, out) == (2, "")
    assert f"grpo helm-plugin{said}" in err


def test_the_command_in_the_help_works_and_keeps_other_plugins(grpo: Run, chart: Path, tmp_path: Path) -> None:
    code, out, err = grpo("--help")
    assert (code, err) == (0, "")
    setting = 'HELM_PLUGINS="$(grpo helm-plugin dir):$(helm env HELM_PLUGINS)"'
    assert f"\n    {setting} helm install RELEASE CHART " in out
    other = tmp_path / "home/.local/share/helm/plugins/legacy"
    other.mkdir(parents=True)
    (other / "plugin.yaml").write_text(LEGACY)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "helm").symlink_to(require_tool("helm4"))
    (programs / "grpo").write_text(f"#!/bin/sh\nexec '{sys.executable}' -m grpo.cli \"$@\"\n")
    (programs / "grpo").chmod(0o755)
    lines = f"export {setting}\nhelm template r {chart} --set a=fine --post-renderer {NAME}\nhelm legacy\n"
    done = subprocess.run(
        ["bash", "-c", lines],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "GRPO_VALUES": VALUES, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
    )
    assert done.stderr.startswith("made "), done.stderr
    assert 'a: "fine"' in done.stdout
    assert done.stdout.endswith("it runs\n")


def test_windows_users_are_pointed_to_the_alternative(grpo: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "_HAS_SHELL", False)
    code, out, err = grpo("dir")
    assert (code, out) == (3, "")
    assert "fix: use a pipe: helm template" in err
