"""Check a chart, ours or another: its files, two renders of the chart, and the rendered objects."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from grpo.helm.engines import Engine
from grpo.manifests import chart_files
from grpo.manifests.chart_files import Chart
from grpo.problems import registry
from grpo.problems.charts import templates
from grpo.values import set_arguments
from grpo.values.set_arguments import Argument
from postrender import output_file
from postrender.errors import InputError, Location, RenderError, UnreadableError
from postrender.finding import Finding
from postrender.judge import judge
from postrender.problem import CHART
from postrender.values import merge
from postrender.yaml import stream

_SOURCE = re.compile(r"^# Source: [^/\n]+/(\S+)", re.MULTILINE)


class RefusedChartError(RenderError):
    """Helm rejected a chart; `findings` holds what was found in the charts up to that point."""

    def __init__(self, refused: RenderError, findings: Sequence[Finding]) -> None:
        super().__init__(refused.message, at=refused.at, fix=refused.fix)
        self.findings = [*findings]


class Checked:
    """The result for one chart: its `findings`, and the rendered `manifest`, which is empty for a library chart."""

    def __init__(self, chart: Chart, findings: list[Finding], error: RenderError | None = None) -> None:
        self.name = f"<{chart.name}>"
        self.findings = findings
        self.manifest = chart.renders[0] if chart.renders else ""
        self.error = error
        self.definitions = chart.definitions()
        self._chart = chart

    def moved(self, finding: Finding, text: str, line: int) -> Finding:
        """Return a finding at a line of a rendered document, moved to the line of its template if that line is certain.

        If the line is not certain, the template is named beside the place.
        """
        source = _SOURCE.search(text)
        if not source or source[1] not in self._chart.files:
            return finding
        number = templates.line_of(self._chart.text(source[1]), text.split("\n")[line - 1])
        if number:
            at = self._chart.at(source[1], number, finding.at.col)
            return finding._replace(at=at, also=[*finding.also, (finding.at, "as it was rendered")])
        return finding._replace(also=[*finding.also, (self._chart.at(source[1]), "is the template")])


class Given(NamedTuple):
    """The inputs for rendering a chart: values files, --set arguments, a namespace and a Kubernetes version."""

    files: Sequence[str] = ()
    arguments: Sequence[Argument] = ()
    namespace: str = "default"
    kube_version: str | None = None


def check(engine: Engine, path: str, given: Given) -> Checked:
    """Check a chart with values; if Helm rejects the chart, keep the findings with Helm's error.

    Raises UnreadableError or InputError if the chart cannot be read.
    """
    chart = chart_files.read(path)
    refused = None
    if chart.is_library:
        sys.stderr.write(f"{chart.name} is a library, which Helm does not render: only its files are checked\n")
    else:
        try:
            chart.renders = _renders(engine, path, chart, given)
        except RenderError as error:
            refused = _explained(error, path, given.files)
    found = judge(chart, registry.rules(CHART), at=Location(chart.place(chart_files.META)))
    return Checked(chart, sorted(found, key=Finding.key), refused)


def _explained(error: RenderError, path: str, files: Sequence[str]) -> RenderError:
    """Return Helm's error with the chart's name and a suggested fix."""
    words = "".join(f" -f {file}" for file in files)
    fix = (
        error.fix or f"helm template {path}{words} prints the same error; give the values that the chart needs with -f"
    )
    if "missing in charts/ directory" in error.message:
        fix = f"helm dependency build {path}"
    return RenderError(f"{path}: {error.message}", fix=fix)


def _renders(engine: Engine, path: str, chart: Chart, given: Given) -> tuple[str, str]:
    files, arguments, namespace, version = given
    over = set_arguments.apply(merge.load(files), arguments).as_helm_merges() if arguments else None

    def render(folder: str) -> str:
        rendered = engine.render(folder, files, values=over, namespace=namespace, kube_version=version, notes=False)
        return rendered.manifest

    with contextlib.ExitStack() as stack:
        folder = path if os.path.isdir(path) else stack.enter_context(_copied(path))
        first = render(folder)
        if asking := [each for each in chart.templates() if templates.asks_the_clock(chart.text(each))]:
            folder = stack.enter_context(_copied(path)) if folder == path else folder
            _set_the_clock(folder, chart, asking)
        return first, render(folder)


@contextlib.contextmanager
def _copied(path: str) -> Iterator[str]:
    """Yield a modifiable copy of a chart, given as a folder or a package; links are resolved."""
    with tempfile.TemporaryDirectory(prefix="grpo-chart-") as folder:
        if os.path.isdir(path):
            copy = os.path.join(folder, os.path.basename(os.path.abspath(path)))
            shutil.copytree(path, copy, ignore_dangling_symlinks=True)
        else:
            copy = os.path.join(folder, _unpack(path, folder))
        yield copy


def _unpack(package: str, folder: str) -> str:
    """Unpack a chart into a folder and return the chart's name there."""
    with tarfile.open(package) as archive:
        if sum(member.size for member in archive) > stream.MAX_BYTES:
            limit = stream.MAX_BYTES // (1024 * 1024)
            raise InputError(f"{package}: larger than {limit} MiB when it is unpacked", fix="check the package")
        try:
            archive.extractall(folder, filter="data")
        except (OSError, tarfile.TarError) as error:
            raise UnreadableError(f"{package}: cannot be unpacked: {error}", fix="check the package") from error
    return next(name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name, chart_files.META)))


def _set_the_clock(folder: str, chart: Chart, asking: Sequence[str]) -> None:
    """Shift the time that templates read, because both renders may run within the same second."""
    for path in asking:
        file = os.path.join(folder, path)
        # Packaged subcharts are not changed.
        if os.path.isfile(file):
            output_file.replace(file, templates.at_another_time(chart.text(path)).encode())
