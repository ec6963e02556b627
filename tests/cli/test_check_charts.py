"""`grpo check CHART`: which charts it takes, what it says of them and where, and with which exit code."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.check import helm_chart
from grpo.check.helm_chart import Given
from grpo.cli import main as cli
from grpo.generate.release import package
from grpo.helm.engines import Embedded
from grpo.report import text as report_text
from postrender import textfile
from tests.conftest import ACCELERATORS, LAYERS, ROOT, require_tool, stack_files, thin
from tests.rendering import SharedHelm

Run = Callable[..., tuple[int, str, str]]
META = "apiVersion: v2\nname: app\nversion: 1.0.0\n"
SCHEMA = '{"properties": {"replicas": {"type": "integer"}, "global": {}}, "additionalProperties": false}\n'
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: app}
spec:
  containers:
  {{- range until (int .Values.replicas) }}
    - name: main-{{ . }}
      image: app:1.0
      env:
        - name: A
        - name: A
  {{- end }}
"""
SECRET = """\
apiVersion: v1
kind: Secret
metadata: {name: app}
stringData:
  password: {{ randAlphaNum 40 }}
"""
CLEAN = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {replicas: {{ .Values.replicas | quote }}}\n"


def write(folder: str, **files: str) -> Path:
    """Write a chart; keys are the names of its templates, or of its files."""
    chart = Path(folder)
    named = {"Chart.yaml": META, "values.yaml": "replicas: 1\n", "values.schema.json": SCHEMA}
    of_root = {"values": "values.yaml", "schema": "values.schema.json", "meta": "Chart.yaml"}
    for name, text in files.items():
        named[of_root.get(name, f"templates/{name}.yaml")] = text
    for name, text in named.items():
        (chart / name).parent.mkdir(parents=True, exist_ok=True)
        (chart / name).write_text(text, encoding="utf-8")
    return chart


@pytest.fixture
def grpo(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shared_helm: SharedHelm
) -> Run:
    """Run `grpo check` in an empty folder, without a helm executable on PATH; return exit code, stdout, stderr."""
    # Two renders of a chart may differ, so each is made anew, by the one Helm of all tests.
    monkeypatch.setattr(shared_helm, "_render", lambda request: shared_helm._ask(shared_helm.engine, request))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    # Both know files by their names, and each test has charts of the same names.
    report_text._source_lines.cache_clear()
    monkeypatch.setattr(textfile, "_streams", {})

    def run(*words: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = cli.main(["check", *words])
        return code, *capsys.readouterr()

    return run


def found(out: str) -> list[tuple[str, str, int]]:
    return [(each["rule"], each["file"], each["line"]) for each in json.loads(out)["findings"]]


def test_a_clean_chart_is_rendered_and_its_object_count_printed(grpo: Run) -> None:
    write("app", map=CLEAN)
    code, out, err = grpo("app")
    assert (code, out) == (0, "")
    assert re.fullmatch(r"rendered with helm v\S+ \(embedded, \S+ \S+\)\nclean: 1 manifest\n", err)


def test_a_finding_is_placed_at_the_matching_template_line(grpo: Run) -> None:
    write("app", pod=POD.replace("        - name: A\n        - name: A\n", "        - name: A\n        - {name: A}\n"))
    code, out, _ = grpo("app", "--select", "pods/duplicate-merge-key")
    assert code == 1
    assert out.startswith("app/templates/pod.yaml:11:11: Pod app: main-0: env has two entries with name A  [pods/")
    assert "\n  11 |         - {name: A}\n     |           ^\n  also: <app>:" in out


def test_a_finding_with_no_unique_matching_line_names_the_template(grpo: Run) -> None:
    write("app", pod=POD)
    code, out, _ = grpo("app", "--select", "pods/duplicate-merge-key")
    assert code == 1
    assert re.match(r"<app>:1\d:\d+: Pod app: main-0: env has two entries", out)
    assert "  also: app/templates/pod.yaml is the template\n" in out


def test_values_files_and_set_are_passed_to_the_chart(grpo: Run) -> None:
    write("app", pod=POD)
    Path("two.yaml").write_text("replicas: 2\n")
    Path("none.yaml").write_text("replicas: 0\n")
    only = ("--select", "pods/duplicate-merge-key", "--format", "json")
    assert [len(found(grpo("app", *files, *only)[1])) for files in ((), ("-f", "two.yaml"))] == [1, 2]
    assert found(grpo("app", "-f", "two.yaml", "-f", "none.yaml", *only)[1]) == []
    assert len(found(grpo("app", "-f", "none.yaml", "--set", "replicas=3", "-n", "team", *only)[1])) == 3


def test_a_difference_between_renders_is_reported_without_its_values(grpo: Run) -> None:
    write("app", secret=SECRET)
    for form in ("text", "json", "github", "sarif", "junit"):
        code, out, _ = grpo("app", "--format", form, "--fail-on", "warning")
        assert (code, "Secret app: stringData.password differs between two renders" in out) == (1, True)
        assert not re.search(r"password: [A-Za-z0-9]{8}|[A-Za-z0-9]{40}", out.replace("&#x27;", "'"))
    code, out, _ = grpo("app")
    assert (code, out.count("\n  also: ")) == (0, 2)
    assert out.startswith("app/templates/secret.yaml:5:16: warning: Secret app: stringData.password differs between")
    assert "  also: <app>, line 7 as it was rendered\n  also: <app, once more>, line 7 as it was rendered\n" in out


def test_a_secret_line_is_hidden_when_the_cause_is_unknown(grpo: Run) -> None:
    """The values hold the template, so no template calls a function."""
    values = "text: '{{ randAlphaNum 40 }}'\n"
    write("app", secret=SECRET.replace("randAlphaNum 40", "tpl .Values.text ."), values=values, schema="{}\n")
    code, out, _ = grpo("app", "--select", "chart/renders-differ", "--fail-on", "warning")
    assert code == 1
    assert out.startswith("app/templates/secret.yaml: warning: Secret app: stringData.password differs between two")
    assert not re.search("[A-Za-z0-9]{40}", out)


def test_use_of_now_is_found_even_when_both_renders_run_in_the_same_second(grpo: Run) -> None:
    write("app", map=CLEAN + "# {{ now }}\n", day=CLEAN.replace("name: app", "name: app-{{ now | date `2006` }}"))
    code, out, _ = grpo("app", "--format", "json", "--fail-on", "warning")
    assert code == 1
    assert found(out) == [("chart/renders-differ", "app/templates/day.yaml", 3)]
    assert "ConfigMap: metadata.name differs" in out


def test_an_object_in_only_one_render_is_found(grpo: Run) -> None:
    early = '{{ if lt (now | date "2006" | int) 2010 }}\n' + CLEAN.replace("name: app", "name: early") + "{{ end }}\n"
    write("app", map=CLEAN, early=early)
    code, out, _ = grpo("app", "--fail-on", "warning")
    assert code == 1
    assert "ConfigMap early is in only one of two renders, because of now" in out


def test_a_helm_failure_is_reported_along_with_the_findings(grpo: Run) -> None:
    write("app", map=CLEAN, schema='{"properties": {"replicas": {"pattern": "^(?!0)"}}}\n')
    code, out, err = grpo("app", "--select", "chart/pattern-not-re2")
    assert code == 2
    assert out.startswith("app/values.schema.json:1:41: the pattern has a lookahead  [chart/pattern-not-re2]\n")
    assert "\napp: values don't meet the specifications of the schema" in err
    assert "  fix: helm template app prints the same error; give the values that the chart needs with -f\n" in err


def test_a_chart_that_lacks_a_dependency_or_a_value_says_so(grpo: Run) -> None:
    write("app", map=CLEAN, meta=f"{META}dependencies: [{{name: redis, version: 1.0.0}}]\n")
    code, _, err = grpo("app")
    assert (code, "  fix: helm dependency build app\n" in err) == (2, True)
    write("other", map=CLEAN.replace(".Values.replicas", '(required "give replicas" .Values.size)'))
    code, _, err = grpo("other")
    assert (code, "give replicas" in err) == (2, True)


def test_a_packaged_chart_has_the_same_findings(grpo: Run, tmp_path: Path) -> None:
    write("app", secret=SECRET, pod=POD, day=CLEAN.replace("name: app", "name: app-{{ now | date `2006` }}"))
    with tarfile.open("app-1.0.0.tgz", "w:gz") as archive:
        archive.add("app")
    folder = found(grpo("app", "--format", "json")[1])
    packed = found(grpo("app-1.0.0.tgz", "--format", "json")[1])
    assert len(folder) == 3
    assert [(rule, file.replace("app-1.0.0.tgz", "app"), line) for rule, file, line in packed] == folder
    assert "password: {{ randAlphaNum 40 }}" in grpo("app-1.0.0.tgz")[1]


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b\x08broken"])
def test_a_file_that_is_not_a_chart_package_is_refused(grpo: Run, content: bytes) -> None:
    Path("a.tgz").write_bytes(content)
    code, _, err = grpo("a.tgz")
    assert code == 3
    assert err.startswith("a.tgz: not a chart")
    assert "give a chart's folder" in err
    assert grpo("b.tgz")[2].startswith("b.tgz: there is no such chart")


def test_a_folder_of_charts_is_not_read_as_manifests(grpo: Run) -> None:
    write("charts/one", map=CLEAN)
    write("charts/two", map=CLEAN)
    code, out, err = grpo("charts")
    assert (code, out) == (2, "")
    assert err == (
        "charts/one is a chart: its templates are not manifests yet\n"
        "  fix: give each chart as an argument: grpo check charts/one charts/two\n"
    )
    code, _, err = grpo("charts/one", "charts/two")
    assert (code, err.endswith("clean: 2 manifests\n")) == (0, True)


def test_charts_and_manifests_are_checked_together(grpo: Run) -> None:
    write("app", secret=SECRET)
    Path("pod.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: '${A}'}\nspec: {containers: []}\n")
    code, out, _ = grpo("pod.yaml", "app", "--format", "json")
    assert code == 1
    assert {rule for rule, _, _ in found(out)} >= {"chart/renders-differ", "stream/placeholder"}


def test_only_the_files_of_a_library_chart_are_checked(grpo: Run) -> None:
    write("common", meta=f"{META}type: library\n", values="a: 1\na: 2\n")
    code, out, err = grpo("common")
    assert code == 1
    assert out.startswith("common/values.yaml:2:1: the key 'a' is given twice: the first is at common/values.yaml:1:1")
    assert err.startswith("common is a library, which Helm does not render: only its files are checked\n")


def test_an_exception_in_the_values_accepts_a_chart_finding(grpo: Run) -> None:
    write("app", secret=SECRET, schema="{}\n")
    text = "checks: {ignore: {chart/renders-differ: made anew on purpose, chart/boolean-key: never}}\n"
    Path("values.yaml").write_text(text)
    code, out, _ = grpo("app", "-f", "values.yaml", "--fail-on", "warning")
    assert code == 0
    assert out.endswith("\n1 info; the exit code is 0, and 1 with --fail-on info\n")
    assert "chart/boolean-key finds nothing here" in out


def test_an_exceptions_file_is_not_passed_to_a_chart_whose_schema_refuses_it(grpo: Run) -> None:
    write("app", secret=SECRET)
    Path("values.yaml").write_text("replicas: 2\n")
    Path("accepted.yaml").write_text("checks: {ignore: {chart/renders-differ: made anew on purpose}}\n")
    words = ("app", "--fail-on", "warning")
    assert found(grpo(*words, "-f", "values.yaml", "--format", "json")[1]) != []
    assert grpo(*words, "-f", "values.yaml", "-f", "accepted.yaml")[:2] == (0, "")
    assert grpo(*words, "-f", "accepted.yaml")[:2] == (0, "")
    # With anything beside them the file is one of values, and Helm judges it.
    Path("accepted.yaml").write_text("replicas: 2\nchecks: {ignore: {chart/renders-differ: made anew on purpose}}\n")
    code, _, err = grpo("app", "-f", "accepted.yaml")
    assert (code, "checks" in err) == (2, True)
    # A chart may have a section of that name.
    Path("accepted.yaml").write_text("checks: {enabled: true}\n")
    assert grpo("app", "-f", "accepted.yaml")[0] == 2


def test_a_schema_in_json_that_is_not_valid_yaml_is_read(grpo: Run) -> None:
    write("app", map=CLEAN, schema='{"properties": {"replicas": {"description": "\\/ \\ud83d\\ude00"}}}\n')
    assert found(grpo("app", "--format", "json")[1]) == [("chart/loose-schema", "app/values.schema.json", 0)]


ODD_SCHEMAS = (
    *("true", "[]", "1", "{", "", '{"properties": []}', '{"properties": {"a": 1}, "allOf": {}, "required": "a"}'),
    *('{"$ref": 1}', '{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}', '{"$ref": "#/a/b"}'),
    *('{"$ref": "#"}', '{"properties": {"a": {"$ref": "#"}}}', '{"$schema": 7, "$id": 7, "pattern": 7}'),
    *(
        '{"additionalProperties": [], "patternProperties": {"(": {}}}',
        '{"items": [true, {"items": {"pattern": null}}]}',
    ),
)


@pytest.mark.parametrize("schema", ODD_SCHEMAS)
def test_no_rule_crashes_on_an_odd_schema(tmp_path: Path, schema: str, helm: Embedded) -> None:
    chart = write(str(tmp_path / "app"), map=CLEAN, schema=schema)
    assert "crashed" not in "".join(each.what for each in helm_chart.check(helm, str(chart), Given()).findings)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("values.yaml", text) for text in ("", "[1]", "a: *b", "a: {b", "a: !x 1", "a: \ttab")),
        *(("Chart.yaml", text) for text in ("", "[]", "name: {", f"{META}dependencies: 1", f"{META}dependencies: [1]")),
        *(("Chart.yaml", f"{META}dependencies: [{{name: 1, condition: 2}}]"), ("templates/b.yaml", "{{ now")),
        *(("templates/b.yaml", text) for text in ('{{ define "a" }}', "{{/* now */}}", "{{ `now` }}")),
    ],
)
def test_no_rule_crashes_on_an_odd_file(tmp_path: Path, name: str, text: str, helm: Embedded) -> None:
    chart = write(str(tmp_path / "app"), map=CLEAN)
    (chart / name).write_text(text)
    assert "crashed" not in "".join(each.what for each in helm_chart.check(helm, str(chart), Given()).findings)


def test_a_template_that_is_not_text_is_reported(grpo: Run) -> None:
    write("app", map=CLEAN)
    Path("app/templates/b.yaml").write_bytes(b"a: \xff{{ now }}\n")
    code, _, err = grpo("app")
    assert code == 2
    assert err


def test_symlinked_charts_and_packaged_subcharts_are_checked(grpo: Run) -> None:
    child = write("child", map=CLEAN, meta=META.replace("app", "child"), schema='{"additionalProperties": false}\n')
    write("app", map=CLEAN)
    Path("app/charts").mkdir()
    os.symlink(child.resolve(), "app/charts/child")
    both = ("chart/schema-refuses-subchart", "app/values.schema.json", 1)
    code, out, _ = grpo("app", "--format", "json")
    assert code == 2
    linked = found(out)
    assert both in linked
    assert (both[0], "app/charts/child/values.schema.json", 1) in linked
    os.unlink("app/charts/child")
    with tarfile.open("app/charts/child-1.0.0.tgz", "w:gz") as archive:
        archive.add("child")
    packed = found(grpo("app", "--format", "json")[1])
    assert [(rule, file.replace("-1.0.0.tgz", ""), line) for rule, file, line in packed] == linked


@pytest.mark.parametrize("layer", thin(LAYERS, 2))
@pytest.mark.parametrize("accelerator", thin(ACCELERATORS, 2))
def test_our_own_charts_are_clean(grpo: Run, layer: str, accelerator: str) -> None:
    files = [word for file in stack_files(accelerator) for word in ("-f", str(file))]
    code, out, err = grpo(str(ROOT / "charts" / layer), *files, "--fail-on", "info")
    assert (code, out) == (0, "")
    assert re.search(r"clean: [1-9][0-9]* manifests?\n$", err)


@pytest.mark.full
def test_our_packages_are_clean(grpo: Run, tmp_path: Path) -> None:
    files = [word for file in stack_files() for word in ("-f", str(file))]
    charts = [str(archive) for archive in package(tmp_path / "dist")]
    code, out, err = grpo(*charts, *files, "--fail-on", "info")
    assert (code, out) == (0, "")
    assert re.search(r"clean: \d\d manifests\n$", err)


def test_our_chart_is_checked_against_the_machine_in_its_values(grpo: Run, tmp_path: Path) -> None:
    """A changed copy, as somebody has who edits the chart; the node selector is one of another machine."""
    copy = tmp_path / "storage"
    shutil.copytree(ROOT / "charts/storage", copy)
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: gpus}\nspec:\n  nodeSelector:\n"
    text += "    cloud.google.com/gke-accelerator: nvidia-h200-141gb\n  containers:\n"
    text += "    - {name: main, image: 'a:1', resources: {limits: {nvidia.com/gpu: 8}}}\n"
    (copy / "templates/more.yaml").write_text(text)
    files = [word for file in stack_files("b200") for word in ("-f", str(file))]
    code, out, _ = grpo("storage", *files, "--select", "nodes/another-accelerator", "--format", "json")
    assert code == 1
    assert found(out) == [("nodes/another-accelerator", "storage/templates/more.yaml", 6)]


@pytest.mark.parametrize("name", ["helm3", "helm4"])
def test_both_helm_versions_give_the_same_findings(grpo: Run, name: str) -> None:
    write("app", secret=SECRET, pod=POD, day=CLEAN.replace("name: app", "name: app-{{ now | date `2006` }}"))
    embedded, binary = (
        [
            (rule, file, line if file != "<app>" else 0)
            for rule, file, line in found(grpo("app", "--format", "json", *more)[1])
        ]
        for more in ((), ("--helm", str(require_tool(name))))
    )
    assert len(embedded) == 3
    assert binary == embedded


def test_a_line_from_values_is_not_mistaken_for_a_template_line(grpo: Run) -> None:
    """The name of the volume has a line like it in the template, deeper and from other values."""
    pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}\nspec:\n  containers: []\n"
    write("app", pod=pod + "  volumes: {{- toYaml .Values.volumes | nindent 4 }}\n", schema="{}\n")
    Path("more.yaml").write_text("volumes: [{emptyDir: {}, name: a}, {emptyDir: {}, name: a}]\n")
    code, out, _ = grpo("app", "-f", "more.yaml", "--select", "pods/duplicate-merge-key", "--format", "json")
    assert code == 1
    assert [file for _, file, _ in found(out)] == ["<app>"]


CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties: {spec: {type: object, properties: {size: {type: integer}}}}
"""


def test_the_objects_of_a_chart_are_checked_against_its_own_crds(grpo: Run) -> None:
    thing = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {size: {{ .Values.size | quote }}}\n"
    chart = write("app", thing=thing, schema="{}\n", values="size: 1\n")
    code, out, _ = grpo("app", "--select", "kubernetes", "--format", "json")
    assert (code, [rule for rule, _, _ in found(out)]) == (0, ["kubernetes/not-judged"])
    (chart / "crds").mkdir()
    (chart / "crds/things.yaml").write_text(CRD)
    for name in ("app", "app-1.0.0.tgz"):
        if name.endswith(".tgz"):
            with tarfile.open(name, "w:gz") as archive:
                archive.add("app")
        code, out, _ = grpo(name, "--select", "kubernetes", "--format", "json")
        assert (code, found(out)) == (1, [("kubernetes/value-refused", f"{name}/templates/thing.yaml", 4)])


@pytest.mark.parametrize(
    "ignore", ["[chart/renders-differ]", "{chart/renders-differ: no}", "{chart/renders-differ: 12}", "text"]
)
def test_malformed_exceptions_are_refused_even_without_a_schema(grpo: Run, ignore: str) -> None:
    write("app", schema="{}\n")
    Path("accepted.yaml").write_text(f"checks: {{ignore: {ignore}}}\n")
    code, out, err = grpo("app", "-f", "accepted.yaml")
    assert (code, "accepted.yaml:1:" in err, "expected a reason in words for each rule" in err) == (2, True, True), (
        out + err
    )
