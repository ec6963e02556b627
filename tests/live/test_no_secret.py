"""No secret of a cluster reaches the output of a command or a bundle, wherever it stands."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import operator
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpo.cli import main as cli
from grpo.cluster.evidence import Evidence
from grpo.live import bundle, logs
from postrender import masking, secrets
from tests.conftest import examples, thin
from tests.live import bundles

COMMANDS = ("status", "doctor", "why")
PASSWORD = "Correct-Horse7"
# Shapes of which the whole match is secret; of a private key the lines after it are, which has a test of its own.
SHAPES = {name: shape for name, shape in secrets.shapes().items() if name != "privateKey"}


def filled() -> Evidence:
    """A stack in trouble: whatever a text of the cluster can reach is reached."""
    evidence = bundles.evidence()
    note = "planted"
    pod = evidence.objects["pods"][1]
    pod["metadata"]["annotations"] = {"note": note}
    pod["spec"]["containers"][0] |= {"env": [{"name": "STEPS", "value": note}], "args": [note], "image": note}
    pod["status"] = {
        "phase": "Pending",
        "reason": note,
        "conditions": [{"type": "PodScheduled", "status": "True", "message": note}],
        "containerStatuses": [
            {
                "name": "ray",
                "state": {"waiting": {"reason": "ImagePullBackOff", "message": note}},
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": note}},
            }
        ],
    }
    about = {"kind": "Pod", "name": pod["metadata"]["name"]}
    event = {"involvedObject": about, "reason": "FailedMount", "message": note, "lastTimestamp": "1"}
    evidence.objects["events"] = [event]
    job = evidence.objects["rayjobs"][0]
    job["status"] = {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "reason": note, "message": note}
    condition = {"type": "Ready", "status": "False", "message": note}
    evidence.objects["nodes"] = [
        {"metadata": {"name": "n", "labels": {"a": note}}, "status": {"conditions": [condition]}}
    ]
    evidence.objects["networks"] = [{"metadata": {"name": "rdma-0"}, "status": {"conditions": [condition]}}]
    evidence.objects["deployments"][0]["spec"]["template"]["spec"]["containers"][0]["args"] = [note]
    evidence.objects["secrets"] = [{"metadata": {"name": note}, "keys": [note]}]
    evidence.objects["resourcequotas"] = [{"metadata": {"name": note}, "status": {"hard": {"pods": "0"}}}]
    evidence.record |= {"reason": note, "findings": [{"time": "1", "sign": note, "text": note}]}
    evidence.unread = {"limitranges": note}
    evidence.ray = {"status": "FAILED", "message": note}
    evidence.logs = {"output.log": note, "operator": note}
    environment = [{"name": "A", "value": note}]
    cluster = evidence.expected.objects["raycluster"][0]["spec"]
    cluster["headGroupSpec"]["template"]["spec"]["containers"][0]["env"] = environment
    evidence.expected.places["ray.env.A.value"] = (note, "site.yaml:1:1")
    return evidence


def texts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each planted text."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from texts(each, (*path, key))
    elif value == "planted":
        yield path


PLACES = [
    (part, path) for part in ("objects", "record", "unread", "logs", "ray") for path in texts(getattr(filled(), part))
]
TOKENS = st.sampled_from(sorted(SHAPES)).flatmap(
    lambda name: st.from_regex(SHAPES[name], fullmatch=True).filter(lambda text: text.isascii())
)
SENTENCES = st.sampled_from(
    ["{}", "it failed: {}", "curl -H 'Authorization: Bearer {}' x", 'in {{"a": "{}"}} it is', "a\n{}\nb"]
)


def plant(evidence: Evidence, part: str, path: tuple[Any, ...], text: str) -> None:
    """Write a text at a place."""
    item: Any = getattr(evidence, part)
    for key in path[:-1]:
        item = item[key]
    item[path[-1]] = text


def said(evidence: Evidence, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return all that the commands print about evidence as it was read, and all that a bundle of it holds."""
    read = copy.deepcopy(evidence)
    read.objects = {kind: masking.clean(objects) for kind, objects in read.objects.items()}
    read.record, read.ray = masking.clean(read.record), masking.clean(read.ray)
    read.unread = {kind: masking.text(text) for kind, text in read.unread.items()}
    for name, text in evidence.logs.items():
        logs.take(read, name, {name: text})
    path = str(folder / "b.tar.gz")
    bundle.write(path, read)
    for command in COMMANDS:
        for form in ("text", "json"):
            assert cli.main([command, "--from", path, "--format", form]) == 1
    printed = capsys.readouterr()
    with tarfile.open(path) as archive:
        held = [archive.extractfile(each).read().decode() for each in archive]  # type: ignore[union-attr]
    return "\n".join((printed.out, printed.err, *held))


def test_enough_places_are_planted() -> None:
    """Otherwise the tests below prove little."""
    assert len(PLACES) >= 20


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(token=TOKENS, sentence=SENTENCES)
def test_a_token_of_any_shape_is_masked_in_every_place(
    token: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence = filled()
    for place in PLACES:
        plant(evidence, *place, sentence.format(token))
    assert token not in said(evidence, tmp_path, capsys)


WRITTEN = [
    f"--api-key={PASSWORD}",
    f"--hf-token {PASSWORD}",
    f"DB_PASSWORD={PASSWORD}",
    f'{{"client_secret": "{PASSWORD}"}}',
    f"https://me:{PASSWORD}@example.org/x",
    f"Authorization: Basic {PASSWORD}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{PASSWORD}\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.full
@pytest.mark.parametrize("text", WRITTEN)
def test_a_password_is_recognised_by_its_name_in_every_place(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence = filled()
    for place in PLACES:
        plant(evidence, *place, text)
    assert PASSWORD not in said(evidence, tmp_path, capsys)


def test_a_password_in_each_form_is_recognised_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each form stands at a part of the places; the exhaustive test above has all forms at all places."""
    evidence = filled()
    for place, text in zip(PLACES, itertools.cycle(WRITTEN), strict=False):
        plant(evidence, *place, text)
    assert PASSWORD not in said(evidence, tmp_path, capsys)


FIELDS: list[dict[str, Any]] = [
    {"args": ["--api-key", PASSWORD]},
    {"command": ["sh", "-c", f"train --password {PASSWORD}"]},
    {"env": [{"name": "WANDB_API_KEY", "value": PASSWORD}]},
    {"env": [{"name": "STEPS", "value": json.dumps({"env": {"MY_TOKEN": PASSWORD}})}]},
    {"config": {"access_key": PASSWORD}},
]


@pytest.mark.parametrize("fields", thin([*FIELDS, functools.reduce(operator.or_, FIELDS)][::-1], len(FIELDS) + 1))
def test_a_password_in_a_container_field_is_masked(
    fields: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence = filled()
    evidence.objects["pods"][1]["spec"]["containers"][0] |= fields
    cluster = evidence.expected.objects["raycluster"][0]["spec"]
    cluster["headGroupSpec"]["template"]["spec"]["containers"][0] |= fields
    assert PASSWORD not in said(evidence, tmp_path, capsys)


def test_a_token_used_as_a_key_is_masked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evidence, token = filled(), "hf_" + "aB3" * 8
    evidence.objects["pods"][0]["metadata"]["annotations"] = {token: "x"}
    assert token not in said(evidence, tmp_path, capsys)
