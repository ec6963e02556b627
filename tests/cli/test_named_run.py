"""Every command about a run takes the same two forms: its values files, or its RayJob and a namespace."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo.cli import main as cli
from tests import kubectl as stand_in_of_server
from tests.cli import clusters
from tests.cli.clusters import NAME, Cluster
from tests.conftest import Render, by_kind, stack_files
from tests.runlog import logs

FILES = [word for path in stack_files() for word in ("-f", str(path))]
TEXT = logs.nemo_rl(steps=3, reward=[0.25, 0.5, 0.75])
FORMS = {"values": FILES, "name": [NAME]}
COMMANDS = ("checkpoints", "logs", "report", "samples", "status", "watch", "why")

Grpo = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, render: Render) -> Cluster:
    return clusters.stand_in(tmp_path, monkeypatch, render)


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str]) -> Grpo:
    def run(*words: str) -> tuple[int, str, str]:
        return cli.main([*words]), *capsys.readouterr()

    return run


@pytest.mark.parametrize("form", FORMS)
def test_what_reads_the_output(grpo: Grpo, cluster: Cluster, form: str) -> None:
    cluster.write(TEXT)
    words = [*FORMS[form], "-n", "rl"]
    code, shown, said = grpo("logs", *words)
    assert (code, said, shown.splitlines()[-1]) == (0, "", TEXT.splitlines()[-1])
    code, shown, said = grpo("watch", *words)
    assert (code, said) == (0, "3 steps, 0 findings\n")
    assert "0.75" in shown
    code, shown, _ = grpo("report", *words, "--format", "json")
    assert code == 0
    assert len(json.loads(shown)["runs"][0]["steps"]) == 3


@pytest.mark.parametrize("command", ["checkpoints", "samples"])
@pytest.mark.parametrize("form", FORMS)
def test_what_reads_the_volume(grpo: Grpo, cluster: Cluster, command: str, form: str) -> None:
    (cluster.folder / "pod-names").write_text("pod/ray-head\n")
    grpo(command, *FORMS[form], "-n", "rl")
    (asked,) = cluster.calls("exec")
    assert asked.endswith("-- python3 -I - /data/runs/gemma3-gsm8k")
    found = cluster.calls("get")[-1]
    label = "ray.io/cluster=" + {"name": "ray", "values": "gemma-ray"}[form]
    assert f"--namespace rl --selector {label},ray.io/node-type=head" in found


def test_the_cluster_of_a_rayjob_that_has_not_begun(grpo: Grpo, cluster: Cluster) -> None:
    """Its selector names it; a job that makes its own has none yet."""
    cluster.state("", "Initializing", rayClusterName="")
    assert "ray.io/cluster=gemma-ray," in grpo("logs", NAME, "-n", "rl", "--show-commands")[1]
    del cluster.rayjob["spec"]["clusterSelector"]
    cluster.state("", "Initializing", rayClusterName="")
    code, _, said = grpo("checkpoints", NAME, "-n", "rl")
    assert (code, said.splitlines()[0]) == (2, f"the RayJob {NAME} has no RayCluster yet")
    assert "ray.io/cluster=other," in grpo("logs", NAME, "-n", "rl", "--show-commands", "--cluster", "other")[1]


def test_the_command_that_logs_shows_for_a_name(grpo: Grpo, cluster: Cluster) -> None:
    code, shown, said = grpo("logs", NAME, "-n", "rl", "--show-commands")
    assert (code, said) == (0, "")
    assert "ray.io/cluster=ray,ray.io/node-type=head" in shown
    assert shown.endswith("tail -n +1 /data/runs/gemma3-gsm8k/attempts/1/output.log\n")


@pytest.mark.parametrize("command", ["logs", "watch", "report"])
def test_another_attempt_of_the_values(grpo: Grpo, cluster: Cluster, command: str) -> None:
    """Its RayJob is gone; what its launcher wrote is on the volume."""
    cluster.no_job()
    cluster.write_on_volume(TEXT, 3)
    form = ["--format", "json"] if command == "report" else []
    assert grpo(command, *FILES, "-n", "rl", "--attempt", "3", *form)[0] == 0


def test_the_namespace_of_a_name_is_that_of_the_context(grpo: Grpo, cluster: Cluster) -> None:
    cluster.write("a line\n")
    (cluster.folder / "namespace").write_text("team")
    assert grpo("logs", NAME) == (0, "a line\n", "")
    assert "/namespaces/team/" in cluster.calls("get")[0]


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, render: Render) -> Iterator[None]:
    """An API server with a run and its RayCluster, and with nothing else."""
    stand_in_of_server.put(tmp_path, monkeypatch)
    job = by_kind(render("grpo-job"), "RayJob")
    ray = by_kind(render("raycluster"), "RayCluster")
    notes = {"meta.helm.sh/release-name": "of-the-team"}
    job["metadata"]["annotations"] = ray["metadata"]["annotations"] = notes
    ray["status"] = {"state": "ready"}
    job["status"] = {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "message": "exit code 1"}
    job["status"]["rayClusterName"] = ray["metadata"]["name"]
    where = "/apis/ray.io/v1/namespaces/rl"
    objects = {f"{where}/rayjobs/{NAME}": job, f"{where}/rayclusters/{ray['metadata']['name']}": ray}
    lists = {f"{where}/rayjobs": [job], f"{where}/rayclusters": [ray], "/api/v1/namespaces/rl/secrets": []}

    def answer(path: str) -> tuple[int, str]:
        plain = path.partition("?")[0]
        found: Any = objects.get(plain) or ({"items": lists[plain]} if plain in lists else None)
        return (404, "{}") if found is None else (200, json.dumps(found))

    with stand_in_of_server.serving(tmp_path, answer):
        yield


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("form", FORMS)
def test_what_asks_the_cluster(grpo: Grpo, form: str) -> None:
    code, shown, said = grpo("status", *FORMS[form], "-n", "rl")
    assert (code, said) == (1, "")
    assert "stack gemma in namespace rl, context c" in shown
    assert f"run {NAME}: Failed, FAILED\n  failed: exit code 1\n" in shown
    assert "cluster: ready, 0 of 16 GPUs on nodes" in shown
    assert ("  raycluster  not installed" in shown, "  storage " in shown) == (True, form == "values")
    code, shown, said = grpo("why", *FORMS[form], "-n", "rl")
    assert (code, said) == (1, "")
    assert shown.startswith(f"run {NAME} of stack gemma in namespace rl: Failed, FAILED")


@pytest.mark.usefixtures("served")
def test_a_bundle_of_a_name_can_be_read(grpo: Grpo, tmp_path: Path) -> None:
    path = str(tmp_path / "b.tar.gz")
    first = grpo("why", NAME, "-n", "rl", "--bundle", path)
    assert first[0] == 1
    assert grpo("why", "--from", path)[:2] == first[:2]


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("command", ["status", "why"])
def test_another_attempt_is_another_rayjob(grpo: Grpo, command: str) -> None:
    _, shown, _ = grpo(command, *FILES, "-n", "rl", "--attempt", "2")
    assert "gemma3-gsm8k-2" in shown
    assert "not there" in shown


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("command", ["status", "why"])
def test_a_rayjob_that_is_not_in_the_cluster(grpo: Grpo, command: str) -> None:
    code, _, said = grpo(command, "other-1", "-n", "rl")
    assert (code, "there is no RayJob other-1 in the namespace rl" in said) == (2, True)
    assert "kubectl get rayjobs -n rl" in said


@pytest.mark.parametrize("command", ["checkpoints", "samples"])
def test_a_rayjob_that_is_not_there(grpo: Grpo, cluster: Cluster, command: str) -> None:
    cluster.no_job()
    code, _, said = grpo(command, NAME, "-n", "rl")
    assert (code, f"there is no RayJob {NAME} in the namespace rl" in said) == (2, True)


@pytest.mark.parametrize("command", ["checkpoints", "samples"])
def test_a_rayjob_of_others_has_no_known_folder(grpo: Grpo, cluster: Cluster, command: str) -> None:
    cluster.rayjob["spec"]["entrypoint"] = "python train.py"
    cluster.state("RUNNING")
    code, _, said = grpo(command, NAME, "-n", "rl")
    assert (code, "is none of the chart grpo-job" in said) == (2, True)


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_name(grpo: Grpo, cluster: Cluster, command: str) -> None:
    code, shown, said = grpo(command, "No_Name", "-n", "rl")
    assert (code, shown) == (2, "")
    assert "'No_Name'" in said
    with contextlib.suppress(FileNotFoundError):
        assert not (cluster.folder / "proxies").exists()


@pytest.mark.parametrize("command", ["logs", "status", "why"])
def test_a_run_that_is_named_twice(grpo: Grpo, command: str) -> None:
    code, _, said = grpo(command, NAME, *FILES, "-n", "rl")
    assert code == 2
    assert "named twice" in said or "a log and a stack are given" in said


# Words that name a run, or its output, for each command: with --namespace and without.
WORDS = {
    "checkpoints": ([NAME], ["docs"]),
    "logs": ([NAME], [NAME]),
    "report": ([NAME], ["http://127.0.0.1:1", "driver.log", "-"]),
    "samples": ([NAME], ["docs"]),
    "status": ([NAME], []),
    "watch": ([NAME], ["http://127.0.0.1:1", "driver.log", "-"]),
    "why": ([NAME], ["driver.log", "-"]),
}
PLACES = [
    (command, option, word, namespace)
    for command, of_namespace in WORDS.items()
    for namespace, words in zip(("rl", ""), of_namespace, strict=True)
    for word in words
    for option in ("--attempt", "--set")
    if option == "--set" or command not in ("checkpoints", "samples")
]


@pytest.mark.parametrize(("command", "option", "word", "namespace"), PLACES)
def test_an_option_of_values_is_not_ignored_for_a_word(
    grpo: Grpo, cluster: Cluster, command: str, option: str, word: str, namespace: str
) -> None:
    """Without its values files a run has the attempt that its name says, and nothing is rendered."""
    value = {"--attempt": "2", "--set": "job.nodes=2"}[option]
    more = {"report": ["-o", "x.html"], "logs": ["--show-commands"]}.get(command, [])
    code, shown, said = grpo(command, word, *(["-n", namespace] if namespace else []), option, value, *more)
    assert (code, shown) == (2, "")
    assert said.startswith(f"grpo {command}: {option} is given, but {word!r} ")
    assert cluster.calls("") == []


def test_an_option_of_values_is_not_ignored_for_a_bundle(grpo: Grpo) -> None:
    for words in (["--set", "job.nodes=2"], ["--accelerator", "b200"], ["--kubeconfig", "x"], [NAME]):
        code, _, said = grpo("status", "--from", "b.tar.gz", *words)
        assert (code, "--from reads a bundle, which has " in said) == (2, True)


@pytest.mark.parametrize("command", ["checkpoints", "samples"])
def test_values_that_name_no_run(grpo: Grpo, command: str) -> None:
    code, _, said = grpo(command, "--accelerator", "b200")
    assert (code, "the values name no run: job.name is not set" in said) == (2, True)
    assert "fix: add -f RECIPE.yaml" in said


@pytest.mark.parametrize("command", ["watch", "why"])
def test_the_standard_input_is_in_no_namespace(grpo: Grpo, command: str) -> None:
    code, _, said = grpo(command, "-", "-n", "rl")
    assert (code, "fix: leave out --namespace to read the standard input" in said) == (2, True)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_shows_both_forms(grpo: Grpo, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    usage = " ".join(grpo(command, "--help")[1].partition("\n\n")[0].split())
    assert "-f FILE ... | RUN -n NAMESPACE" in usage
