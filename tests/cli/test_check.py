"""`grpo check`: which manifests it reads, what it says of them and where, and with which exit code."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.check.objects import check
from grpo.cli import main as cli
from grpo.helm.engines import Rendered
from grpo.manifests.loader import read
from grpo.report import formats
from grpo.report import text as report_text
from postrender import textfile
from postrender.wiring.plan import Wiring
from tests import options
from tests.conftest import ACCELERATORS, LAYERS, RECIPES, ROOT, SITE, stack_files, thin
from tests.postrender.test_secrets import EXAMPLES

Run = Callable[..., tuple[int, str, str]]
PROFILE, RECIPE, _ = map(str, stack_files())
STACK = ["-f", PROFILE, "-f", RECIPE, "-f", str(SITE)]
SECRET = EXAMPLES["huggingface"]
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n"
DUPLICATE = """\
apiVersion: v1
kind: Pod
metadata:
  name: pod
spec:
  containers:
    - name: main
      image: example/trainer:1
      env:
        - name: A
        - name: A
"""
FOUND = "Pod pod: main: env has two entries with name A"
GPU_POD = """\
apiVersion: v1
kind: Pod
metadata: {name: gpus}
spec:
  nodeSelector: {cloud.google.com/gke-accelerator: nvidia-h200-141gb}
  containers:
  - name: main
    image: example/trainer:1
    resources: {limits: {nvidia.com/gpu: 8}}
    volumeMounts: [{name: shared-memory, mountPath: /dev/shm}]
  volumes: [{name: shared-memory, emptyDir: {medium: Memory, sizeLimit: 250Gi}}]
"""


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run `grpo check` in an empty folder, without a helm executable on PATH; return exit code, stdout, stderr."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    # Both know files by their names, and each test has an a.yaml of its own.
    report_text._source_lines.cache_clear()
    monkeypatch.setattr(textfile, "_streams", {})

    def run(*words: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = cli.main(["check", *words])
        return code, *capsys.readouterr()

    return run


def test_a_finding_has_four_parts_and_a_line_number(grpo: Run) -> None:
    Path("a.yaml").write_text(f"{CONFIG.format(name='a')}---\n{DUPLICATE}")
    code, out, err = grpo("a.yaml")
    assert (code, err) == (1, "")
    assert out == (
        f"a.yaml:16:11: {FOUND}  [pods/duplicate-merge-key]\n"
        "  16 |         - name: A\n"
        "     |           ^\n"
        "  why: server-side apply, Helm 4's default, refuses it; a client-side apply silently keeps one of the two\n"
        "  fix: remove one of the two entries\n"
        "  see: grpo explain pods/duplicate-merge-key\n\n1 error\n"
    )


def test_findings_are_printed_as_json_and_github_annotations(grpo: Run) -> None:
    Path("a.yaml").write_text(DUPLICATE)
    code, out, _ = grpo("a.yaml", "--format", "json")
    (found,) = json.loads(out)["findings"]
    assert (code, found["file"], found["line"], found["col"]) == (1, "a.yaml", 11, 11)
    assert (found["rule"], found["what"]) == ("pods/duplicate-merge-key", FOUND)
    code, out, _ = grpo("a.yaml", "--format", "github")
    assert (code, out.startswith("::error file=a.yaml,line=11,col=11,title=pods/duplicate-merge-key::")) == (1, True)
    Path("a.yaml").write_text(CONFIG.format(name="a"))
    assert grpo("a.yaml", "--format", "json")[:2] == (0, '{\n  "findings": []\n}\n')
    assert grpo("a.yaml", "--format", "xml")[0] == 2


def test_clean_manifests_are_counted(grpo: Run) -> None:
    text = "---\n".join(CONFIG.format(name=name) for name in "abc")
    assert grpo("-", stdin=text.encode()) == (0, "", "clean: 3 manifests\n")
    assert grpo("-", stdin=CONFIG.format(name="a").encode()) == (0, "", "clean: 1 manifest\n")


def test_lines_of_stdin_are_quoted_in_findings(grpo: Run) -> None:
    code, out, err = grpo("-", stdin=f"---\n{DUPLICATE}".encode())
    assert (code, err) == (1, "")
    assert out.startswith(f"<stdin>:12:11: {FOUND}")
    assert "\n  12 |         - name: A\n" in out


def test_a_folder_is_read_recursively(grpo: Run) -> None:
    for name in ("b.yml", "a.yaml", "below/c.json", "notes.txt", ".github/workflow.yaml"):
        path = Path("all") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(DUPLICATE.replace("name: pod", f"name: pod-{path.stem}"))
    Path("all/below/c.json").write_text(
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod-c"},\n'
        ' "spec": {"volumes": [{"name": "x"},\n  {"name": "x"}],\n'
        ' "containers": [{"name": "c", "volumeMounts": [{"name": "x", "mountPath": "/x"}]}]}}\n'
    )
    Path("all/kustomization.yaml").write_text("resources: [a.yaml, b.yml]\n")
    code, out, _ = grpo("all", "--format", "json", "--select", "pods/duplicate-merge-key")
    assert code == 1
    assert [(each["file"], each["line"]) for each in json.loads(out)["findings"]] == [
        ("all/a.yaml", 11),
        ("all/b.yml", 11),
        ("all/below/c.json", 3),
    ]


def test_duplicates_are_found_within_a_file_or_folder_but_not_across_folders(grpo: Run) -> None:
    """Two clusters in one repository hold the same names."""
    for name in ("b200/a.yaml", "b200/b.yaml", "h200/a.yaml", "b200.yaml", "h200.yaml"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(CONFIG.format(name=Path(name).stem))
    assert grpo(".")[0] == 0
    assert grpo("b200/a.yaml", "h200/a.yaml", "b200/a.yaml") == (0, "", "clean: 2 manifests\n")
    Path("b200/b.yaml").write_text("# A copy.\n" + CONFIG.format(name="a"))
    code, out, _ = grpo(".")
    assert code == 1
    assert out.startswith("./b200/b.yaml:5:9: ConfigMap a is already in ./b200/a.yaml:1  [stream/object-twice]\n")
    assert out.endswith("\n1 error\n")


def test_a_namespaced_object_in_two_folders_of_one_command_is_a_duplicate(grpo: Run) -> None:
    """A copied run whose name was forgotten: two folders of one cluster hold the same RayJob."""
    spaced = CONFIG + "  namespace: {namespace}\n"
    for name, namespace in {"one/a.yaml": "rl", "two/a.yaml": "rl", "three/a.yaml": "other"}.items():
        Path(name).parent.mkdir()
        Path(name).write_text(spaced.format(name="a", namespace=namespace))
    said = "two/a.yaml:4:9: warning: ConfigMap a is already in one/a.yaml:1  [stream/object-twice]\n"
    for words in (("one/a.yaml", "two/a.yaml"), ("one", "two"), ("one", "two/a.yaml"), ("one/a.yaml", "one", "two")):
        code, out, _ = grpo(*words)
        assert (code, out.startswith(said), "\n1 warning; the exit code is 0" in out) == (0, True, True)
    code, out, _ = grpo("two", "-", stdin=Path("one/a.yaml").read_bytes())
    assert (code, out.startswith("<stdin>:4:9: warning: ConfigMap a is already in two/a.yaml:1 ")) == (0, True)
    for words in (
        ("one", "two", "--apart"),
        ("one", "three"),
        ("one/a.yaml", "one/../one/a.yaml"),
        ("one", "one/a.yaml"),
        ("one/a.yaml", "one"),
        (".",),
    ):
        assert grpo(*words)[2].startswith("clean: "), words


def test_a_cluster_scoped_duplicate_is_found_and_patches_are_ignored(grpo: Run) -> None:
    network = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: data}\nspec: {}\n"
    for name in ("base", "overlay"):
        Path(name).mkdir()
        Path(f"{name}/volume.yaml").write_text(network)
    assert "volume data is already in base/volume.yaml:1".lower() in grpo("base", "overlay")[1].lower()
    select = ("--select", "stream")
    Path("base/kustomization.yaml").write_text("resources: [volume.yaml]\n")
    for index in ("resources: [../base]\n", "resources: []\npatches: [{path: volume.yaml}]\n"):
        Path("overlay/kustomization.yaml").write_text(index)
        assert grpo("base", "overlay", *select)[:2] == (0, "")
        assert grpo("base/volume.yaml", "overlay/volume.yaml", *select)[0] == 0


def test_values_enable_the_machine_rules(grpo: Run) -> None:
    Path("pod.yaml").write_text(GPU_POD)
    machine = ("pod.yaml", "--select", "nodes,network")
    assert grpo(*machine)[0] == 0
    code, out, _ = grpo(*machine, "--accelerator", "b200", "-f", RECIPE)
    assert code == 1
    assert out.startswith("pod.yaml:5:52: Pod gpus: the pod selects nvidia-h200-141gb of GKE, but the values")
    code, out, _ = grpo(*machine, "--accelerator", "h200")
    assert code == 1
    assert "pod.yaml:3:11: Pod gpus: the pod has no annotation networking.gke.io/interfaces" in out


def test_values_without_manifests_are_referred_to_lint(grpo: Run) -> None:
    code, out, err = grpo(*STACK)
    assert (code, out) == (2, "")
    assert err.endswith("  fix: grpo lint -f … judges values and what they render to\n")


def test_all_output_of_the_post_renderer_is_checked(grpo: Run) -> None:
    """Hooks too, which Helm 3 gives to no post-renderer."""
    hook = DUPLICATE.replace("  name: pod\n", "  name: pod\n  annotations:\n    helm.sh/hook: pre-install\n")
    start = [sys.executable, "-c", "import sys; from postrender.main import main; sys.exit(main())"]
    done = subprocess.run(
        [*start, "--values", PROFILE],
        input=f"{GPU_POD.replace('nvidia-h200-141gb', 'nvidia-b200')}---\n{hook}".encode(),
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert b"networking.gke.io/interfaces" in done.stdout
    code, out, _ = grpo("-f", PROFILE, "-", stdin=done.stdout)
    assert (code, out.count("  why: ")) == (1, 1)
    assert FOUND in out


BAD = {
    "missing file": ("none.yaml", None, 3, "none.yaml: there is no such file or folder\n  fix: check the path\n"),
    "empty folder": ("empty", None, 2, "empty: the folder contains no manifests\n  fix: expected .yaml, .yml, .json\n"),
    "empty file": ("f.yaml", b"", 2, "no Kubernetes objects in f.yaml\n  fix: give rendered manifests\n"),
    "comments": ("f.yaml", b"# a\n---\n# b\n", 2, "no Kubernetes objects in f.yaml\n"),
    "no UTF-8": ("f.yaml", b"kind: A\nb: \xff\n", 2, "f.yaml:2:4: this is not UTF-8: byte 0xff\n"),
    "NUL": ("f.yaml", b"kind: A\nb: \0\n", 2, "f.yaml:2:4: this is not a text file: it contains a NUL byte\n"),
    "no YAML": ("f.yaml", b"kind: A\n---\nkind: [\n", 2, "f.yaml:3:7: this is not YAML: "),
    "a list": ("f.yaml", b"kind: A\n---\n- a\n", 2, "f.yaml:3:1: expected a Kubernetes object, found a list\n"),
    "a scalar": ("f.yaml", b"Error: oh\n---\noh\n", 2, "f.yaml:1:1: expected a Kubernetes object, found a map without"),
    "a text": ("f.yaml", b"kind: A\n--- oh\n", 2, "f.yaml:2:5: expected a Kubernetes object, found a single value\n"),
    "two keys": (
        "f.yaml",
        b"kind: A\n---\nkind: B\nb: 1\nb: 2\n",
        2,
        "f.yaml:5:1: the key 'b' is given twice: the first is at f.yaml:4:1; Helm would silently use this one\n",
    ),
    "no mark": (
        "f.yaml",
        b"kind: A\r---\rkind: B\r",
        2,
        "f.yaml:3:1: two documents without a --- line between them\n  3 | kind: B\n    | ^\n  fix: write --- above",
    ),
    "values": (
        "f.yaml",
        b"stack: {name: a}\n",
        2,
        "f.yaml:1:1: expected a Kubernetes object, found a map without a kind",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_input_that_is_not_a_manifest_gives_one_error_with_its_line(grpo: Run, case: str) -> None:
    name, data, expected, message = BAD[case]
    Path("empty").mkdir()
    Path("empty/notes.txt").write_text("a")
    if data is not None:
        Path(name).write_bytes(data)
    code, out, err = grpo(name)
    assert (code, out) == (expected, "")
    assert err.startswith(message)
    if data:
        # From a pipe the same, and the line is shown.
        code, out, err = grpo("-", stdin=data)
        assert (code, out) == (expected, "")
        assert err.startswith(message.replace("f.yaml", "<stdin>"))


def test_a_values_file_given_without_f_is_pointed_to_lint(grpo: Run) -> None:
    Path("my-site.yaml").write_text("stack: {name: a}\n")
    _, _, err = grpo("my-site.yaml")
    assert "pass a values file with -f: grpo lint -f my-site.yaml" in err


def test_an_empty_command_line_says_what_to_write(grpo: Run) -> None:
    code, out, err = grpo()
    assert (code, out) == (2, "")
    assert err.startswith("grpo check: nothing to check: no manifests and no chart\n  fix: grpo check FILE, ")


def test_a_missing_values_file_is_reported(grpo: Run) -> None:
    Path("a.yaml").write_text(CONFIG.format(name="a"))
    assert grpo("-f", "none.yaml", "a.yaml") == (
        3,
        "",
        "none.yaml: there is no such file\n  fix: check the path, or write a site file with grpo init\n",
    )


def test_values_without_a_profile_are_refused(grpo: Run) -> None:
    Path("a.yaml").write_text(CONFIG.format(name="a"))
    code, _, err = grpo("-f", str(SITE), "a.yaml")
    assert (code, err.startswith("no accelerator profile among the values\n")) == (2, True)


def test_an_unreadable_folder_is_not_reported_as_clean(grpo: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("all/below").mkdir(parents=True)
    Path("all/a.yaml").write_text(CONFIG.format(name="a"))
    Path("all/below/gone.yaml").symlink_to("nowhere")
    assert grpo("all") == (3, "", "all/below/gone.yaml: there is no such file or folder\n  fix: check the path\n")


@pytest.mark.parametrize("form", thin(list(formats.FORMATS), 2))
@pytest.mark.parametrize(
    "text",
    [
        f"{CONFIG.format(name='a')}data: {{a: {SECRET}}}\n",
        f"{CONFIG.format(name=SECRET)}---\n{CONFIG.format(name=SECRET)}",
        f"kind: A\n{SECRET}: 1\n{SECRET}: 2\n",
        f"kind: A\na: [{SECRET}\n",
        f"{SECRET}\n",
        f"a: {SECRET}\n",
        f"kind: Pod\nspec: {{containers: [{{name: a, env: [{{name: {SECRET}}}, {{name: {SECRET}}}]}}]}}\n",
        f'{CONFIG.format(name="a")}data:\n  a: "\\x68{SECRET[1:]}"\n',
    ],
)
def test_no_message_contains_a_secret(grpo: Run, text: str, form: str) -> None:
    code, out, err = grpo("-", "--format", form, stdin=text.encode())
    assert code in (1, 2)
    assert out + err
    assert SECRET not in out + err
    assert SECRET[1:] not in out + err


def process(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell in which GRPO is the program."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "GRPO": f"{sys.executable} -m grpo.cli", "PYTHONWARNINGS": "error"},
    )


@pytest.mark.full
def test_a_closed_pipe_causes_no_traceback(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(DUPLICATE + "        - name: A\n" * 10_000)
    done = process(f"$GRPO check {file} | true; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout, done.stderr) == ("1\n", "")
    done = process("$GRPO check - <&-")
    assert (done.returncode, done.stderr.splitlines()[0]) == (3, "<stdin> is closed")
    done = process(f"$GRPO check {file} >&-")
    assert (done.returncode, done.stderr) == (3, "grpo: cannot write: stdout is closed\n")


MODES = {
    "multiNetwork": {},
    "dranet": {"network": {"mode": "dranet"}},
    "none": {"network": {"mode": "none"}},
    "autopilot": options.FACTORS["platform"]["gke-autopilot"],
    "kubernetes": {
        "platform": {"kind": "kubernetes"},
        "accelerator": {"refuses": {"kubernetes": None}},
        "network": {"mode": "none"},
        **options.instead(existingClaim={"name": "nfs"}),
    },
}
OWN = [(RECIPES[0], machine, mode) for machine in ACCELERATORS for mode in sorted(MODES, key="dranet".__ne__)]
OWN += [(recipe, machine, mode) for recipe in RECIPES[1:] for machine in ACCELERATORS for mode in [*MODES][:2]]


@pytest.mark.parametrize(("recipe", "accelerator", "mode"), thin(OWN, 60))
def test_our_own_layers_are_clean(
    accelerator: str, recipe: str, mode: str, render_text: Callable[..., Rendered]
) -> None:
    from postrender.wiring import inputs
    from postrender.yaml import reader

    values = MODES[mode]
    layers = {
        layer: render_text(layer, values, accelerator=accelerator, recipe=recipe).manifest.encode() for layer in LAYERS
    }
    merged = inputs.load([str(file) for file in stack_files(accelerator, recipe)])
    for section, keys in values.items():
        merged.setdefault(section, {}).update(keys)
    documents = read(layers)
    assert len(documents) == sum(len(reader.load_objects(text.decode(), "x")) for text in layers.values()) > 5
    found = check(documents, Wiring(merged))
    assert [f"{each.at}: {each.what}" for each in found] == []


def test_a_few_objects_can_be_checked_with_little_memory(tmp_path: Path) -> None:
    # A process may not be allowed to take what the largest stream needs.
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(GPU_POD)
    code = f"import sys; from grpo.cli.main import main; sys.exit(main(['check', {str(manifest)!r}]))"
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_AS, (120 << 20, 120 << 20)); {code}"
    done = subprocess.run([sys.executable, "-c", limit], check=False, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "clean: 1 manifest\n")


def test_running_out_of_memory_is_reported(grpo: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("grpo.check.request.streams", refuse)
    assert grpo(".") == (
        3,
        "",
        "grpo: out of memory\n  fix: raise the memory limit of this process (ulimit -v), or pass less input at once\n",
    )


CLUSTER = """\
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: a}
spec:
  headGroupSpec:
    labels: {rack: rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr.}
    template: {spec: {containers: [{name: a, image: "x:1"}]}}
"""
RAY, SCHEMA = "ray/group-label", "kubernetes/value-refused"


@pytest.mark.parametrize(
    ("selected", "rules", "left_out"),
    [((), {RAY}, ""), (("--select", RAY), {RAY}, "1 finding "), (("--select", SCHEMA), {SCHEMA}, "2 findings ")],
    ids=["all", "rule", "schema"],
)
def test_selecting_a_rule_shows_findings_another_rule_would_supersede(
    grpo: Run, tmp_path: Path, selected: tuple[str, ...], rules: set[str], left_out: str
) -> None:
    (tmp_path / "ray.yaml").write_text(CLUSTER)
    code, out, err = grpo("ray.yaml", "--format", "json", *selected)
    assert code == 1
    errors = [each for each in json.loads(out)["findings"] if each["severity"] == "error"]
    assert {each["rule"] for each in errors} == rules
    assert f"not shown: {left_out}" in err if left_out else "not shown" not in err


def test_an_accepted_finding_does_not_hide_another(grpo: Run, tmp_path: Path) -> None:
    (tmp_path / "ray.yaml").write_text(CLUSTER)
    (tmp_path / "accepted.yaml").write_text(f"checks: {{ignore: {{{RAY}: an old operator}}}}\n")
    code, out, _ = grpo("ray.yaml", "-f", PROFILE, "-f", RECIPE, "-f", str(SITE), "-f", "accepted.yaml")
    assert (code, SCHEMA in out) == (1, True)


def test_a_warning_does_not_hide_a_server_refusal(grpo: Run, tmp_path: Path) -> None:
    group = (
        "  workerGroupSpecs: [{groupName: w, replicas: -2, rayStartParams: {}, template: {spec: {containers: []}}}]\n"
    )
    (tmp_path / "ray.yaml").write_text(re.sub("rack: r*.", "", CLUSTER) + group)
    code, out, _ = grpo("ray.yaml")
    assert code == 1
    assert "replicas is -2, expected 0 or more  [kubernetes/value-refused]" in out


@pytest.mark.parametrize(("profile", "told"), [("coreweave-gb300", True), ("coreweave-b200", False), ("b200", False)])
def test_checks_skipped_for_missing_node_facts_are_named(grpo: Run, profile: str, told: bool) -> None:
    Path("a.yaml").write_text(CONFIG.format(name="a"))
    code, _, err = grpo("a.yaml", "-f", str(ROOT / f"values/accelerators/{profile}.yaml"))
    assert code == 0
    assert err.startswith("clean: 1 manifest")
    assert ("; not judged: whether a worker fits on its node" in err) == told
