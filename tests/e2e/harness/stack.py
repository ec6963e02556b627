"""One stack on the cluster: the four charts with the same values files, in one namespace."""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from grpo.generate import programs

from harness.helm import Helm
from harness.kube import Kube, Manifest
from harness.waiting import until

LAYERS = ("network", "storage", "raycluster", "grpo-job")
RECIPE = "gemma3-27b-gsm8k"
TOKEN = "not-a-real-one"
Values = dict[str, Any]
# Over the example site file: weights and runs on one volume, which need not be a bucket.
ONE_VOLUME: Values = {"storage": {"weights": None}, "huggingface": {"cache": {"volume": "data"}}}


def merge(base: Values, over: Values) -> Values:
    """Lay one tree of values over another, maps at every depth."""
    merged = copy.deepcopy(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


@dataclass(frozen=True)
class Stack:
    """Values and names of one stack; `site` is laid over values/examples/site.yaml."""

    repository: Path
    work: Path
    kube: Kube
    helm: Helm
    namespace: str
    accelerator: str
    site: Values = field(default_factory=dict)
    recipe: str = RECIPE

    def on_volume(self, path: str) -> Path:
        """Return where a file of the mount /data lies outside of the pods."""
        claim = self.work / "volumes" / self.namespace / f"{self.name}-data"
        return claim / Path(path).relative_to("/data")

    def with_values(self, **over: object) -> Stack:
        """Return the same stack with other values."""
        return replace(self, site=merge(self.site, over))

    def with_helm(self, helm: Helm) -> Stack:
        """Return the same stack, installed by another Helm or another user."""
        return replace(self, helm=helm)

    def with_newer_programs(self, version: str) -> Stack:
        """Return the same stack with a chart grpo-job of another version, in whose programs one line differs."""
        copy_of = Path(tempfile.mkdtemp(prefix="newer-", dir=self.work))
        for folder in ("charts", "jobs", "values"):
            shutil.copytree(self.repository / folder, copy_of / folder, symlinks=True)
        with (copy_of / "jobs/launcher/launch.py").open("a") as program:
            program.write(f"# {version}\n")
        for path, text in programs.render(copy_of).items():
            (copy_of / path).write_text(text)
        chart = copy_of / "charts/grpo-job/Chart.yaml"
        chart.write_text(chart.read_text().replace("\nversion: 0.1.0\n", f"\nversion: {version}\n"))
        return replace(self, repository=copy_of)

    def starts(self) -> list[Values]:
        """Return the record of each start of the run's attempts, first start first."""
        folder = self.on_volume(f"/data/runs/{self.job}/owners")
        return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]

    def options(self) -> list[str]:
        """Give Helm the values files: accelerator, recipe, site, and what this stack says differently."""
        values = self.repository / "values"
        parts = [f"accelerators/{self.accelerator}", f"recipes/{self.recipe}", "examples/site"]
        text = yaml.safe_dump(self.site)
        own = self.work / "values" / f"{self.namespace}-{abs(hash(text)):x}.yaml"
        own.parent.mkdir(exist_ok=True)
        own.write_text(text)
        return [f"--values={values / part}.yaml" for part in parts] + [f"--values={own}"]

    def chart(self, layer: str) -> Path:
        """Return the folder of a layer's chart."""
        return self.repository / "charts" / layer

    def release(self, layer: str) -> str:
        """Name the release of a layer; each run, and each of its tasks, is a release of its own."""
        return f"{self.job}{self.task}" if layer == "grpo-job" else f"{self.name}-{layer}"

    def install(self, *layers: str) -> None:
        """Install layers in the order given; claims of volumes that are there are bound before the next layer."""
        for layer in layers:
            self.helm.install(self.release(layer), self.chart(layer), self.namespace, self.options())
            if layer == "storage":
                self.until_bound()

    def until_bound(self) -> None:
        """Wait until the claims that name a volume are bound.

        The scheduler does not always try a pod with device claims again when the volumes of its claims are bound while
        it looks at it: the pod then waits for five minutes.
        """

        def waiting() -> list[str]:
            claims = self.kube.list("persistentvolumeclaims", self.namespace)
            named = [claim for claim in claims if claim["spec"].get("volumeName")]
            return [claim["metadata"]["name"] for claim in named if claim["status"].get("phase") != "Bound"]

        until(lambda: not waiting(), "bound claims", seen=waiting)

    def upgrade(self, layer: str, *options: str, safe: bool = True) -> None:
        """Upgrade one layer to the values of this stack."""
        self.helm.upgrade(self.release(layer), self.chart(layer), self.namespace, [*options, *self.options()], safe)

    def roll_back(self, layer: str, revision: int) -> None:
        """Go back to a revision of a layer."""
        self.helm.run("rollback", self.release(layer), str(revision), "--namespace", self.namespace)

    def uninstall(self, *layers: str) -> None:
        """Uninstall layers in the order given."""
        for layer in layers:
            self.helm.uninstall(self.release(layer), self.namespace)

    def uninstall_all(self) -> None:
        """Uninstall every release of the namespace."""
        for release in json.loads(self.helm.run("list", "--namespace", self.namespace, "-o", "json")):
            self.helm.uninstall(release["name"], self.namespace)

    def render(self, layer: str) -> list[Manifest]:
        """Render a layer without installing it."""
        return self.helm.template(self.release(layer), self.chart(layer), self.namespace, self.options())

    def entrypoint(self) -> str:
        """Return what the RayJob of this stack runs."""
        job = next(item for item in self.render("grpo-job") if item["kind"] == "RayJob")
        return str(job["spec"]["entrypoint"])

    @property
    def values(self) -> Values:
        """Recipe and site file with this stack's changes."""
        files = (f"recipes/{self.recipe}", "examples/site")
        recipe, site = (yaml.safe_load((self.repository / f"values/{name}.yaml").read_text()) for name in files)
        return merge(merge(recipe, site), self.site)

    @property
    def name(self) -> str:
        """stack.name."""
        return str(self.values["stack"]["name"])

    @property
    def cluster(self) -> str:
        """The name of the RayCluster."""
        return f"{self.name}-ray"

    @property
    def job(self) -> str:
        """job.name."""
        return str(self.values["job"]["name"])

    @property
    def run(self) -> str:
        """The name of the RayJob of this attempt."""
        return f"{self.job}{self.task}-{self.values['job'].get('attempt', 1)}"

    @property
    def task(self) -> str:
        """What a task other than training adds to names."""
        return f"-{self.values['job']['task']}" if self.values["job"].get("task", "train") != "train" else ""

    def prepare_namespace(self) -> None:
        """Make the namespace and the secret that a stack needs."""
        data = {"hf_api_token": TOKEN}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hf-secret"}, "stringData": data}
        self.kube.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}])
        self.kube.create([secret], self.namespace)

    def until_ready(self, seconds: float = 30) -> Manifest:
        """Wait until the RayCluster is ready and return it."""

        def ready() -> Manifest | None:
            found = self.kube.get("raycluster", self.cluster, self.namespace)
            return found if found.get("status", {}).get("state") == "ready" else None

        return until(ready, f"RayCluster {self.cluster} ready", seconds, seen=lambda: self.kube.events(self.namespace))

    def pods(self) -> list[Manifest]:
        """Return the Ray pods of the namespace that are not being deleted, head first."""
        found = self.kube.list("pods", self.namespace, "ray.io/is-ray-node=yes")
        alive = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return sorted(alive, key=lambda pod: (pod["metadata"]["labels"]["ray.io/node-type"], pod["metadata"]["name"]))

    def job_status(self) -> dict[str, Any]:
        """Return the status of this attempt's RayJob."""
        return dict(self.kube.get("rayjob", self.run, self.namespace).get("status", {}))

    def until_job(self, status: str, seconds: float = 60) -> dict[str, Any]:
        """Wait until the RayJob has a job status, RUNNING, SUCCEEDED or FAILED, and return the whole status.

        Raises AssertionError at once when the job has ended otherwise.
        """
        final = {"SUCCEEDED", "FAILED", "STOPPED"}

        def reached() -> dict[str, Any] | None:
            found = self.job_status()
            other = found.get("jobStatus")
            ended = other in final and found.get("jobDeploymentStatus") in ("Complete", "Failed")
            assert other == status or not ended, f"expected {status}, got {other}: {found.get('message')}"
            return found if other == status and (ended or status not in final) else None

        return until(reached, f"RayJob {self.run} {status}", seconds, seen=self.job_status)
