"""Values that move nothing are found in any chart; those that move something never are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from grpo.check import dead_values
from grpo.helm.engines import Embedded
from postrender import paths
from postrender.errors import InputError, RenderError, UnreadableError

VALUES = """\
replicas: 2
image: {repository: app, tag: ''}
labels: {}
args: [one, {name: two, unused: 3}]
size: 10Gi
mode: fast
enabled: false
onlyWhenEnabled: x
unused: {deep: {key: 1}}
nothing: null
"""
TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: probe
  labels: {{ toJson .Values.labels }}
data:
  replicas: {{ .Values.replicas | quote }}
  image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default "1" }}"
  first: {{ index .Values.args 0 | quote }}
  second: {{ (index .Values.args 1).name | quote }}
  size: {{ required "a size is needed" .Values.size | quote }}
  mode: {{ .Values.mode }}
  {{- if .Values.enabled }}
  more: {{ .Values.onlyWhenEnabled }}
  {{- end }}
"""
SCHEMA: dict[str, Any] = {
    "properties": {
        "mode": {"enum": ["fast", "slow"]},
        "size": {"type": "string", "pattern": "^[0-9]+Gi$"},
        "unused": {"properties": {"deep": {"properties": {"key": {"enum": [1]}}}}},
    }
}


def write_chart(folder: Path, values: str, template: str) -> Path:
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text(f"apiVersion: v2\nname: {folder.name}\nversion: 0.1.0\n")
    (folder / "values.yaml").write_text(values)
    (folder / "templates/map.yaml").write_text(template)
    return folder


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    folder = write_chart(tmp_path / "probe", VALUES, TEMPLATE)
    (folder / "values.schema.json").write_text(json.dumps(SCHEMA))
    return folder


def test_a_value_with_no_effect_is_listed_with_its_line(chart: Path, helm: Embedded) -> None:
    result = dead_values.find(helm, str(chart), [])
    found = {leaf.path: leaf.at.line for leaf in result.nothing}
    assert found == {"args[1].unused": 4, "onlyWhenEnabled": 8, "nothing": 10}
    assert result.tried == 13
    text = dead_values.as_text(result)
    assert f"{chart}/values.yaml:4:25: args[1].unused = 3\n" in text
    assert f"{chart}/values.yaml:7:1: enabled = false: 1 value moves nothing because of it: onlyWhenEnabled\n" in text
    assert text.endswith("3 of 13 values move nothing with these files\n")


SWITCHES = """\
group: {disabled: true, name: a, size: 1, deep: {text: ''}, unused: 1}
other: {enabled: false, idle: false, text: ''}
list: [{active: false, text: x}]
both: {first: false, second: false, text: x}
nothing: false
"""
SWITCHED = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: probe}
data:
  {{- if not .Values.group.disabled }}
  group: {{ printf "%s %v %s" .Values.group.name .Values.group.size .Values.group.deep.text | quote }}
  {{- end }}
  {{- if .Values.other.enabled }}
  other: {{ .Values.other.text | quote }}
  {{- end }}
  {{- if (index .Values.list 0).active }}
  list: {{ (index .Values.list 0).text }}
  {{- end }}
  {{- if and .Values.both.first .Values.both.second }}
  both: {{ .Values.both.text }}
  {{- end }}
"""


@pytest.fixture
def switched(tmp_path: Path) -> Path:
    return write_chart(tmp_path / "switched", SWITCHES, SWITCHED)


def test_a_value_disabled_by_a_switch_is_listed_with_the_switch(switched: Path, helm: Embedded) -> None:
    """Only what was seen to move with it turned over: a guess by the name would blame it for unused keys too."""
    result = dead_values.find(helm, str(switched), [])
    found = {leaf.path: leaf.switch.path if leaf.switch else None for leaf in result.nothing}
    assert found == {
        "group.name": "group.disabled",
        "group.size": "group.disabled",
        "group.deep.text": "group.disabled",
        "group.unused": None,
        "other.idle": None,
        "other.text": "other.enabled",
        "list[0].text": "list[0].active",
        # Two switches at once are not tried.
        "both.first": None,
        "both.second": None,
        "both.text": None,
        "nothing": None,
    }


def test_values_behind_one_switch_are_listed_on_one_line(switched: Path, helm: Embedded, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("group:\n  disabled: true\n  size: 2\n")
    result = dead_values.find(helm, str(switched), [str(file)])
    text = dead_values.as_text(result)
    waiting = "3 values move nothing because of it: group.name, group.size, group.deep.text"
    assert f"{file}:2:3: group.disabled = true: {waiting}\n" in text
    assert "group.size =" not in text
    assert ":2:9: other.enabled = false: 1 value moves nothing because of it: other.text\n" in text
    assert text.endswith("11 of 14 values move nothing with these files\n")
    entries = {entry["path"]: entry["switch"] for entry in json.loads(dead_values.as_json(result))["nothing"]}
    assert (entries["group.name"], entries["group.unused"]) == ("group.disabled", None)


def test_a_default_that_waits_for_a_switch_is_no_fault(switched: Path, helm: Embedded, tmp_path: Path) -> None:
    """A group of a chart that is off by default is listed, and what a file sets there is a fault."""
    found = dead_values.find(helm, str(switched), [])
    assert {leaf.path for leaf in found.nothing} - {leaf.path for leaf in found.faults} >= {"group.name", "group.size"}
    assert "nothing" in {leaf.path for leaf in found.faults}
    file = tmp_path / "mine.yaml"
    file.write_text("group:\n  size: 2\n")
    assert "group.size" in {leaf.path for leaf in dead_values.find(helm, str(switched), [str(file)]).faults}


def test_many_values_behind_one_switch_are_only_counted(helm: Embedded, switched: Path) -> None:
    (switched / "values.yaml").write_text(SWITCHES.replace("deep: {text: ''}", "deep: {text: '', more: 1}"))
    template = SWITCHED.replace(".Values.group.deep.text |", "(toJson .Values.group.deep) |")
    (switched / "templates/map.yaml").write_text(template)
    text = dead_values.as_text(dead_values.find(helm, str(switched), []))
    assert "4 values move nothing because of it: group.name, group.size, group.deep.text and 1 more\n" in text


def test_a_switch_that_cannot_be_flipped_is_not_named_as_a_reason(helm: Embedded, switched: Path) -> None:
    """The chart fails when it is turned over, so nothing was seen to move."""
    template = SWITCHED.replace(
        "{{- if not .Values.group.disabled }}", '{{- if not .Values.group.disabled }}{{ fail "no" }}'
    )
    (switched / "templates/map.yaml").write_text(template)
    found = {leaf.path: leaf.switch for leaf in dead_values.find(helm, str(switched), []).nothing}
    assert found["group.name"] is None


def test_the_innermost_of_two_switches_is_named(helm: Embedded, tmp_path: Path) -> None:
    values = "a:\n  enabled: false\n  b: {enabled: false, text: x}\n"
    template = (
        "kind: ConfigMap\nmetadata: {name: a}\n"
        "{{- if or .Values.a.enabled .Values.a.b.enabled }}\ndata: {text: {{ .Values.a.b.text }}}\n{{- end }}\n"
    )
    (leaf,) = dead_values.find(helm, str(write_chart(tmp_path / "near", values, template)), []).nothing
    assert leaf.switch
    assert (leaf.path, leaf.switch.path) == ("a.b.text", "a.b.enabled")


def test_a_value_with_no_allowed_alternative_is_undecided(helm: Embedded, tmp_path: Path) -> None:
    chart = write_chart(tmp_path / "only", "mode: fast\n", "kind: ConfigMap\nmetadata: {name: a}\n")
    schema = {"properties": {"mode": {"enum": ["fast", "fast"]}}}
    (chart / "values.schema.json").write_text(json.dumps(schema))
    result = dead_values.find(helm, str(chart), [])
    assert [leaf.path for leaf in result.undecided] == ["mode"]


def test_a_value_whose_alternatives_are_all_rejected_is_undecided(chart: Path, helm: Embedded) -> None:
    """A text of another form than the tool can guess is no proof that the key is dead."""
    (leaf,) = dead_values.find(helm, str(chart), []).undecided
    assert (leaf.path, leaf.why) == ("unused.deep.key", "no other value was accepted")


def test_a_misspelt_key_is_reported_in_the_file_that_sets_it(chart: Path, helm: Embedded, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("enabled: true\nimages: {tag: v1}\n")
    found = {leaf.path: str(leaf.at) for leaf in dead_values.find(helm, str(chart), [str(file)]).nothing}
    assert found["images.tag"] == f"{file}:2:10"
    assert "onlyWhenEnabled" not in found


def test_progress_is_printed(chart: Path, helm: Embedded) -> None:
    seen: list[tuple[int, int]] = []
    dead_values.find(helm, str(chart), [], progress=lambda done, of: seen.append((done, of)))
    assert seen == [(number, 13) for number in range(1, 14)]


def test_a_packaged_chart_gives_the_same_result_as_its_folder(chart: Path, helm: Embedded, tmp_path: Path) -> None:
    archive = helm.package(str(chart), str(tmp_path))
    paths = [leaf.path for leaf in dead_values.find(helm, archive, []).nothing]
    assert paths == [leaf.path for leaf in dead_values.find(helm, str(chart), []).nothing]


def test_json_output_has_every_part_and_no_secret(chart: Path, helm: Embedded, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("odd: hf" + "_" + "a1B2" * 8 + "\n")
    document = json.loads(dead_values.as_json(dead_values.find(helm, str(chart), [str(file)])))
    odd = next(entry for entry in document["nothing"] if entry["path"] == "odd")
    assert (odd["line"], odd["file"], odd["value"]) == (1, str(file), "<huggingface token>")
    assert document["tried"] == 14


def test_a_path_that_is_no_chart_or_does_not_render_is_reported(chart: Path, helm: Embedded, tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="there is no such file"):
        dead_values.find(helm, str(tmp_path), [])
    (tmp_path / "x.tgz").write_text("no archive")
    with pytest.raises(UnreadableError, match=r"no chart with a values\.yaml"):
        dead_values.find(helm, str(tmp_path / "x.tgz"), [])
    file = tmp_path / "bad.yaml"
    file.write_text("mode: odd\n")
    with pytest.raises(RenderError, match=r"(?s)mode.*fix: give values files with which the chart renders"):
        dead_values.find(helm, str(chart), [str(file)])
    file.write_text("- a\n")
    with pytest.raises(InputError, match="found a list"):
        dead_values.find(helm, str(chart), [str(file)])


def read(*keys: str) -> str:
    """Return a template that prints these values."""
    lines = "".join(f"  {key}: {{{{ .Values.{key} | quote }}}}\n" for key in keys)
    return f"kind: ConfigMap\nmetadata: {{name: a}}\ndata:\n{lines}"


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    """Make charts with the names of ours: each reads `shared` and a value of its own."""
    for name, key in (("network", "net"), ("storage", "disk"), ("raycluster", "ray"), ("grpo-job", "job")):
        values = f"shared: 1\n{key}: 1\nunread: 1\nchecks: {{ignore: x}}\n"
        write_chart(tmp_path / name, values, read("shared", key))
    (tmp_path / "my.yaml").write_text("net: 2\njob: 2\nworng: 2\nshared: 2\n")
    return tmp_path


def test_a_value_read_by_a_sibling_chart_is_not_dead(layers: Path, helm: Embedded) -> None:
    result = dead_values.find(helm, str(layers / "raycluster"), [str(layers / "my.yaml")])
    assert [leaf.path for leaf in result.nothing] == ["unread", "worng"]
    assert result.tried == 6
    where = "in none of raycluster, network, storage, grpo-job"
    assert dead_values.as_text(result).endswith(f"2 of 6 values move nothing with these files, {where}\n")


def test_a_switch_in_a_sibling_chart_is_found(layers: Path, helm: Embedded) -> None:
    template = read("shared") + "{{- if .Values.job.enabled }}\n  x: {{ .Values.job.text }}\n{{- end }}\n"
    (layers / "grpo-job/templates/map.yaml").write_text(template)
    (layers / "my.yaml").write_text("job: {enabled: false, text: x}\n")
    found = dead_values.find(helm, str(layers / "network"), [str(layers / "my.yaml")]).nothing
    assert {leaf.path: leaf.switch and leaf.switch.path for leaf in found} == {
        "unread": None,
        "job.text": "job.enabled",
    }


def test_a_value_is_undecided_if_a_sibling_that_may_read_it_does_not_render(layers: Path, helm: Embedded) -> None:
    (layers / "grpo-job/templates/map.yaml").write_text('{{ fail "no" }}')
    result = dead_values.find(helm, str(layers / "network"), [str(layers / "my.yaml")])
    assert result.nothing == ()
    why = "grpo-job may read it, but does not render with these files"
    assert {leaf.path: leaf.why for leaf in result.undecided} == dict.fromkeys(["unread", "job", "worng"], why)
    assert f"job: {why}, so it was not judged\n" in dead_values.as_text(result)


def test_third_party_charts_have_no_siblings(layers: Path) -> None:
    charts = {name: str(layers / name) for name in ("network", "storage", "raycluster", "grpo-job")}
    assert paths.siblings(charts["storage"]) == [charts[name] for name in ("network", "raycluster", "grpo-job")]
    for layer in charts:
        (layers / f"{layer}-0.1.0.tgz").touch()
    assert [Path(each).name for each in paths.siblings(f"{layers}/grpo-job-0.1.0.tgz")] == [
        "network-0.1.0.tgz",
        "storage-0.1.0.tgz",
        "raycluster-0.1.0.tgz",
    ]
    assert paths.siblings(str(layers / "network-0.2.0.tgz")) == []
    assert paths.siblings(str(layers / "other")) == []
    shutil.rmtree(layers / "storage")
    assert paths.siblings(charts["network"]) == []
