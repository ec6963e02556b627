"""Fixtures of both suites: the folder of the run, what it installs from, the two Helms on the suite's own `kube`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest

from harness import leftovers, nodes, sandbox, suite
from harness.apiserver import Tools
from harness.helm import Helm
from harness.kube import Kube, KubectlError
from harness.nodes import Profile

SHOWN = "rayclusters,rayjobs,pods,services,events,persistentvolumeclaims,configmaps"


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to run outside the namespaces, where the programs would change or use the machine's own network."""
    if suite.INSIDE not in os.environ:
        program = Path(str(config.rootpath)).relative_to(suite.REPOSITORY) / "run.py"
        pytest.exit(f"start these tests by `python {program} [pytest arguments]`", returncode=suite.CANNOT_RUN)
    leftovers.end_with_parent()
    leftovers.adopt_orphans()
    if worker := getattr(config, "workerinput", None):
        # pytest-xdist's: each starts a control plane, at the same ports as the others.
        sandbox.own_network()
        os.environ[suite.INSIDE] += f"/{worker['workerid']}"
        Path(os.environ[suite.INSIDE]).mkdir()
    # What kubectl and Helm remember of a server by its address, which all clusters here share.
    os.environ["KUBECACHEDIR"] = f"{os.environ[suite.INSIDE]}/kubectl"


@pytest.fixture(scope="session")
def work() -> Path:
    """The folder of this run: data, keys, logs."""
    return Path(os.environ[suite.INSIDE])


@pytest.fixture(scope="session")
def tools() -> Tools:
    """What `make tools` has built."""
    return Tools(suite.TOOLS / "bin", suite.TOOLS / "share")


@pytest.fixture(scope="session")
def checkout(work: Path) -> Path:
    """A copy of charts and values: an edit during the run would make an unchanged upgrade a changed one."""
    folder = work / "checkout"
    for name in ("charts", "jobs", "values"):
        shutil.copytree(suite.REPOSITORY / name, folder / name, symlinks=True)
    return folder


@pytest.fixture(scope="session")
def profiles() -> dict[str, Profile]:
    """The accelerator profiles by name."""
    return nodes.read_profiles(suite.REPOSITORY / "values/accelerators")


@pytest.fixture(scope="session")
def helms(kube: Kube, tools: Tools, work: Path) -> dict[str, Helm]:
    """Helm 3 and Helm 4 by name."""
    return {name: Helm(tools.bin / name, kube.kubeconfig, work / name) for name in ("helm3", "helm4")}


@pytest.fixture(params=["helm3", "helm4"])
def helm(request: pytest.FixtureRequest, helms: dict[str, Helm]) -> Helm:
    """Helm 3 and Helm 4, one after the other."""
    return helms[request.param]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the state of the cluster beside the logs when a test fails."""
    report: pytest.TestReport = yield
    kube = getattr(item, "funcargs", {}).get("kube")
    if report.failed and isinstance(kube, Kube):
        folder = Path(os.environ[suite.INSIDE]) / "logs"
        name = "".join(letter if letter.isalnum() else "-" for letter in item.name)
        try:
            (folder / f"{name}.{call.when}.yaml").write_text(kube.run("get", SHOWN, "--all-namespaces", "-o", "yaml"))
        except KubectlError as error:
            (folder / f"{name}.{call.when}.txt").write_text(str(error))
    return report
