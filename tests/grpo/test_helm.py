"""Both engines render the same, say who they are, and report Helm's message without its noise."""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grpo.helm import engines
from grpo.helm.engines import Binary, Embedded, Engine
from postrender.errors import EXIT_CANNOT_RUN, EXIT_USAGE, EngineError, RenderError, UnreadableError
from tests.conftest import LAYERS, ROOT, require_tool, stack_files, thin

# What is tested here is the engine itself.
pytestmark = pytest.mark.usefixtures("unshared_helm")

CHART = {
    "lib/Chart.yaml": "apiVersion: v2\nname: lib\ntype: library\nversion: 0.1.0\n",
    "lib/templates/_lib.tpl": '{{- define "lib.word" -}}hello{{- end -}}\n',
    "app/Chart.yaml": "apiVersion: v2\nname: app\nversion: 0.1.0\ndependencies:\n- {name: lib, version: 0.1.0}\n",
    "app/values.yaml": "size: 1\n",
    "app/values.schema.json": '{"properties": {"size": {"type": "integer"}}}',
    "app/templates/NOTES.txt": "Installed {{ .Release.Name }}.\n",
    "app/templates/map.yaml": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}, namespace: {{ .Release.Namespace }}}\n"
        'data: {word: {{ include "lib.word" . }}, size: {{ .Values.size | quote }}, '
        "kube: {{ .Capabilities.KubeVersion }}}\n"
        "---\napiVersion: v1\nkind: Pod\nmetadata: {name: check, annotations: {helm.sh/hook: test}}\n"
        "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: first}\n"
    ),
    "app/templates/fail.yaml": '{{- if eq .Values.size 13.0 }}{{ fail "thirteen is refused" }}{{ end }}\n',
}


@pytest.fixture
def chart(tmp_path: Path) -> str:
    """Make a chart with a linked library, a schema, a hook and notes."""
    for name, text in CHART.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "app/charts").mkdir()
    (tmp_path / "app/charts/lib").symlink_to("../../lib")
    return str(tmp_path / "app")


@pytest.fixture(params=["embedded", "helm3", "helm4"])
def engine(request: pytest.FixtureRequest, helm: Embedded) -> Iterator[Engine]:
    """Give each engine in turn."""
    if request.param == "embedded":
        yield helm
    else:
        with Binary(require_tool(request.param)) as binary:
            yield binary


def test_a_chart_renders_in_installation_order_with_hooks_last(engine: Engine, chart: str) -> None:
    rendered = engine.render(chart, values={"size": 2}, release="r", namespace="ns", kube_version="1.31.0")
    kinds = [document["kind"] for document in rendered.documents]
    assert kinds == ["ServiceAccount", "ConfigMap", "Pod"]
    config = rendered.documents[1]
    assert config["metadata"] == {"name": "r", "namespace": "ns"}
    assert config["data"] == {"word": "hello", "size": "2", "kube": "v1.31.0"}
    assert rendered.chart == "app"


def test_text_that_only_mentions_hooks_is_unchanged(engine: Engine, chart: str) -> None:
    """The embedded Helm renders hooks under another name, which must show nowhere."""
    folder = Path(chart) / "templates"
    data = "data: {why: helm.sh/hook, also: helm.sh/hook-weight}\n"
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: words}\n" + data
    (folder / "words.yaml").write_text(text)
    with (folder / "NOTES.txt").open("a") as notes:
        notes.write("See helm.sh/hook.\n")
    rendered = engine.render(chart, release="r")
    assert "hooked" not in rendered.manifest + (rendered.notes or "")
    words = next(item for item in rendered.documents if item["metadata"]["name"] == "words")
    assert words["data"] == {"why": "helm.sh/hook", "also": "helm.sh/hook-weight"}
    assert rendered.documents[-1]["metadata"]["annotations"] == {"helm.sh/hook": "test"}


def test_notes_are_rendered_where_the_engine_supports_it(engine: Engine, chart: str) -> None:
    rendered = engine.render(chart, release="r")
    assert rendered.notes == (None if "v3." in rendered.engine else "Installed r.\n")
    assert engine.render(chart, notes=False).notes is None


def test_files_merge_in_order_and_set_values_override_them(engine: Engine, chart: str, tmp_path: Path) -> None:
    for name, size in (("one", 3), ("two", 4)):
        (tmp_path / f"{name}.yaml").write_text(f"size: {size}\n")
    files = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    assert engine.render(chart, files, notes=False).documents[1]["data"]["size"] == "4"
    assert engine.render(chart, files, values={"size": 5}, notes=False).documents[1]["data"]["size"] == "5"


def test_a_render_error_is_helms_message_without_its_noise(engine: Engine, chart: str) -> None:
    with pytest.raises(RenderError) as schema:
        engine.render(chart, values={"size": "many"})
    assert schema.value.message.splitlines()[0].startswith("values don't meet the specifications of the schema(s)")
    assert "at '/size': got string, want integer" in schema.value.message
    with pytest.raises(RenderError) as failed:
        engine.render(chart, values={"size": 13})
    assert "thirteen is refused" in failed.value.message
    for error in (schema.value, failed.value):
        assert error.exit_code == EXIT_USAGE
        assert "symbolic link" not in error.message
        assert not error.message.startswith("Error")


def test_the_engine_reports_its_name_and_version(engine: Engine) -> None:
    assert engine.name.startswith("helm v")


@pytest.mark.parametrize("layer", thin(LAYERS, 4))
@pytest.mark.parametrize("name", ["helm3", "helm4"])
def test_the_embedded_helm_renders_our_charts_like_the_executable(name: str, layer: str, helm: Embedded) -> None:
    chart = str(ROOT / "charts" / layer)
    with Binary(require_tool(name)) as binary:
        theirs = binary.render(chart, stack_files(), kube_version="1.34.0", notes=False)
    ours = helm.render(chart, stack_files(), kube_version="1.34.0", notes=False)
    assert ours.documents == theirs.documents


def test_concurrent_renders_do_not_affect_each_other(helm: Embedded, chart: str) -> None:
    before = helm.render(chart)
    with pytest.raises(RenderError):
        helm.render(chart, values={"size": 13})
    assert helm.render(chart).manifest == before.manifest


def test_a_module_in_the_users_folder_is_not_imported(
    chart: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')\n")
    monkeypatch.chdir(tmp_path)
    with Embedded() as engine:
        assert engine.render(chart).documents


def test_a_missing_values_file_is_named(helm: Embedded, chart: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"none\.yaml"):
        helm.render(chart, [tmp_path / "none.yaml"])
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9")
    with pytest.raises(RenderError, match="not UTF-8"):
        helm.render(chart, [tmp_path / "latin.yaml"])


def test_without_any_helm_the_error_names_the_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "helm_python.py").write_text("raise ModuleNotFoundError(\"No module named 'helm_python'\")\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(EngineError) as caught, Embedded():
        pass
    assert "no Helm was found" in caught.value.message
    assert "grpo-charts[render]" in caught.value.fix
    assert caught.value.exit_code == EXIT_CANNOT_RUN


def test_a_link_in_a_chart_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "chart/templates").mkdir(parents=True)
    (tmp_path / "chart/Chart.yaml").write_text("apiVersion: v2\nname: chart\nversion: 0.1.0\n")
    hook = "kind: Pod\nmetadata: {name: a, annotations: {helm.sh/hook: test}}\n"
    (tmp_path / "chart/templates/hook.yaml").write_text(hook)
    (tmp_path / "chart/charts").mkdir()
    (tmp_path / "chart/charts/common").symlink_to("../nowhere")
    with Embedded() as engine, pytest.raises(EngineError, match="common is a file of a chart that is not") as caught:
        engine.render(str(tmp_path / "chart"))
    assert "grpo init --vendor" in caught.value.fix


def test_a_broken_embedded_helm_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "helm_python.py").write_text("raise OSError('GLIBC_2.34 not found')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(EngineError, match=r"crashed: OSError: GLIBC_2\.34 not found"), Embedded():
        pass


def test_a_worker_that_dies_is_reported(chart: str) -> None:
    with Embedded() as engine:
        assert engine._process is not None
        engine._process.kill()
        engine._process.wait()
        with pytest.raises(EngineError, match="crashed"):
            engine.render(chart)


def test_a_render_that_does_not_finish_is_stopped(chart: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is over at once."""

    class Timer:
        def __init__(self, seconds: float, function: Callable[[], None]) -> None:
            self.seconds, self.function = seconds, function

        def start(self) -> None:
            assert self.seconds == engines._TIMEOUT_SECONDS
            self.function()

        def cancel(self) -> None: ...

    with Embedded() as engine:
        monkeypatch.setattr(threading, "Timer", Timer)
        with pytest.raises(EngineError, match="helm did not finish within 120 s") as caught:
            engine.render(chart)
        assert (caught.value.exit_code, bool(caught.value.fix)) == (EXIT_CANNOT_RUN, True)


def test_an_engine_used_outside_its_context_raises_a_clear_error(chart: str) -> None:
    with pytest.raises(EngineError, match="not running"):
        Embedded().render(chart)


def test_a_helm_path_that_is_not_executable_is_named(tmp_path: Path, chart: str) -> None:
    with pytest.raises(EngineError, match=r"cannot run .*: No such file") as caught:
        Binary(tmp_path / "helm").render(chart)
    assert "--helm PATH" in caught.value.fix
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexit 4\n")
    silent.chmod(silent.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(EngineError, match="exit code 4 and no message"):
        Binary(silent).render(chart)


def test_a_helm_executable_on_the_path_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert isinstance(engines.choose(), Embedded)
    found = tmp_path / "helm"
    found.write_text(f"#!{sys.executable}\nprint('v9.9.9')\n")
    found.chmod(0o755)
    assert engines.choose().name == f"helm v9.9.9 ({found})"
    assert engines.choose("/opt/helm").__class__ is Binary


def test_rendering_has_no_access_to_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM_KUBETOKEN", "x")
    monkeypatch.setenv("HELM_NAMESPACE", "x")
    monkeypatch.setenv("KUBECONFIG", "/root/.kube/config")
    environment = engines._environment()
    assert environment["KUBECONFIG"] == os.devnull
    assert not {"HELM_KUBETOKEN", "HELM_NAMESPACE"} & {*environment}


@pytest.mark.full
def test_a_template_that_exhausts_memory_is_stopped_with_an_error(tmp_path: Path) -> None:
    (tmp_path / "c/templates").mkdir(parents=True)
    (tmp_path / "c/Chart.yaml").write_text("apiVersion: v2\nname: c\nversion: 1.0.0\n")
    (tmp_path / "c/templates/a.yaml").write_text("{{ range until 1000000000 }}{{ end }}\n")
    with Embedded() as engine, pytest.raises(EngineError, match="needed more than 6 GiB of memory"):
        engine.render(str(tmp_path / "c"), [])
