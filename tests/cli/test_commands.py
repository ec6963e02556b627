"""Every command with its exit code, what it prints and where."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.cli import main as cli
from grpo.helm.stack import Stack
from postrender import __version__
from tests.conftest import LAYERS, ROOT, SITE, require_tool, stack_files, thin
from tests.postrender.test_secrets import EXAMPLES

MEMORY = "the memory of a real GPU (computed: fits; see grpo plan)"
Run = Callable[..., tuple[int, str, str]]
CLOSED = (">&-", "2>&-")
PROFILE, RECIPE, _ = map(str, stack_files())
REST = ["-f", RECIPE, "-f", str(SITE)]


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command line in-process, without a helm executable on PATH; return exit code, stdout, stderr."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(list(words))
        out, err = capsys.readouterr()
        return code, out, err

    return run


def process(*words: str, redirect: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command line as a process of its own, in a shell where it is redirected."""
    line = f"{sys.executable} -m grpo.cli {' '.join(words)} {redirect}"
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "LC_ALL": "C", "PYTHONWARNINGS": "error"},
    )


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_grpo_without_arguments_prints_help(grpo: Run, words: list[str]) -> None:
    code, out, err = grpo(*words)
    assert (code, err) == (0, "")
    for command in ("lint", "render", "diff", "version"):
        assert f"\n  {command} " in out


def test_help_with_a_command_prints_the_help_of_that_command(grpo: Run) -> None:
    assert grpo("help", "lint") == grpo("lint", "--help")


@pytest.mark.parametrize("words", [["version"], ["--version"]])
def test_the_version_names_python_and_helm(grpo: Run, words: list[str]) -> None:
    code, out, err = grpo(*words)
    assert (code, err) == (0, "")
    assert out.startswith(f"grpo {__version__}\npython 3.")
    assert "\nrenders with helm v" in out


@pytest.mark.parametrize(
    "command", ["lint", "check", "render", "diff", "dead-values", "samples", "logs", "submit", "upload"]
)
@pytest.mark.parametrize("word", ["--help", "-h"])
def test_every_command_explains_its_options(grpo: Run, command: str, word: str) -> None:
    code, out, err = grpo(command, "-f", "x", word)
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: grpo {command} ")
    assert "-f, --values FILE" in out
    assert max(map(len, out.splitlines())) <= 120


# A command line, and how the message starts.
USAGE = {
    "no file": ("lint", "grpo lint: no values file is given\n  fix: grpo lint -f values/accelerators/NAME.yaml -f"),
    "no file to render": ("render", "grpo render: no values file is given"),
    "misspelt command": ("lnt", "grpo: no command is called 'lnt'\n  fix: did you mean grpo lint?\n"),
    "underscore": ("dead_values", "grpo: no command is called 'dead_values'\n  fix: did you mean grpo dead-values?\n"),
    "no such command": (
        "xyz",
        "grpo: no command is called 'xyz'\n"
        "  fix: the commands are check, checkpoints, dead-values, diff, doctor, explain, guide, helm-plugin, init, "
        "lint, logs, plan, render, report, rules, samples, status, submit, try-reward, upload, values, version, watch, "
        "why\n",
    ),
    "unknown option": ("lint --zork", "grpo lint: no option is called --zork\n  fix: see grpo lint --help\n"),
    "unknown letter": ("lint -x", "grpo lint: -x is not an option\n  fix: see grpo lint --help\n"),
    "shortened option": ("lint --form json", "grpo lint: no option is called --form\n  fix: did you mean --format?\n"),
    "option of another": ("rules --helm x", "grpo rules: no option is called --helm\n  fix: did you mean --help?\n"),
    "two accelerators": (
        "lint --accelerator b200 --accelerator h200",
        "grpo lint: --accelerator is given 2 times: b200, h200\n  fix: give one; grpo diff compares several accel",
    ),
    "format": (
        "lint -f x --format jso",
        "grpo lint: --format is 'jso', expected one of text, json, github, sarif, junit\n  fix: did",
    ),
    "no argument": ("lint -f", "grpo lint: -f needs a value\n  fix: see grpo lint --help\n"),
    "no long argument": ("lint --format", "grpo lint: --format needs a value\n  fix: see grpo lint --help\n"),
    "value of a flag": ("render --notes=yes -f x", "grpo render: --notes takes no value\n"),
    "forgotten -f": ("lint a.yaml", "grpo lint: 'a.yaml' was not expected\n  fix: give a values file with -f a.yaml\n"),
    "forgotten second -f": ("render all a.yaml", "grpo render: 'a.yaml' was not expected\n  fix: give a values file"),
    "two logs": ("why nope.log README.md", "grpo why: 'README.md' was not expected\n  fix: grpo why takes one run\n"),
    "values after a log": (
        "why nope.log a.yaml",
        "grpo why: 'a.yaml' was not expected\n  fix: give a values file with",
    ),
    "log of status": ("status a.log", "grpo status: 'a.log' was not expected\n  fix: see grpo status --help\n"),
    "file as a word": ("diff --accelerator a --accelerator b x", "grpo diff: 'x' was not expected"),
    "comma": (
        "lint -f a.yaml,b.yaml",
        "grpo lint: 'a.yaml,b.yaml' has a comma in it\n  fix: give each file its own -f",
    ),
    "profile": ("lint --accelerator b100", "no accelerator profile is called 'b100'; the profiles are: "),
    "layer": ("render grpojob -f x", "grpo render: there is no layer 'grpojob', expected one of network, storage, "),
    "release of all": ("render --release r -f x", "grpo render: --release names one release\n  fix: name the layer"),
    "one side": (
        "diff --accelerator b200 -f x",
        "grpo diff: there are no two sides to compare\n  fix: grpo diff --acc",
    ),
    "same side": ("diff --accelerator b200 --accelerator b200", "grpo diff: there are no two sides to compare"),
    "removed key": (
        "values ray.gcsfuse.cacheSize",
        "grpo values: there is no key called 'ray.gcsfuse.cacheSize'\n"
        "  fix: write it for the volume, storage.NAME.gcsfuse.fileCache\n",
    ),
    "guessed key": (
        "values serviceaccount-name",
        "grpo values: there is no key called 'serviceaccount-name'\n  fix: did you mean stack.names.serviceAccount?\n",
    ),
    "misspelt key": (
        "values ray.workers.replicsa",
        "grpo values: there is no key called 'ray.workers.replicsa'\n  fix: did you mean ray.workers.replicas?\n",
    ),
    "misspelt section": ("values rya", "grpo values: there is no key called 'rya'\n  fix: did you mean ray?\n"),
    "no such key": (
        "values zork",
        "grpo values: there is no key called 'zork'\n  fix: the sections are stack, platform, ",
    ),
    "version with words": ("version x", "grpo version: 'x' was not expected"),
}


@pytest.mark.parametrize("case", USAGE)
def test_a_wrong_command_line_says_what_to_write(grpo: Run, case: str) -> None:
    words, message = USAGE[case]
    code, out, err = grpo(*words.split())
    assert (code, out) == (2, "")
    assert err.startswith(message)


OF_THEM = "choose one of them, or give your own file with -f instead"
OF_CLOUD = "choose the one of your cloud"


@pytest.mark.parametrize(
    ("name", "fix"),
    [("B200", OF_CLOUD), ("b-200", OF_CLOUD), ("H100", OF_CLOUD), ("A100", OF_THEM), ("B100", OF_THEM), ("", OF_THEM)],
)
@pytest.mark.parametrize("command", ["lint", "guide"])
def test_a_misspelt_profile_is_refused_with_a_suggestion(grpo: Run, command: str, name: str, fix: str) -> None:
    code, out, err = grpo(command, "--accelerator", name)
    assert (code, out, err.splitlines()[-1]) == (2, "", f"  fix: {fix}")


def test_a_clean_stack_is_reported_with_its_counts(grpo: Run) -> None:
    clean = f"clean: 3 files, 4 charts, 36 objects; not judged: {MEMORY}\n"
    assert grpo("lint", "--accelerator", "b200", *REST) == (0, "", clean)
    code, out, err = grpo("lint", "-f", PROFILE, *REST, "--format", "json", "--no-render")
    assert (code, json.loads(out)["findings"], err.startswith("clean: 3 files; ")) == (0, [], True)


def test_findings_go_to_stdout_with_exit_code_1(grpo: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("ray:\n  workers:\n    replicsa: 3\n")
    code, out, err = grpo("lint", "--accelerator", "b200", *REST, "-f", str(file))
    assert (code, err.partition(";")[0]) == (1, "judged: 4 files, 0 charts, 0 objects")
    assert out == (
        f"{file}:3:5: ray.workers has no key called replicsa  [values/unknown-key]\n"
        "  3 |     replicsa: 3\n"
        "    |     ^\n"
        "  why: Helm would refuse it, or without the schema ignore it silently.\n"
        "  fix: did you mean replicas?\n\n1 error\n"
    )
    code, out, err = grpo("lint", "--accelerator", "b200", *REST, "-f", str(file), "--format", "json")
    assert (code, json.loads(out)["findings"][0]["line"]) == (1, 3)
    code, out, err = grpo("lint", "--accelerator", "b200", *REST, "-f", str(file), "--format", "github")
    assert out.startswith(f"::error file={file},line=3,col=5,title=values/unknown-key::")


def test_an_empty_file_alone_is_refused_for_its_missing_profile(grpo: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").touch()
    code, out, _ = grpo("lint", "-f", str(tmp_path / "empty.yaml"))
    assert code == 1
    assert out.startswith(f"{tmp_path / 'empty.yaml'}: no accelerator profile: ")


@pytest.mark.parametrize("command", [["lint"], ["render"]])
def test_input_that_is_not_a_values_file_gives_one_error_with_its_line(
    grpo: Run, tmp_path: Path, command: list[str]
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("a: 1\nb: 2\na: 3\n")
    assert grpo(*command, "-f", str(file)) == (
        2,
        "",
        f"{file}:3:1: the key 'a' is given twice: the first is at {file}:1:1; Helm would silently use this one\n"
        "  3 | a: 3\n    | ^\n  fix: delete one of the two\n",
    )


def test_an_unreadable_file_gives_exit_code_3(grpo: Run, tmp_path: Path) -> None:
    assert grpo("lint", "-f", str(tmp_path)) == (
        3,
        "",
        f"{tmp_path}: this is a directory\n  fix: name the files in it, each by itself\n",
    )
    assert grpo("lint", "-f", "none.yaml") == (
        3,
        "",
        "none.yaml: there is no such file\n  fix: check the path, or write a site file with grpo init\n",
    )


def test_a_missing_file_is_reported_with_the_nearest_name_in_its_folder(grpo: Run, tmp_path: Path) -> None:
    for name in ("b200.yaml", "h200.yaml", "b20.txt"):
        (tmp_path / name).write_text("")
    for given in ("b20.yaml", "B200.yaml", "b200"):
        code, _, err = grpo("lint", "-f", str(tmp_path / given))
        assert (code, err.splitlines()[-1]) == (3, f"  fix: did you mean {tmp_path / 'b200.yaml'}?")
    assert "grpo init" in grpo("lint", "-f", str(tmp_path / "none" / "b200.yaml"))[2]


def test_no_error_message_contains_a_secret(grpo: Run, tmp_path: Path) -> None:
    secret = EXAMPLES["huggingface"]
    file = tmp_path / "f.yaml"
    texts = [f"a: {secret}\n", f"{secret}: 1\n{secret}: 2\n", f"a: [{secret}\n", f"a: *{secret}\n", f"a: !{secret} x\n",
             f"stack: {{name: {secret}}}\n", f"{secret}\n", f"job: {{version: {secret}}}\n"]  # fmt: skip
    # The formats tell the same findings, and the same mistakes of YAML.
    others = (["lint", "--format", "json"], ["lint", "--format", "github"])
    for text in texts:
        file.write_text(text)
        for words in (["lint"], ["render"], *(others if text in texts[:3] else ())):
            code, out, err = grpo(*words, "--accelerator", "b200", *REST, "-f", str(file))
            assert code in (1, 2), (text, words)
            assert secret not in out + err, (text, words)


def test_render_prints_manifests_on_stdout_and_the_engine_on_stderr(grpo: Run) -> None:
    code, out, err = grpo("render", "network", "--accelerator", "b200", *REST, "--release", "net", "--namespace", "ns")
    assert code == 0
    assert out.startswith("---\n# Source: network/templates/")
    assert err.startswith("rendered with helm v4.2.3 (embedded, helm-python-sdk 0.2.2)")
    code, everything, err = grpo("render", "--accelerator", "b200", *REST, "--notes")
    assert code == 0
    found = [everything.index(f"# Source: {layer}/templates/") for layer in LAYERS]
    assert found == sorted(found)
    assert all(f"notes of {layer}:\n" in err for layer in LAYERS)
    assert grpo("render", "all", "-f", PROFILE, *REST)[1] == everything


def test_release_names_match_the_install_block_in_the_readme(grpo: Run, tmp_path: Path) -> None:
    """So that the notes can be pasted, and a manifest carries the labels that `helm install` would write."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    installed = re.findall(r"^\$ helm install (\S+) +charts/\S+", readme, re.MULTILINE)
    _, out, err = grpo("render", "--accelerator", "b200", *REST, "--namespace", "rl", "--notes")
    labels = re.findall("app.kubernetes.io/instance: (.*)", out)
    assert list(dict.fromkeys(label.strip('"') for label in labels)) == installed
    assert f"helm test {installed[2]} --namespace rl" in err
    assert f"helm upgrade {installed[3]} charts/grpo-job" in err


@pytest.mark.parametrize(
    ("values", "release"),
    [
        ("job: {task: fetch}", "gemma3-gsm8k-fetch"),
        ("job: {task: train}", "gemma3-gsm8k"),
        ("job: {name: null}", "grpo-job"),
        ("job: {name: Not A Name}", "grpo-job"),
    ],
)
def test_the_release_of_a_task_is_named_after_the_run_and_the_task(tmp_path: Path, values: str, release: str) -> None:
    """A name that Helm would refuse is left to the schema, which names the key."""
    (tmp_path / "over.yaml").write_text(values, encoding="utf-8")
    stack = Stack.load([PROFILE, RECIPE, str(SITE), str(tmp_path / "over.yaml")])
    assert stack.release("grpo-job") == release


def test_rendering_with_a_helm_executable_gives_the_same_manifests(grpo: Run) -> None:
    helm = str(require_tool("helm4"))
    words = ["render", "storage", "--accelerator", "b200", *REST, "--kube-version", "1.34.0"]
    code, out, err = grpo(*words, "--helm", helm)
    assert (code, err.startswith(f"rendered with helm v4.3.1 ({helm})")) == (0, True)
    assert out.split() == grpo(*words)[1].split()


def test_a_chart_refusal_is_explained_as_lint_explains_it(grpo: Run, tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("job:\n  nodes: 64\n")
    words = ["--accelerator", "b200", *REST, "-f", str(tmp_path / "f.yaml")]
    told = grpo("lint", *words)[1]
    assert told.startswith(f"{tmp_path / 'f.yaml'}:2:3: job.nodes is 64")
    assert grpo("render", "grpo-job", *words) == (2, "", told)
    assert grpo("diff", *words, "--accelerator", "h200") == (2, "", told)
    (tmp_path / "f.yaml").write_text("zork: 1\n")
    code, out, err = grpo("render", "network", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"{tmp_path / 'f.yaml'}:1:1: there is no section called zork")
    (tmp_path / "f.yaml").write_text("platform:\n  kind: kubernetes\n")
    code, out, err = grpo("render", "network", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"{tmp_path / 'f.yaml'}:2:3: platform.kind kubernetes does not work on b200")
    assert "  fix: choose the profile of your cloud" in err


@pytest.mark.full
def test_set_arguments_are_linted_rendered_and_compared(grpo: Run, tmp_path: Path) -> None:
    words = ["--accelerator", "b200", *REST, "--set", "ray.workers.replicas=3", "--set-string", "job.name=mine"]
    assert grpo("lint", *words)[0] == 0
    (tmp_path / "f.yaml").write_text("ray: {workers: {replicas: 3}}\njob: {name: mine}\n")
    files = ["--accelerator", "b200", *REST, "-f", str(tmp_path / "f.yaml")]
    assert grpo("render", *words)[1] == grpo("render", *files)[1]
    code, out, _ = grpo("lint", *words, "--set", "a=1,job.nodes=64")
    assert code == 1
    assert out.startswith("<--set>:2:1: there is no section called a  [values/unknown-key]\n  2 | a=1,job.nodes=64\n")
    code, out, _ = grpo("lint", *words, "--set", "job.nodes=64", "--no-render", "--format", "json")
    assert [(each["file"], each["line"]) for each in json.loads(out)["findings"]] == [("<--set>", 2)]
    secret = EXAMPLES["huggingface"]
    code, out, err = grpo("lint", *words, "--set-string", f"job.name={secret}")
    assert (code, "[values/token]" in out, secret in out + err) == (1, True, False)
    assert grpo("diff", *words, "--accelerator", "h200")[0] == 0


@pytest.mark.parametrize(
    ("argument", "rule"),
    [
        ("job.config.policy.optimizer.kwargs.lr=1e-6", "nemo-rl/optimizer-arguments"),
        ("job.config.policy.generation.temperature=0.7", "nemo-rl/wrong-type"),
        ("accelerator.gpusPerNode=1e1", "values/wrong-type"),
    ],
)
def test_the_fix_for_a_number_set_would_keep_as_text_uses_set_json(grpo: Run, argument: str, rule: str) -> None:
    words = ["--accelerator", "b200", *REST, "--no-render", "--format", "json"]
    found = {each["rule"]: each["fix"] for each in json.loads(grpo("lint", *words, "--set", argument)[1])["findings"]}
    text = argument.partition("=")[2]
    assert found[rule] == f"Helm's --set keeps {text} as text: use --set-json {argument}"


@pytest.mark.parametrize("argument", ["images.training.rayVersion=2.55", "job.version=0.7", "ray.head.memory=1.5"])
def test_the_fix_uses_set_json_only_where_a_number_is_expected(grpo: Run, argument: str) -> None:
    words = ["--accelerator", "b200", *REST, "--no-render", "--format", "json"]
    found = json.loads(grpo("lint", *words, "--set", argument)[1])["findings"]
    assert found
    assert not any("--set-json" in each["fix"] for each in found)


def test_the_fix_for_text_set_would_read_as_a_number_uses_set_string(grpo: Run) -> None:
    words = ["--accelerator", "b200", *REST, "--no-render", "--format", "json"]
    argument = "ray.workers.replicas=2,ray.head.cpu=8"
    (found,) = json.loads(grpo("lint", *words, "--set", argument)[1])["findings"]
    assert found["fix"] == "Helm's --set reads a number or a boolean: use --set-string ray.head.cpu=8"


def test_a_missing_helm_executable_is_reported(grpo: Run, tmp_path: Path) -> None:
    code, out, err = grpo("render", "--accelerator", "b200", *REST, "--helm", str(tmp_path / "none"))
    assert (code, out) == (3, "")
    assert err.endswith("No such file or directory\n  fix: give the helm executable with --helm PATH\n")


def test_diff_shows_what_the_accelerator_changes(grpo: Run) -> None:
    sides = ["--accelerator", "b200", "--accelerator", "h200"]
    code, out, err = grpo("diff", *sides, *REST)
    assert code == 0
    assert err.startswith("rendered with helm ")
    assert [line.split(":")[0] for line in out.splitlines() if not line.startswith(" ")] == [*LAYERS, "ends", "locked"]
    assert 'nodeSelector["cloud.google.com/gke-accelerator"]\n      b200  nvidia-b200\n      h200  nvidia-h200' in out
    code, out, _ = grpo("diff", *sides, *REST, "--format", "json")
    assert {*json.loads(out)["layers"]} == {*LAYERS}


@pytest.mark.full
def test_a_reader_that_stops_early_causes_no_error() -> None:
    done = process("render", "--accelerator", "b200", *REST, redirect="| head -c 1 >/dev/null; echo ${PIPESTATUS[0]}")
    assert done.stdout == "0\n"
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device to write to")
def test_a_full_disk_is_reported() -> None:
    done = process("version", redirect="> /dev/full")
    assert (done.returncode, done.stderr) == (3, "grpo: the output cannot be written: No space left on device\n")


def test_non_ascii_input_works_in_any_locale(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("ü: 1\n", encoding="utf-8")
    done = process("lint", "-f", str(file))
    assert done.returncode == 1
    assert "there is no section called ü" in done.stdout


@pytest.mark.full
def test_a_pipe_is_read_once_and_used_everywhere(grpo: Run, tmp_path: Path) -> None:
    """As a file behind -f: it is judged, shown and rendered from one reading."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for command, text, words in (
        ("render grpo-job --accelerator b200", "job: {attempt: 2}", "gemma3-gsm8k-2"),
        ("lint --accelerator b200", "jbo: 1", "  1 | jbo: 1"),
        ("diff --accelerator b200 --accelerator h200", "job: {attempt: 2}", "nodeSelector"),
    ):
        with subprocess.Popen(["/bin/sh", "-c", f"echo '{text}' > {pipe}"]):
            _, out, _ = grpo(*command.split(), *REST, "-f", str(pipe))
        assert words in out, command


@pytest.mark.full
def test_missing_notes_are_reported() -> None:
    """Helm 3 has none without a cluster, and silence would look like there are none."""
    for name, words in (("helm3", "no notes: Helm 3 renders them only with a cluster"), ("helm4", "notes of network:")):
        files = [word for file in stack_files() for word in ("-f", str(file))]
        done = process("render", "network", "--notes", "--helm", str(require_tool(name)), *files)
        assert words in done.stderr


@pytest.mark.full
def test_a_pipe_reaches_an_executable_too(tmp_path: Path) -> None:
    helm = require_tool("helm4")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["sh", "-c", f"echo 'job: {{attempt: 2}}' > {pipe}"]):
        files = [word for file in stack_files() for word in ("-f", str(file))]
        done = process("render", "grpo-job", "--helm", str(helm), *files, "-f", str(pipe))
    assert 'name: "gemma3-gsm8k-2"' in done.stdout


@pytest.mark.parametrize(
    ("command", "stream"),
    thin(
        [(command, stream) for command in (["version"], ["lint", "-f", os.devnull], ["nonsense"]) for stream in CLOSED],
        3,
    ),
)
def test_a_closed_stream_gives_exit_code_3_without_a_traceback(command: list[str], stream: str) -> None:
    done = process(*command, redirect=stream)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == ("grpo: cannot write: stdout is closed\n" if stream == ">&-" else "")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["lint", "--no-render", "-f", PROFILE, "-f", "MANY"], 1),
        pytest.param(["lint", "--no-render", "-f", PROFILE, "-f", "MANY", "2>&1"], 1, marks=pytest.mark.full),
        pytest.param(["lint", "--no-render", "-f", PROFILE, *REST, "2>&1"], 0, marks=pytest.mark.full),
        (["rules"], 141),
    ],
)
def test_a_reader_that_stops_early_does_not_turn_findings_into_success(
    tmp_path: Path, words: list[str], code: int
) -> None:
    """What is longer than a buffer is cut off, as that of any program; a judgement stands all the same."""
    (tmp_path / "MANY").write_text("".join(f"a{number}: 1\n" for number in range(100)))
    done = process(*(str(tmp_path / word) if word.isupper() else word for word in words), redirect="| true")
    assert done.returncode == code
    assert "Traceback" not in done.stderr


@pytest.mark.full
def test_a_full_disk_behind_stderr_does_not_count_as_a_finding() -> None:
    done = process("lint", *(word for file in stack_files() for word in ("-f", str(file))), redirect="2> /dev/full")
    assert done.returncode == 3


def test_control_characters_do_not_reach_the_terminal(grpo: Run, tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text('"\\e[31mred": 1\nblue: "\x1b[34m"\n', encoding="utf-8")
    code, out, err = grpo("lint", "-f", str(file))
    assert code in (1, 2)
    assert out + err
    assert "\x1b" not in out + err


def test_an_executable_that_is_not_helm_is_reported(grpo: Run) -> None:
    code, out, err = grpo("render", "--helm", "/bin/true", "--accelerator", "b200", *REST)
    assert (code, out) == (3, "")
    assert "/bin/true is not helm" in err


def test_a_profile_among_the_files_of_a_diff_is_refused(grpo: Run) -> None:
    """It would replace both sides, and nothing would differ."""
    code, out, err = grpo("diff", "--accelerator", "b200", "--accelerator", "h200", "-f", PROFILE, *REST)
    assert (code, out) == (2, "")
    assert "a second accelerator profile" in err


def test_render_prints_all_or_nothing(grpo: Run, tmp_path: Path) -> None:
    """Half a stream must not reach a program behind a pipe."""
    file = tmp_path / "f.yaml"
    file.write_text("job: {volume: dta}\n")
    code, out, err = grpo("render", "all", "--accelerator", "b200", *REST, "-f", str(file))
    assert (code, out) == (2, "")
    assert "job.volume is" in err


@pytest.mark.parametrize("option", ["--namespace", "--release"])
def test_names_that_kubernetes_refuses_are_refused(grpo: Run, option: str) -> None:
    code, _, err = grpo("render", "storage", "--accelerator", "b200", *REST, option, "My NS")
    assert code == 2
    assert f"{option} is 'My NS', expected lower-case letters" in err


@pytest.mark.full
def test_dead_values_of_a_chart_are_findings(grpo: Run) -> None:
    """The evaluation moves nothing in any chart while the task is train; the run's name moves the grpo-job chart."""
    words = [word for file in stack_files() for word in ("-f", str(file))]
    code, out, err = grpo("dead-values", str(ROOT / "charts/storage"), *words, "--format", "json")
    found = {each["path"]: each["file"] for each in json.loads(out)["nothing"]}
    assert code == 1
    assert found["job.evaluate.tensorParallelSize"] == RECIPE
    assert not {"job.name", "storage.data.gcsfuse.bucket", "ray.workers.replicas"} & {*found}
    assert json.loads(out)["tried"] > 50
    assert err.startswith("rendered with helm ")


def test_dead_values_needs_one_chart(grpo: Run) -> None:
    for words in ([], ["a", "b"]):
        code, _, err = grpo("dead-values", *words)
        assert (code, "one chart is needed" in err) == (2, True)


def test_values_prints_what_a_key_means(grpo: Run) -> None:
    code, out, err = grpo("values", "ray.workers.replicas")
    assert (code, err) == (0, "")
    assert out.startswith("ray.workers.replicas  (integer, default 2)\n    GPU nodes of the cluster")
    assert "source: KubeRay" in out
    assert "network.mode  (string, one of multiNetwork, dranet, devices, none, default" in grpo("values", "network")[1]


def test_values_accepts_any_name_for_a_map_entry(grpo: Run) -> None:
    """As lint names it; and a key of Kubernetes' is called what it is."""
    code, out, _ = grpo("values", "storage.data.gcsfuse")
    assert code == 0
    assert (
        "storage.NAME.gcsfuse.purpose  (string, one of weights, data, checkpoints, cache)\n    Set of mount options"
        in out
    )
    assert (
        "ray.workers.sidecars.NAME  (Kubernetes Container)\n    The container"
        in grpo("values", "ray.workers.sidecars")[1]
    )


def test_values_lists_every_key_of_the_schema(grpo: Run) -> None:
    """Each leaf of values.yaml has its entry."""
    code, out, _ = grpo("values")
    assert code == 0
    for key in ("stack.name", "storage.NAME.gcsfuse.bucket", "ray.env.NAME.secret.key", "job.configFor.NAME"):
        assert f"\n{key}  (" in out, key
    assert "global" not in [line.split(" ")[0] for line in out.splitlines()]


WANDB_KEY = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "values",
    thin(
        [
            f"job.config.policy.model_name={EXAMPLES['huggingface']}",
            f"huggingface.secret.key={EXAMPLES['huggingface']}",
            f"tracking.wandb.secret.key={WANDB_KEY}",
            f"huggingface.secret.name=local-{WANDB_KEY}",
        ],
        2,
    ),
)
def test_a_secret_used_as_a_name_is_found_and_never_printed(grpo: Run, values: str) -> None:
    secret = values.partition("=")[2]
    words = ["--accelerator", "b200", *REST]
    code, out, err = grpo("lint", *words, "--set-string", values, "--no-render")
    assert (code, "[values/token]" in out, secret in out + err) == (1, True, False)
    for command in (["render", "grpo-job"], ["diff", "--accelerator", "h200"], ["try-reward"]):
        code, out, err = grpo(*command, *words, "--set-string", values)
        assert (code, secret in out + err, "[values/token]" in err) == (2, False, True), command


def test_a_guide_is_not_written_for_values_with_a_secret(grpo: Run, tmp_path: Path) -> None:
    secret = EXAMPLES["huggingface"]
    (tmp_path / "s.yaml").write_text(f"huggingface: {{secret: {{key: {secret}}}}}\n")
    code, out, err = grpo("guide", "--accelerator", "b200", *REST, "-f", str(tmp_path / "s.yaml"))
    assert (code, out, secret in err) == (2, "", False)


def test_json_numbers_helm_rejects_are_refused(grpo: Run) -> None:
    for number in ("NaN", "Infinity", "-Infinity"):
        code, _, err = grpo("lint", "--accelerator", "b200", *REST, "--set-json", f"a.b={number}", "--no-render")
        assert (code, "is no JSON number" in err) == (2, True)


def test_a_helm_that_fails_without_a_message_is_reported(grpo: Run) -> None:
    code, _, err = grpo("lint", "--accelerator", "b200", *REST, "--helm", "/bin/false")
    assert (code, err.startswith("/bin/false ended with exit code 1 and no message")) == (3, True)


def test_the_wiring_is_not_checked_when_it_is_off(grpo: Run) -> None:
    code, out, err = grpo("lint", "--accelerator", "b200", *REST, "--set", "stack.wiring.enabled=false")
    assert (code, out) == (0, "")
    assert "the wiring (grpo-post-render adds it)" in err


def test_an_invalid_kubernetes_version_is_refused(grpo: Run) -> None:
    code, out, err = grpo("render", "--accelerator", "b200", *REST, "--kube-version", "abc")
    assert (code, out) == (2, "")
    assert err.startswith("grpo render: --kube-version is 'abc', expected a version such as 1.35")


def test_the_program_exits_at_once_while_a_thread_awaits_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that Python takes away in a call of a library may abort the process, with another exit code."""
    ends = list[int]()
    monkeypatch.setattr(cli, "main", lambda: 1)
    monkeypatch.setattr(cli.os, "_exit", ends.append)
    with pytest.raises(SystemExit) as without:
        cli.program()
    assert (without.value.code, ends) == (1, [])
    answered = threading.Event()
    question = threading.Thread(target=answered.wait, daemon=True)
    question.start()
    try:
        with pytest.raises(SystemExit):
            cli.program()
        assert ends == [1]
    finally:
        answered.set()
        question.join()
