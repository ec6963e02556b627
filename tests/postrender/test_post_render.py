"""The post-renderer wires what is a target, copies the rest byte for byte, or refuses the stream and says why."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from postrender import main as post_render
from postrender import secrets
from postrender.wiring.apply import NOT_WIRED, STAMP
from tests.conftest import ROOT, require_tool
from tests.postrender.streams import RAYCLUSTER, documents, pod
from tests.postrender.test_secrets import EXAMPLES

START = "import sys; from postrender.main import main; sys.exit(main())"
SECRET = EXAMPLES["huggingface"]
B200 = str(ROOT / "values/accelerators/b200.yaml")
CPU = str(ROOT / "values/accelerators/cpu.yaml")
VALUES = ("--values", B200)
STREAM = f"""\
---
# Source: app/templates/a.yaml
apiVersion: v1
kind: A
---
# Source: app/templates/b.yaml
apiVersion: v1
kind: B
env: {SECRET}
"""
EKS = str(ROOT / "values/accelerators/eks-h100.yaml")
EFA = "          vpc.amazonaws.com/efa: 32\n"
TEMPLATE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: own}
spec: {spec: {devices: {requests: [{name: efa, exactly: {deviceClassName: efa.networking.k8s.aws, count: 32}}]}}}
"""
PLAIN = b"---\n# Source: app/templates/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


def run(data: bytes, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the filter as Helm does, but in this process: a start of Python takes longer than the filter."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8") as err,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in [name for name in os.environ if name.startswith(("HELM_", "GRPO_"))]:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.chdir(ROOT)
        patch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        patch.setattr("sys.stdout", out)
        patch.setattr("sys.stderr", err)
        code = post_render.main([*arguments])
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.buffer.read(), err.buffer.read())


@pytest.mark.parametrize("gate", [(), ("--no-gate",)])
@pytest.mark.parametrize("data", [b"", b"\n\n", b"---\n", b"# nothing\n", b"a: 1", PLAIN, PLAIN + b"...\n", PLAIN * 3])
def test_a_stream_without_targets_is_copied_byte_for_byte(data: bytes, gate: tuple[str, ...]) -> None:
    data = data.replace(b"name: a", b"generateName: a")
    done = run(data, *VALUES, *gate)
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")


@pytest.mark.parametrize("data", [b"\xff\x00 no yaml\r\n", b"a: \tb: [", b"just text\n", "a: ü\u2028".encode()])
def test_without_the_gate_nothing_is_judged(data: bytes) -> None:
    done = run(data, *VALUES, "--no-gate")
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")


def test_only_targets_are_changed() -> None:
    stream = PLAIN + RAYCLUSTER.encode() + PLAIN.replace(b"name: a", b"name: b")
    done = run(stream, *VALUES)
    assert (done.returncode, done.stderr) == (0, b"")
    first, second, third = done.stdout.split(b"---\n")[1:]
    assert (first, third) == tuple(stream.split(b"---\n")[1::2])
    assert b"NCCL_NET" in second
    assert run(done.stdout, *VALUES).stdout == done.stdout


def test_values_files_can_be_named_in_the_environment() -> None:
    site = str(ROOT / "tests/site.yaml")
    by_environment = run(RAYCLUSTER.encode(), GRPO_VALUES=os.pathsep.join([B200, site]))
    assert by_environment.stdout == run(RAYCLUSTER.encode(), *VALUES, f"--values={site}").stdout != b""


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (PLAIN + b"---\n\na: \xff\n", 8, "document 2, line 8: this is not UTF-8: byte 0xff"),
        (PLAIN + b"---\n\na: [b\n", 8, "document 2, line 8: this is not YAML"),
        (PLAIN + b"---\n\na:\n\t- b\n", 9, "document 2, line 9: this is not YAML: a tab indents this line"),
        (PLAIN + b"---\nkind: Job\na: 'b\n", 8, "document 2, line 8: this is not YAML: found unexpected end of stream"),
        (PLAIN + b"---\njust text\n", 6, "document 2, line 6: expected a Kubernetes object, found a single value"),
        (PLAIN + b"---\n- a\n", 6, "document 2, line 6: expected a Kubernetes object, found a list"),
    ],
)
def test_a_stream_that_is_not_manifests_is_rejected_with_its_line(data: bytes, line: int, reason: str) -> None:
    done = run(data, *VALUES)
    assert (done.returncode, done.stdout) == (2, b"")
    assert reason in done.stderr.decode()
    assert f"line {line}" in done.stderr.decode()


def test_an_oversized_stream_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    code = f"from postrender.yaml import stream; stream.MAX_BYTES = 2**20; {START}"
    done = subprocess.run(
        [sys.executable, "-c", code, *VALUES], check=False, input=b"#" * 2**20 + b"\n", capture_output=True, cwd=ROOT
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"grpo-post-render: the stream is larger than 1 MiB\n")


def test_a_secret_is_rejected_by_place_and_shape_and_not_shown() -> None:
    done = run(STREAM.encode(), *VALUES)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == (
        "grpo-post-render: refused, nothing was written\n"
        "  document 2 (from app/templates/b.yaml), line 9 of the stream: this looks like a secret of the kind"
        " huggingface [secrets/literal-token]\n"
        "  fix: revoke it, put the new one into a Kubernetes Secret, and read it from there as HF_TOKEN with"
        " valueFrom.secretKeyRef (in values: huggingface.secret.name and huggingface.secret.key)\n"
    )


def test_a_base64_secret_in_a_named_list_is_rejected() -> None:
    hidden = base64.b64encode(SECRET.encode()).decode()
    held = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": hidden}}
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "metadata": {"name": "l"}, "items": [held]})
    done = run(f"---\n{text}".encode() + PLAIN, *VALUES)
    assert done.returncode == 1
    assert "Secret s: this contains a secret of the kind huggingface [secrets/literal-token]" in done.stderr.decode()


@pytest.mark.parametrize("shape", EXAMPLES)
def test_every_secret_shape_is_rejected(shape: str) -> None:
    done = run(f"kind: A\nenv: '{EXAMPLES[shape]}'\n".encode(), *VALUES)
    assert done.returncode == 1
    assert f"line 2: this looks like a secret of the kind {secrets.title_of(shape)}" in done.stderr.decode()
    assert EXAMPLES[shape].encode() not in done.stderr


@pytest.mark.parametrize(
    ("data", "arguments", "said"),
    [
        (STREAM.encode(), VALUES, "refused"),
        (b"- a\n", VALUES, "document 1, line 1: expected"),
        (PLAIN, (), "no values files"),
        (PLAIN, ("--values", "none.yaml"), "there is no such file"),
        (PLAIN, ("--gate", "off"), "'--gate' was not expected"),
    ],
)
def test_a_helm_4_plugin_reports_errors_in_text_that_helm_shows(
    data: bytes, arguments: tuple[str, ...], said: str
) -> None:
    done = run(data, *arguments, HELM_PLUGIN_NAME="grpo-post-render")
    assert done.returncode == 0
    assert done.stdout.decode().startswith("|\n  grpo-post-render: ")
    assert said in done.stdout.decode()
    assert SECRET.encode() not in done.stdout + done.stderr


def test_help_lists_every_option() -> None:
    done = run(b"", "--help")
    assert (done.returncode, done.stderr) == (0, b"")
    options = ("values", "report", "on-conflict", "select", "pod-template-path", "no-gate", "init-containers")
    for option in (*options, "allow-unwired"):
        assert f"--{option}".encode() in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("x",), "'x' was not expected"),
        (("--value", "x"), "'--value' was not expected"),
        (("-f", "x"), "'-f' was not expected\n  fix: give files with --values FILE"),
        (("--values",), "--values needs a value"),
        (("--on-conflict", "ask"), "--on-conflict is 'ask', expected one of fail, keep, replace"),
        (("--select", "my-cluster"), "--select is 'my-cluster', expected KIND/NAME"),
        (("--pod-template-path", "spec.template"), "--pod-template-path is 'spec.template', expected KIND=PATH"),
        ((SECRET,), "<huggingface token>"),
    ],
)
def test_an_invalid_argument_is_rejected(arguments: tuple[str, ...], said: str) -> None:
    done = run(PLAIN, *VALUES, *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr.decode()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("network: {mod: none}", "site.yaml:2:11: network.mod: there is no such key"),
        ("network: {mode: wlan}", "network.mode: expected one of multiNetwork, dranet, devices, none"),
        ("network: null", "network: this value is required"),
        ("huggingfase: {secret: {name: x}}", "site.yaml:2:1: there is no section huggingfase"),
        (
            "accelerator: {gpusPerNode: '8'}",
            "site.yaml:2:15: accelerator.gpusPerNode: expected a value of type integer",
        ),
        ("huggingface: {secret: {name: null}}", "huggingface.secret.name: this value is required"),
        ("a: [", "this is not YAML"),
    ],
)
def test_invalid_values_are_rejected_with_their_line(tmp_path: Path, text: str, said: str) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(f"# ours\n{text}\n")
    done = run(PLAIN, *VALUES, "--values", str(site))
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr.decode()


def test_values_without_a_profile_are_rejected() -> None:
    done = run(PLAIN, "--values", str(ROOT / "tests/site.yaml"))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"no accelerator profile among the values" in done.stderr


def test_the_report_lists_what_was_wired_skipped_and_rejected(tmp_path: Path) -> None:
    small = RAYCLUSTER.replace("nvidia.com/gpu: 8", "nvidia.com/gpu: 4").replace("name: ray", "name: small")
    report = tmp_path / "report.json"
    done = run((RAYCLUSTER + small).encode(), *VALUES, "--report", str(report))
    assert done.returncode == 0
    told = json.loads(report.read_text())
    assert [(each["name"], each["changed"]) for each in told["objects"]] == [("ray", True), ("small", True)]
    assert told["objects"][0]["pods"] == ["spec.workerGroupSpecs.0.template.spec"]
    assert told["objects"][0]["variables"] == ["spec.headGroupSpec.template.spec"]
    assert told["objects"][1]["skipped"] == [
        {"pod": "spec.workerGroupSpecs.0.template", "reason": "takes 4 GPUs, and a node of b200 has 8"}
    ]
    assert run(STREAM.encode(), *VALUES, "--report", str(report)).returncode == 1
    told = json.loads(report.read_text())
    assert [(each["rule"], each["line"]) for each in told["refused"]] == [("secrets/literal-token", 9)]
    assert SECRET not in report.read_text()


@pytest.mark.parametrize("policy", ["fail", "keep"])
def test_a_report_masks_a_secret_in_an_unexpected_place(tmp_path: Path, policy: str) -> None:
    """A conflict shows what is there, and somebody has put a token into a plain variable."""
    report = tmp_path / "report.json"
    env = f"      env: [{{name: NCCL_NET, value: {SECRET}}}]\n      resources:"
    stream = pod().replace("      resources:", env)
    done = run(stream.encode(), *VALUES, "--report", str(report), "--on-conflict", policy)
    assert (done.returncode, done.stdout) == (1, b"")
    (conflict,) = json.loads(report.read_text())["objects"][0]["conflicts"]
    assert conflict["there"] == {"name": "NCCL_NET", "value": "<huggingface token>"}
    assert SECRET not in report.read_text() + done.stderr.decode()


def test_a_failed_report_write_lets_nothing_pass(tmp_path: Path) -> None:
    done = run(PLAIN, *VALUES, "--report", str(tmp_path / "none/report.json"))
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"cannot be written: there is no folder" in done.stderr


def test_a_closed_output_pipe_causes_no_traceback() -> None:
    words = f"{sys.executable} -c '{START}' --values {B200}"
    command = (
        f"(echo '# x'; yes '# xxxxxxxxx' | head -n 500000) | {words} | head -c 1 >/dev/null; echo ${{PIPESTATUS[1]}}"
    )
    done = subprocess.run(["bash", "-c", command], check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "3\n"
    assert done.stderr == (
        "grpo-post-render: the stream cannot be written completely: Broken pipe\n"
        "  fix: free disk space, or check why the reading program ended\n"
    )


def test_running_out_of_memory_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(*_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=SimpleNamespace(read=refuse)))
    assert post_render.main([*VALUES]) == 3
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("grpo-post-render: out of memory")


def test_the_post_renderer_imports_no_command_line_library() -> None:
    """Neither to wire and to judge a stream, nor to refuse one."""
    code = f"import sys; from postrender.main import main; main({[*VALUES]!r}); sys.exit(repr(sys.modules))"
    for data in (RAYCLUSTER.encode(), STREAM.encode()):
        done = subprocess.run([sys.executable, "-c", code], check=False, input=data, capture_output=True, cwd=ROOT)
        loaded = done.stderr.decode()
        assert "'postrender.gate.literal_token'" in loaded
        assert not [
            name for name in ("click", "rich", "jsonschema_rs", "jsonschema", "omegaconf") if f"'{name}'" in loaded
        ]


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """Make a chart that renders a pod with whatever it is given."""
    chart = tmp_path / "app"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: app\nversion: 0.1.0\n")
    for name, text in documents().items():
        (chart / f"templates/{name}.yaml").write_text(text.replace("gpu: 8", "gpu: {{ .Values.gpus | default 8 }}"))
    (chart / "templates/a.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: {{ .Values.a }}}\n"
    )
    return chart


def test_helm_3_runs_the_post_renderer_and_shows_its_rejection(chart: Path, tmp_path: Path) -> None:
    program = require_tool("helm3")
    script = tmp_path / "grpo-post-render"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{START}' \"$@\"\n")
    script.chmod(0o755)

    def template(value: str, *words: str) -> subprocess.CompletedProcess[str]:
        arguments = [word for each in VALUES for word in ("--post-renderer-args", each)]
        return subprocess.run(
            [program, "template", "r", chart, "--set", f"a={value}", "--post-renderer", script, *arguments, *words],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    good = template("fine")
    assert (good.returncode, "a: fine" in good.stdout, "NCCL_NET" in good.stdout) == (0, True, True)
    unwired = template("fine", "--set", "gpus=4")
    assert (unwired.returncode, unwired.stdout) == (1, "")
    assert "Pod pod: the pod takes 4 GPUs, and a node of b200 has 8 [wiring/nothing-wired]" in unwired.stderr
    assert "--allow-unwired" in unwired.stderr
    bad = template(SECRET)
    assert (bad.returncode, bad.stdout) == (1, "")
    assert "looks like a secret of the kind huggingface" in bad.stderr
    assert SECRET not in bad.stderr


@pytest.mark.parametrize("number", ["8", '"8"', "'8'", "8.0", "8e0", "010", "0b1000", "8_", "8 # all", "0x8"])
def test_every_spelling_of_eight_gpus_is_wired(number: str) -> None:
    done = run(pod().replace("nvidia.com/gpu: 8", f"nvidia.com/gpu: {number}").encode(), *VALUES)
    assert b"NCCL_NET" in done.stdout


@pytest.mark.parametrize("bad", [b"\0", b"\x07", b"\x7f"])
def test_control_characters_are_rejected(bad: bytes) -> None:
    done = run(pod().replace("busybox", "busybox" + bad.decode()).encode(), *VALUES)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"document 1, line 8" in done.stderr


def test_an_equivalent_value_spelled_differently_is_not_a_conflict() -> None:
    mount = "      volumeMounts:\n        - {name: host-gib, mountPath: /usr/local/gib, readOnly: yes}\n"
    done = run(pod().replace("      resources", f"{mount}      resources").encode(), *VALUES)
    assert (done.returncode, b"readOnly: yes" in done.stdout) == (0, True), done.stderr


def test_a_conflict_in_a_list_is_reported_at_its_line() -> None:
    inner = "".join(f"    {line}\n" for line in pod("b").splitlines())
    env = "          env: [{name: NCCL_NET, value: Socket}]\n"
    text = f"apiVersion: v1\nkind: List\nitems:\n  - {{kind: ConfigMap}}\n  -\n{inner}".replace(
        "          resources:\n", f"{env}          resources:\n"
    )
    done = run(text.encode(), *VALUES)
    assert done.returncode == 1
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "NCCL_NET" in line)
    assert f"document 1, line {line}: Pod b: spec.containers[main].env[NCCL_NET] is" in done.stderr.decode()


def test_each_conflict_is_reported_at_its_own_line() -> None:
    """In a worker group: of variables, and of a mount."""
    own = """\
              env:
                - name: NCCL_DEBUG
                  value: INFO
                - name: NCCL_NET # <- conflict
                  value: own
              volumeMounts:
                - name: other
                  mountPath: /other
                - mountPath: /usr/local/gib/ # <- conflict
                  name: gib
                  readOnly: false
              resources:
"""
    text = PLAIN.decode() + RAYCLUSTER.replace("              resources:\n", own)
    done = run(text.encode(), *VALUES)
    told = re.findall(
        r"document 2 \(from app/templates/raycluster.yaml\), line (\d+) of the stream: \S+ \S+ spec",
        done.stderr.decode(),
    )
    marked = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# <- conflict")]
    assert sorted(map(int, told)) == marked, done.stderr


def test_two_objects_with_one_name_do_not_share_an_nvlink_domain() -> None:
    template = "".join(f"    {line}\n" for line in pod(gpus=4).splitlines()[4:])
    job = f"---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: ray\nspec:\n  template:\n{template}"
    stream = RAYCLUSTER.replace("nvidia.com/gpu: 8", "nvidia.com/gpu: 4").replace("replicas: 2", "replicas: 1") + job
    done = run(stream.encode(), "--values", str(ROOT / "values/accelerators/gb200.yaml"))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"document 2" in done.stderr
    assert b"Job ray and RayCluster ray would share ComputeDomain ray-nvlink-1" in done.stderr


L4 = "spec:\n  nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}\n"
SKIPPED = "  name: pod\n  annotations: {grpo-charts/wiring: skip}\n"
FOREIGN = """\
apiVersion: v1
kind: Own
metadata: {name: own}
spec: {template: {spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 8}}}]}}}
"""


# It runs on a cluster that is there.
RAY_JOB = """\
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: job}
spec: {entrypoint: "true", clusterSelector: {ray.io/cluster: ray}}
"""


@pytest.mark.parametrize("gate", [(), ("--no-gate",)])
@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("cpu: 8", ""),
        ("nvidia.com/gpus: 8", ": container ray-worker asks for nvidia.com/gpus, did you mean nvidia.com/gpu?"),
        ("nvidia.com/gpu: 0", ": container ray-worker has 0 in limits"),
        ("amd.com/gpu: 8", ""),
    ],
)
def test_a_ray_cluster_without_gpus_is_rejected(written: str, reason: str, gate: tuple[str, ...]) -> None:
    """A chart ignores a misspelt value in silence."""
    done = run(RAYCLUSTER.replace("nvidia.com/gpu: 8", written).encode(), *VALUES, *gate)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == (
        "grpo-post-render: refused, nothing was written\n"
        "  document 1 (from app/templates/raycluster.yaml), line 23 of the stream: RayCluster ray: no pod of this"
        f" stream asks for nvidia.com/gpu; spec.workerGroupSpecs.0.template (group gpus) asks for no"
        f" nvidia.com/gpu{reason} [wiring/nothing-wired]\n"
        "  fix: write nvidia.com/gpu: 8 into resources.limits of a container (a chart ignores a misspelt value:"
        " grpo dead-values finds it), or allow it with --allow-unwired (helm: --post-renderer-args --allow-unwired)\n"
    )


@pytest.mark.parametrize("selector", ["", L4])
def test_a_group_without_gpus_next_to_a_debug_pod_is_reported_too(selector: str) -> None:
    """Also where the pod is for another machine, which is another reason."""
    debug = pod("debug", gpus=8 if selector else 1).replace("spec:\n", selector or "spec:\n")
    done = run((debug + RAYCLUSTER.replace("nvidia.com/gpu: 8", "cpu: 8")).encode(), *VALUES)
    assert (done.returncode, done.stdout) == (1, b"")
    said = done.stderr.decode()
    assert "RayCluster ray: spec.workerGroupSpecs.0.template (group gpus) asks for no nvidia.com/gpu [wiring" in said
    assert "Pod debug: the pod " in said


def test_the_gate_judges_unwired_pods_too() -> None:
    twice = "      env: [{name: A, value: a}, {name: A, value: b}]\n      resources:\n"
    done = run(pod(gpus=4).replace("      resources:\n", twice).encode(), *VALUES, "--allow-unwired")
    assert (done.returncode, b"[pods/duplicate-merge-key]" in done.stderr) == (1, True)


def test_a_conflict_caused_by_an_earlier_run_says_so(tmp_path: Path) -> None:
    """Whoever wires a file again wires its own output."""
    (tmp_path / "site.yaml").write_text("network: {names: {prefix: own-}}\n")
    once = run(pod().encode(), *VALUES)
    again = run(once.stdout, *VALUES, "--values", str(tmp_path / "site.yaml"))
    assert again.returncode == 1
    assert b"an earlier run with other values wired this" in again.stderr
    assert b"fix: render it again from the source" in again.stderr
    own = run(
        pod().replace("      resources", "      env: [{name: NCCL_NET, value: a}]\n      resources").encode(), *VALUES
    )
    assert (own.returncode, b"earlier run" in own.stderr) == (1, False)


COREWEAVE = str(ROOT / "values/accelerators/coreweave-b200.yaml")


@pytest.mark.parametrize(
    ("profile", "spec", "fix"),
    [
        (B200, L4, "give the profile of the selected machine (values/accelerators) as a values file"),
        (
            COREWEAVE,
            "spec:\n  volumes: [{name: gib, hostPath: {path: /home/kubernetes/bin/gib}}]\n",
            "remove the volume",
        ),
        (
            COREWEAVE,
            '  annotations: {networking.gke.io/interfaces: \'[{"interfaceName":"eth0","network":"a"}]\'}\nspec:\n',
            "remove the annotation networking.gke.io/interfaces",
        ),
    ],
)
def test_a_suggested_fix_applies_to_this_program_and_cloud(profile: str, spec: str, fix: str) -> None:
    done = run(pod().replace("spec:\n", spec).encode(), "--values", profile)
    assert (done.returncode, re.findall(r"  fix: (.*)", done.stderr.decode())[0].startswith(fix)) == (1, True), done


def test_a_selection_that_matches_nothing_is_quoted_as_written() -> None:
    done = run(pod().encode(), *VALUES, "--select", "RayCluster/nope")
    assert b"--select RayCluster/nope: the stream has no such object with pods to wire" in done.stderr
    assert run(pod().encode(), *VALUES, "--select", "pod/pod").returncode == 0


@pytest.mark.parametrize("gate", [(), ("--no-gate",)])
def test_a_stream_with_gpus_but_nothing_wired_is_rejected(gate: tuple[str, ...]) -> None:
    """Helm shows nothing that a post-renderer says when it succeeds."""
    other = pod("l4", gpus=1).replace("spec:\n", L4)
    stream = f"{PLAIN.decode()}---\n{pod(gpus=4)}---\n{other}---\n{FOREIGN}"
    done = run(stream.encode(), *VALUES, *gate)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == (
        "grpo-post-render: refused, nothing was written\n"
        "  document 2, line 7: Pod pod: the pod takes 4 GPUs, and a node of b200 has 8 [wiring/nothing-wired]\n"
        "  document 3, line 19: Pod l4: the pod takes 1 GPU, and a node of b200 has 8 [wiring/nothing-wired]\n"
        "  document 4, line 35: Own own: spec.template takes 8 GPUs, and Own is not known to have pods there"
        " (--pod-template-path Own=spec.template) [wiring/nothing-wired]\n"
        "  fix: ask for nvidia.com/gpu: 8 in one container, which takes a whole node, or allow it with"
        " --allow-unwired (helm: --post-renderer-args --allow-unwired)\n"
        "  fix: name its pod templates with --pod-template-path KIND=PATH, or allow it with"
        " --allow-unwired (helm: --post-renderer-args --allow-unwired)\n"
    )


def test_a_pod_for_a_different_machine_is_rejected_once() -> None:
    done = run(pod().replace("spec:\n", L4).encode(), *VALUES)
    assert (done.returncode, done.stderr.count(b"[")) == (1, 1)
    assert b"[nodes/another-accelerator]" in done.stderr
    assert b"[wiring/nothing-wired]" in run(pod().replace("spec:\n", L4).encode(), *VALUES, "--no-gate").stderr


@pytest.mark.parametrize(
    ("stream", "arguments", "told"),
    [
        (pod(gpus=4), ["--allow-unwired"], "the pod takes 4 GPUs, and a node of b200 has 8"),
        (f"{pod()}---\n{pod('b', gpus=4)}", [], "the pod takes 4 GPUs, and a node of b200 has 8"),
        (f"{pod()}---\n{FOREIGN}", [], "spec.template takes 8 GPUs, and Own is not known to have pods there"),
        # What somebody leaves out on purpose is no surprise.
        (pod(gpus=4).replace("  name: pod\n", SKIPPED), [], ""),
        (f"{pod(gpus=4)}{RAYCLUSTER}", ["--select", "RayCluster/ray"], ""),
        (FOREIGN, ["--pod-template-path", "Own=spec.template"], ""),
        # Neither have these GPUs, nor are they of Ray.
        (pod().replace("nvidia.com/gpu: 8", "nvidia.com/gpu: 0"), ["--no-gate"], ""),
        (pod().replace("nvidia.com/gpu: 8", "nvidia.com/gpus: 8"), [], ""),
        (RAY_JOB, [], ""),
        # By choice, or beside pods that are wired.
        (
            RAYCLUSTER.replace("nvidia.com/gpu: 8", "nvidia.com/gpus: 8"),
            ["--allow-unwired"],
            "spec.workerGroupSpecs.0.template (group gpus) asks for no nvidia.com/gpu: container ray-worker asks for"
            " nvidia.com/gpus, did you mean nvidia.com/gpu?",
        ),
        (
            f"{pod()}{RAYCLUSTER.replace('nvidia.com/gpu: 8', 'cpu: 8')}",
            [],
            "spec.workerGroupSpecs.0.template (group gpus) asks for no nvidia.com/gpu",
        ),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: 'nvidia.com/gpu: 8'}\n", [], ""),
    ],
)
def test_a_stream_that_passes_still_names_unwired_pods(stream: str, arguments: list[str], told: str) -> None:
    done = run(stream.encode(), *VALUES, *arguments)
    assert done.returncode == 0, done.stderr
    said = [text["metadata"].get("annotations", {}).get(NOT_WIRED) for text in yaml.safe_load_all(done.stdout)]
    assert [each.partition(" (--")[0] for each in said if each] == ([told] if told else [])
    assert done.stderr.decode().endswith(": not wired\n" if told else "")
    assert told in done.stderr.decode()
    assert run(done.stdout, *VALUES, *arguments).stdout == done.stdout


@pytest.mark.parametrize("allowed", [True, False])
def test_a_kustomize_function_accepts_allow_unwired(allowed: bool) -> None:
    item = json.dumps(yaml.safe_load(pod(gpus=4)))
    config = f"functionConfig: {{spec: {{values: [{B200}], allow-unwired: {str(allowed).lower()}}}}}\n"
    done = run(f"apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: [{item}]\n{config}".encode())
    assert (done.returncode, NOT_WIRED.encode() in done.stdout) == (1 - allowed, allowed)


def test_a_gpu_pod_with_a_cpu_profile_is_rejected() -> None:
    """The workers of machines without GPUs are wired, but they are no pods with GPUs."""
    stream = pod() + RAYCLUSTER.replace("nvidia.com/gpu: 8", "cpu: 8")
    done = run(stream.encode(), "--values", CPU)
    assert (done.returncode, b"takes 8 GPUs, and cpu has none [wiring/nothing-wired]" in done.stderr) == (1, True)


def test_a_ray_cluster_without_gpus_passes_with_a_cpu_profile() -> None:
    done = run(RAYCLUSTER.replace("nvidia.com/gpu: 8", "cpu: 8").encode(), "--values", CPU)
    assert (done.returncode, NOT_WIRED.encode() in done.stdout) == (0, False), done.stderr


def test_a_missing_file_error_names_our_own_option() -> None:
    done = run(PLAIN, "--values", "none.yaml")
    assert (done.returncode, b"check the path after --values, or in GRPO_VALUES" in done.stderr) == (3, True)


def test_shared_memory_above_a_containers_memory_limit_is_rejected() -> None:
    """The volume is the wiring's own: the chart's defaults for a worker are far below it."""
    small = RAYCLUSTER.replace("nvidia.com/gpu: 8", "nvidia.com/gpu: 8\n                  memory: 1Gi")
    done = run(small.encode(), *VALUES)
    assert (done.returncode, done.stdout) == (1, b"")
    assert "RayCluster ray: /dev/shm of ray-worker has 250Gi, its memory limit is 1Gi" in done.stderr.decode()
    assert run(small.replace("1Gi", "300Gi").encode(), *VALUES).returncode == 0


def test_a_selector_of_a_different_cloud_next_to_the_machines_own_is_rejected() -> None:
    selector = "  nodeSelector: {eks.amazonaws.com/nodegroup: gpus}\n  containers:"
    done = run(pod().replace("  containers:", selector).encode(), *VALUES)
    assert (done.returncode, done.stdout) == (1, b"")
    assert "line 6: Pod pod: the pod selects a label of EKS (eks.amazonaws.com/nodegroup)" in done.stderr.decode()


def test_pods_for_a_cluster_with_the_other_network_mode_are_rejected() -> None:
    selector = "  nodeSelector: {gke.networks.io/accelerator-network-profile: auto}\n  containers:"
    done = run(pod().replace("  containers:", selector).encode(), *VALUES)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"with claimed interfaces, and network.mode is multiNetwork" in done.stderr


def test_a_chart_cannot_configure_the_post_renderer(tmp_path: Path) -> None:
    """It could switch off the gate, or have any file overwritten."""
    victim = tmp_path / "victim"
    victim.write_text("kept")
    config = f"functionConfig: {{spec: {{no-gate: true, report: {victim}, values: [{B200}]}}}}\n"
    listed = f"apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: [{{kind: A, b: {SECRET}}}]\n{config}"
    for text in (f"---\n{listed}", f"{listed}---\nkind: B\n", f"# ResourceList\n{listed}"):
        assert run(text.encode(), GRPO_VALUES=B200).returncode == 1, text
    assert run(listed.encode(), GRPO_VALUES=B200, HELM_PLUGIN_NAME="other").returncode == 1
    assert victim.read_text() == "kept"


def test_a_report_over_a_values_file_is_rejected(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("job: {attempt: 1}\n")
    done = run(PLAIN, *VALUES, "--values", str(site), "--report", str(site))
    assert (done.returncode, site.read_text()) == (2, "job: {attempt: 1}\n")


def test_an_existing_claim_template_with_a_different_spec_is_rejected(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("network: {mode: dranet}\n")
    own = "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\n"
    own += "metadata: {name: ray-rdma}\nspec: {spec: {}}\n"
    done = run((own + RAYCLUSTER).encode(), *VALUES, "--values", str(site))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"ResourceClaimTemplate ray-rdma exists with a spec that differs from the wiring" in done.stderr
    nameless = RAYCLUSTER.replace("  name: ray\n", "  labels: {}\n")
    done = run(nameless.encode(), *VALUES, "--values", str(site))
    assert (done.returncode, b"an object without a name cannot claim devices" in done.stderr) == (2, True)


@pytest.mark.parametrize(("mode", "asked", "is_claimed"), [("devices", "", True), ("dranet", EFA, False)])
def test_requesting_devices_by_claim_and_by_device_plugin_is_rejected(
    tmp_path: Path, mode: str, asked: str, is_claimed: bool
) -> None:
    """The one is in the stream, and the wiring adds the other."""
    (tmp_path / "site.yaml").write_text(f"network: {{mode: {mode}}}\n")
    claims = f"resourceClaims: {'[{name: efa, resourceClaimTemplateName: own}]' if is_claimed else '[]'}"
    text = f"{TEMPLATE}---\n{pod(gpus=8)}{asked}  {claims}\n"
    done = run(text.encode(), "--values", EKS, "--values", str(tmp_path / "site.yaml"))
    assert (done.returncode, done.stdout) == (1, b""), done.stderr
    assert b"requests vpc.amazonaws.com/efa, and the pod claims efa.networking.k8s.aws" in done.stderr


def test_unwritable_output_causes_no_traceback() -> None:
    for name in ("", "grpo-post-render"):
        code = "import sys; from postrender.main import main; sys.exit(main())"
        words = f"HELM_PLUGIN_NAME={name} {sys.executable} -c '{code}' --values none.yaml"
        done = subprocess.run(
            ["bash", "-c", f"{words} >/dev/full"], check=False, capture_output=True, text=True, cwd=ROOT
        )
        assert (done.returncode, "Traceback" in done.stderr) == (3, False), done.stderr


def test_a_full_disk_is_reported() -> None:
    words = f"{sys.executable} -c '{START}' --values {B200} --no-gate"
    done = subprocess.run(
        ["bash", "-c", f"{words} >/dev/full"], check=False, input=PLAIN, stderr=subprocess.PIPE, cwd=ROOT
    )
    assert done.returncode == 3
    said = b"grpo-post-render: the stream cannot be written completely: No space left on device\n  fix: free disk space"
    assert done.stderr.startswith(said)


@pytest.mark.parametrize("words", ["--help", "--values none.yaml"])
@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_closed_stream_causes_no_traceback(words: str, closed: str) -> None:
    code = "import sys; from postrender.main import main; sys.exit(main())"
    line = f"{sys.executable} -c '{code}' {words} </dev/null {closed}"
    done = subprocess.run(["bash", "-c", line], check=False, capture_output=True, text=True, cwd=ROOT)
    said = "grpo-post-render: cannot write: stdout is closed\n" if closed == ">&-" else ""
    assert (done.returncode, done.stdout, done.stderr) == (3, "", said)


def test_a_closed_stdin_is_reported() -> None:
    words = f"{sys.executable} -c '{START}' --values {B200} <&-"
    done = subprocess.run(["bash", "-c", words], check=False, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("grpo-post-render: cannot read the stream: stdin is closed\n")


def test_inside_another_plugin_errors_set_the_exit_code() -> None:
    done = run(STREAM.encode(), *VALUES, HELM_PLUGIN_NAME="secrets")
    assert (done.returncode, done.stdout) == (1, b"")


@pytest.mark.parametrize(
    "text", [f"huggingface: {{secret: {{name: {SECRET}}}}}", f"accelerator: {{nccl: {{env: {{NCCL_X: {SECRET}}}}}}}"]
)
def test_a_secret_in_the_values_is_not_written_to_the_stream(tmp_path: Path, text: str) -> None:
    (tmp_path / "site.yaml").write_text(text + "\n")
    done = run(RAYCLUSTER.encode(), *VALUES, "--values", str(tmp_path / "site.yaml"), "--no-gate")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"looks like a secret of the kind huggingface" in done.stderr
    assert SECRET.encode() not in done.stderr


@pytest.mark.parametrize("text", ["lots", "0Gi", "9" * 5000 + "Gi", "64GB"])
def test_an_invalid_quantity_in_the_values_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "site.yaml").write_text(f"accelerator: {{sharedMemory: {text}}}\n")
    done = run(PLAIN, *VALUES, "--values", str(tmp_path / "site.yaml"))
    assert (done.returncode, f"{text!r} is not a memory quantity" in done.stderr.decode()) == (2, True)


def test_a_number_of_any_length_is_passed_through() -> None:
    line = f"  terminationGracePeriodSeconds: {'9' * 5000}\n"
    done = run(pod("ray").replace("spec:\n", f"spec:\n{line}", 1).encode(), *VALUES)
    assert (done.returncode, line.encode() in done.stdout) == (0, True)


def test_a_hook_and_an_object_with_one_name_do_not_share_a_claim(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("network: {mode: dranet}\n")
    hook = pod("ray").replace("  name: ray", "  name: ray\n  annotations: {helm.sh/hook: test}")
    done = run(f"{RAYCLUSTER}---\n{hook}".encode(), *VALUES, "--values", str(tmp_path / "site.yaml"))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"Pod ray and RayCluster ray would share ResourceClaimTemplate ray-rdma" in done.stderr


def test_a_pod_template_path_that_matches_nothing_is_rejected() -> None:
    done = run(PLAIN, *VALUES, "--pod-template-path", "MyJob=spec.template")
    assert (done.returncode, b"--pod-template-path MyJob=" in done.stderr) == (2, True)


def test_a_claim_shared_by_two_objects_in_a_list_is_added_once(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("network: {mode: dranet}\n")
    items = "".join(
        "  -\n" + "".join(f"    {line}\n" for line in pod("a").replace("kind: Pod", f"kind: Pod\nx: {at}").splitlines())
        for at in range(2)
    )
    text = f"apiVersion: v1\nkind: List\nitems:\n{items}"
    done = run(text.encode(), *VALUES, "--values", str(tmp_path / "site.yaml"), "--no-gate")
    assert (done.returncode, done.stdout.count(b'ResourceClaimTemplate"')) == (0, 1), done.stderr


@pytest.mark.parametrize(("level", "code"), [("baseline", 1), ("restricted", 1), ("privileged", 0)])
def test_added_fields_are_judged_by_the_namespace_in_the_stream(level: str, code: int) -> None:
    """Pod Security would refuse the pods, and the API server would say so in an event only."""
    labels = f"{{pod-security.kubernetes.io/enforce: {level}}}"
    space = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: rl, labels: {labels}}}\n"
    done = run(f"{space}---\n{pod()}".replace("  name: pod\n", "  name: pod\n  namespace: rl\n").encode(), *VALUES)
    refused = b"pod-security.kubernetes.io/enforce: %s, which refuses the capability IPC_LOCK" % level.encode()
    assert (done.returncode, refused in done.stderr) == (code, bool(code)), done.stderr


BEHIND = """\
apiVersion: v1
kind: Pod
metadata: {name: behind}
spec:
  containers:
    - {name: log, image: log:1}
    - {name: main, image: train:1, resources: {limits: {nvidia.com/gpu: 8}}}
"""


def test_the_values_can_accept_a_gate_finding(tmp_path: Path) -> None:
    ignore, report = tmp_path / "ignore.yaml", tmp_path / "report.json"
    ignore.write_text("checks: {ignore: {pods/gpu-container-not-first: tried on a node}}\n")
    assert run(BEHIND.encode(), *VALUES).returncode == 1
    done = run(BEHIND.encode(), *VALUES, "--values", str(ignore), "--report", str(report))
    assert done.returncode == 0, done.stderr
    said = "comes after log [pods/gpu-container-not-first]: accepted by checks.ignore: tried on a node\n"
    assert done.stderr.decode().endswith(said)
    assert b"grpo-charts/wiring" in done.stdout
    (accepted,) = json.loads(report.read_text())["accepted"]
    assert (accepted["rule"], accepted["reason"]) == ("pods/gpu-container-not-first", "tried on a node")


@pytest.mark.parametrize(
    ("rule", "stream"),
    [
        ("secrets/literal-token", f"apiVersion: v1\nkind: B\nmetadata: {{name: b}}\nenv: {SECRET}\n"),
        ("stream/object-twice", f"{pod()}---\n{pod()}"),
        ("wiring/nothing-wired", pod(gpus=4)),
    ],
)
def test_findings_about_secrets_and_corruption_cannot_be_accepted(rule: str, stream: str, tmp_path: Path) -> None:
    ignore = tmp_path / "ignore.yaml"
    ignore.write_text(f"checks: {{ignore: {{{rule}: we know}}}}\n")
    done = run(stream.encode(), *VALUES, "--values", str(ignore))
    assert (done.returncode, done.stdout, f"[{rule}]".encode() in done.stderr) == (1, b"", True)
    assert (b"checks.ignore does not accept it" in done.stderr) == (not rule.startswith("wiring"))


@pytest.mark.parametrize(
    ("volume", "refused"),
    [
        # As in CoreWeave's own examples: the memory limit of the pod is the limit.
        ("emptyDir: {medium: Memory}", False),
        ("emptyDir: {medium: Memory, sizeLimit: 1Gi}", True),
        ("emptyDir: {}", True),
    ],
)
@pytest.mark.parametrize("name", ["shared-memory", "dshm"])
def test_shared_memory_without_a_memory_limit_is_not_a_conflict(name: str, volume: str, refused: bool) -> None:
    mounts = f"      volumeMounts: [{{name: {name}, mountPath: /dev/shm}}]\n"
    text = f"{pod()}{mounts}  volumes: [{{name: {name}, {volume}}}]\n"
    done = run(text.encode(), *VALUES)
    assert (done.returncode, b"[wiring/conflict]" in done.stderr) == (int(refused), refused), done.stderr
    if not refused:
        spec = yaml.safe_load(done.stdout)["spec"]
        assert [each for each in spec["volumes"] if "emptyDir" in each] == [
            {"name": name, "emptyDir": {"medium": "Memory"}}
        ]
        assert run(done.stdout, *VALUES).stdout == done.stdout


def test_a_leftover_check_for_a_different_machine_is_rejected(tmp_path: Path) -> None:
    """It looks for files of GKE's plugin, and ends with exit code 1 on every other node."""
    wired = yaml.safe_load(run(pod().encode(), *VALUES).stdout)
    (check,) = wired["spec"]["initContainers"]
    moved = yaml.safe_load(pod())
    moved["metadata"]["annotations"] = {STAMP: wired["metadata"]["annotations"][STAMP]}
    moved["spec"]["initContainers"] = [{**check, "volumeMounts": []}, {"name": "own", "image": "own:1"}]
    text = yaml.safe_dump(moved).encode()
    done = run(text, "--values", COREWEAVE)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"spec.initContainers[check-node] is {" in done.stderr
    assert b"the wiring wants none" in done.stderr
    assert b"an earlier run with other values wired this" in done.stderr
    done = run(text, "--values", COREWEAVE, "--on-conflict", "replace")
    assert (done.returncode, b"render the objects again from the source" in done.stderr) == (2, True), done.stderr
    check["args"] = ["exec my-own-check"]
    moved["spec"]["initContainers"] = [{**check, "volumeMounts": []}]
    assert run(yaml.safe_dump(moved).encode(), "--values", COREWEAVE).returncode == 0


def test_a_gate_warning_is_reported_but_rejects_nothing(tmp_path: Path) -> None:
    """Only bash reads the script of the plugin, which the wiring names."""
    report = tmp_path / "report.json"
    text = pod().replace("      image:", "      command: [torchrun, train.py]\n      image:")
    done = run(text.encode(), *VALUES, "--report", str(report))
    assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr
    assert b"warning: document 1, line 8: Pod pod: container main starts torchrun, which" in done.stderr
    assert [each["rule"] for each in json.loads(report.read_text())["warned"]] == ["nccl/script-not-read"]
    assert run(text.encode(), "--values", COREWEAVE).stderr == b""


def test_an_invalid_secret_name_is_rejected_and_not_shown(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("huggingface: {secret: {name: Team_HF, key: token}}\n")
    done = run(pod().encode(), *VALUES, "--values", str(site))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"site.yaml:1:24: huggingface.secret.name: no object has such a name" in done.stderr
    assert b"Team_HF" not in done.stderr


def test_a_second_profile_error_suggests_no_option_of_another_command() -> None:
    done = run(pod().encode(), *VALUES, "--values", COREWEAVE)
    assert done.returncode == 2
    assert b"a second accelerator profile" in done.stderr
    assert b"--compare" not in done.stderr


def test_the_error_for_a_partial_node_names_the_devices_that_its_pods_may_request() -> None:
    done = run(pod(gpus=4).encode(), "--values", COREWEAVE)
    assert done.returncode == 1
    assert b"ask for nvidia.com/gpu: 8 in one container" in done.stderr
    assert b"a part of one may ask for rdma/ib: 1" in done.stderr
    assert b"a part of one" not in run(pod(gpus=4).encode(), *VALUES).stderr


CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: shared}}\ndata: {data}\n---\n"
END = "---\napiVersion: v1\nkind: A\nmetadata: {name: end}\n"
REMOVE = "fix: remove {}: the post-renderer writes"


@pytest.mark.parametrize(
    ("data", "source", "fix"),
    [
        ("{NCCL_IB_DISABLE: '1'}", "configMapRef: {name: shared}", "NCCL_IB_DISABLE from ConfigMap shared"),
        ("{IB_DISABLE: '1'}", "prefix: NCCL_, configMapRef: {name: shared}", "IB_DISABLE from ConfigMap shared"),
        ("{NCCL_IB_DISABLE: '1'}", "configMapRef: {name: other}", ""),
    ],
)
def test_the_variables_of_a_config_map_in_the_stream_count(data: str, source: str, fix: str) -> None:
    text = pod().replace("    - name: main\n", f"    - name: main\n      envFrom: [{{{source}}}]\n")
    done = run(f"{CONFIG.format(data=data)}{text}{END}".encode(), "--values", COREWEAVE)
    assert (b"[nccl/variables-contradict]" in done.stderr) == bool(fix), done.stderr
    assert (REMOVE.format(fix).encode() in done.stderr) == bool(fix), done.stderr


def test_the_variables_of_one_key_of_a_config_map_count() -> None:
    source = "{name: NCCL_IB_DISABLE, valueFrom: {configMapKeyRef: {name: shared, key: setting}}}"
    text = pod().replace("    - name: main\n", f"    - name: main\n      env: [{source}]\n")
    shared = CONFIG.format(data="{setting: '1'}")
    done = run(f"{shared}{text}{END}".encode(), "--values", COREWEAVE)
    assert REMOVE.format("NCCL_IB_DISABLE").encode() in done.stderr


def test_the_gate_reads_a_config_map_whatever_variables_it_has() -> None:
    envfrom = "              envFrom: [{configMapRef: {name: shared}}]\n"
    text = RAYCLUSTER.replace("              resources:\n", f"{envfrom}              resources:\n")
    shared = CONFIG.format(data="{CUDA_VISIBLE_DEVICES: '0'}")
    done = run(f"{shared}{text}{END}".encode(), *VALUES)
    assert b"[ray/gpus-hidden]" in done.stderr, done.stderr


@pytest.mark.parametrize("value", [SECRET, "a1b2" * 10, "written-down"], ids=["shape", "digits", "word"])
@pytest.mark.parametrize("name", ["HF_TOKEN", "WANDB_API_KEY"])
@pytest.mark.parametrize(
    "entry", ["{{value: {1}, name: {0}}}", "\n        - name: {}\n          value: {}"], ids=["flow", "block"]
)
def test_a_secret_in_a_variable_is_refused_once(name: str, value: str, entry: str, tmp_path: Path) -> None:
    more = tmp_path / "more.yaml"
    more.write_text("tracking: {wandb: {enabled: true}}\n")
    written = entry.format(name, value)
    listed = written if "\n" in written else f"[{written}]"
    text = pod().replace("      resources:\n", f"      env: {listed}\n      resources:\n")
    done = run(text.encode(), *VALUES, "--values", str(more))
    # Forty digits are a key of W&B only after its name.
    has_shape = value == SECRET or (name == "WANDB_API_KEY" and value != "written-down" and "\n" in written)
    rule = "secrets/literal-token" if has_shape else "secrets/literal-variable"
    assert re.findall(r"\[([a-z]+/[a-z-]+)\]", done.stderr.decode()) == [rule], done.stderr


def test_a_pod_with_the_network_of_its_node_is_told_what_to_write() -> None:
    text = pod().replace("spec:\n", "spec:\n  hostNetwork: true\n")
    done = run(text.encode(), "--values", COREWEAVE)
    assert b"fix: write accelerator.hostNetwork: true and the node's accelerator.nccl.socketInterface" in done.stderr
    assert b"fix: remove hostNetwork: true" in run(text.encode(), *VALUES).stderr


def test_a_stream_with_a_secret_in_a_variable_is_refused_also_for_a_pod_that_is_not_wired() -> None:
    web = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n    - name: web\n"
    words = f"{web}      env: [{{name: HF_TOKEN, value: written-down}}]\n"
    done = run(f"{pod()}---\n{words}".encode(), *VALUES)
    assert b"HF_TOKEN of container web has its value in the manifest [secrets/literal-variable]" in done.stderr
    assert b"written-down" not in done.stderr


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("              resources:\n                requests: {nvidia.com/gpu: 4}\n", b"pods/requests-above-limits"),
        (
            "              env: [{name: CUDA_VISIBLE_DEVICES, value: '0,1'}]\n              resources:\n",
            b"ray/gpus-hidden",
        ),
    ],
)
def test_a_stream_whose_pods_would_not_start_is_refused(given: str, rule: bytes) -> None:
    done = run(RAYCLUSTER.replace("              resources:\n", given).encode(), *VALUES)
    assert (done.returncode, b"[" + rule + b"]" in done.stderr) == (1, True), done.stderr
