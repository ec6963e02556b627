"""The defects of the published set-ups, rebuilt in our own words: each is found where an object or a value shows it."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo.check.objects import check
from grpo.helm.engines import Rendered
from grpo.lint import linter
from grpo.manifests.loader import read
from grpo.problems import registry
from postrender.errors import InputError, RenderError
from postrender.gate.manifests import Item, Manifests
from postrender.judge import judge
from postrender.manifests import pods
from postrender.types import Json
from tests.conftest import KINDS, stack_files

HERE = Path(__file__).parent / "samples"
OBJECTS = sorted(HERE.glob("*.yaml"))
VALUES = sorted((HERE / "values").glob("*.yaml"))
REFUSED = sorted((HERE / "refused").glob("*.yaml"))
# Google's test of DRANET: Helm and kubectl take the later of two keys in silence.
KEY_TWICE = """\
apiVersion: v1
kind: Pod
metadata: {name: test}
spec:
  containers:
  - name: test
    resources: {limits: {nvidia.com/gpu: 8}}
    resources: {claims: [{name: rdma}]}
"""
# Each defect by its number in the reviews of the published set-ups: the rules that find it, or why none does.
DEFECTS: dict[str, str] = {
    # The tutorial's chart.
    "5.1 #1": "network/no-rdma-interfaces values/unknown-key",
    "5.1 #2": "values/unknown-key",
    "5.1 #3": "values/unknown-key",
    "5.1 #4": "values/wrong-prefix",
    "5.1 #5": "why: numbers of a page; ours are generated",
    "5.1 #6": "ray/command-joined",
    "5.1 #7": "nodes/host-path-without-type",
    "5.1 #8": "pods/memory-volume-without-limit storage/volume-not-mounted",
    "5.1 #9": "storage/reference-absent",
    "5.1 #10": "pods/moving-tag",
    "5.1 #11": "pods/privileged",
    "5.1 #12": "why: the chart mounts no bucket; where one is mounted storage/bucket-without-account says it",
    "5.1 #13": "pods/zero-gpus",
    "5.1 #14": "nccl/tuner-of-another-machine",
    "5.1 #15": "nccl/two-owners",
    "5.1 #16": "why: equal to replicas is better, and bounds that hold replicas work",
    "5.1 #17": "pods/installs-at-start",
    "5.1 #18": "why: a template that is never used; Helm fails the day it is",
    "5.1 #19": "why: the name of a file in a chart",
    "5.1 #20": "why: how much a pod writes to its disk no object says",
    "5.1 #21": "pods/installs-at-start",
    "5.1 #22": "pods/zero-gpus",
    "5.1 #23": "why: a script for the user's own machine",
    "5.1 #24": "why: links of a page",
    # Its scripts.
    "5.2 #1": "why: a script for the user's own machine; secrets/printed-by-shell finds it in a pod",
    "5.2 #2": "pods/installs-at-start",
    "5.2 #3": "why: what sed changes in the image no manifest shows",
    "5.2 #4": "why: a script instead of an object",
    "5.2 #5": "why: a script for the user's own machine",
    "5.2 #6": "why: HF_HOME of a script; the charts set it to the shared volume",
    "5.2 #7": "nemo-rl/raw-answers nemo-rl/unknown-key",
    "5.2 #8": "why: a comment that differs from its command",
    "5.2 #9": "why: a script for the user's own machine",
    # Its other manifests.
    "5.3 lustre": "stream/placeholder",
    "5.3 reclaim policy": "storage/deleted-with-claim",
    "5.3 images": "pods/image-not-pinned pods/moving-tag",
    "5.3 plain keys": "secrets/literal-variable",
    "5.3 open load balancer": "why: a server for others is not training, and whom it is for no object says",
    "5.3 SYS_ADMIN": "pods/privileged",
    # Its text.
    "5.4 region": "network/profile-of-a-region",
    "5.4 commands": "why: commands that make the cluster",
    # verl on GKE.
    "5.5 #1": "ray/runtime-env-key",
    "5.5 #2": "ray/runtime-env-unpinned",
    "5.5 #3": "pods/install-in-init-container",
    "5.5 #4": "nccl/plugin-not-set nccl/socket-interface-not-set",
    "5.5 #5": "nccl/tuner-of-another-machine",
    "5.5 #6": "storage/volume-not-mounted",
    "5.5 #7": "pods/moving-tag values/wrong-value",
    "5.5 #8": "kueue/queue-without-users",
    "5.5 #9": "why: a name that somebody chose is a name",
    "5.5 #10": "storage/deleted-with-claim storage/volume-for-anybody storage/bucket-cache-contradicts "
    "storage/bucket-cache-without-room",
    "5.5 #11": "why: a secret that a command makes, for no pod of the manifests",
    "5.5 #12": "why: commands of a page",
    "5.5 #13": "why: a script for the user's own machine",
    "5.5 #14": "verl/kl-coefficient-without-switch",
    "5.5 #15": "refused: relative-directory-verl",
    # Google's pages.
    "5.6 comma": "network/interfaces-of-another-machine",
    "5.6 volume": "storage/volume-not-mounted",
    "5.6 key twice": "why: no rule: the manifest is refused when it is read",
    "5.6 token in the workspace": "why: a script for the user's own machine",
    # The reference set-ups.
    "1.7 #8": "nemo-rl/micro-batches-differ",
    "1.7 #9": "nemo-rl/segment-size",
    "1.7 #11": "why: how much memory a step takes is planned, and not judged",
    "2.3 two owners": "nccl/two-owners",
    "2.6 #1": "nemo-rl/save-format",
    "2.6 #2": "nemo-rl/consolidated",
    "2.6 #3": "nemo-rl/unknown-key",
    "2.6 #5": "refused: directory-of-pod",
    "2.6 #7": "nemo-rl/metric-prefix",
    "2.6 #11": "ray/autoscaler-on",
    "3.6 #8": "nodes/too-large",
    "4.4": "refused: directory-of-pod",
    "5.4 #3 of Lepton": "nemo-rl/validation-batch-too-large",
}
# What samples show beside the defects that are numbered.
BESIDE = {"kubernetes/not-judged", "nodes/arm-not-tolerated"}
MARK = re.compile(r"# <- (\S+/\S+(?:, \S+/\S+)*)$")


def marked(text: str) -> list[tuple[int, str]]:
    """Return the lines with the rules that must find something there."""
    lines = enumerate(text.splitlines(), 1)
    return sorted((number, rule) for number, line in lines if (m := MARK.search(line)) for rule in m[1].split(", "))


@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.stem)
def test_the_defects_in_manifests_are_found(path: Path) -> None:
    found = check(read({str(path): path.read_bytes()}), None, KINDS)
    assert sorted((each.at.line, each.rule) for each in found) == marked(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", VALUES, ids=lambda path: path.stem)
def test_the_defects_in_values_are_found(path: Path) -> None:
    """Over the stack that the first line names."""
    text = path.read_text(encoding="utf-8")
    first = re.match(r"# stack: (\S+) (\S+)\n", text)
    assert first
    found = linter.lint([*map(str, stack_files(first[1], first[2])), str(path)])
    assert sorted((each.at.line, each.rule) for each in found if each.at.file == str(path)) == marked(text)


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_the_charts_themselves_reject_some_samples(path: Path, render_text: Callable[..., Rendered]) -> None:
    """Only the chart knows the volume that a directory follows from."""
    stack, words = re.match(r"# stack: (.*)\n# words: (.*)\n", path.read_text(encoding="utf-8")).groups()  # type: ignore[union-attr]
    with pytest.raises(RenderError, match=re.escape(words)):
        render_text("grpo-job", files=[*stack_files(*stack.split()), path])


def test_a_duplicate_key_is_rejected_when_it_is_read() -> None:
    with pytest.raises(InputError, match="the key 'resources' is given twice"):
        read({"pod.yaml": KEY_TWICE.encode()})


def test_every_defect_has_a_sample_that_its_rules_find_or_a_stated_reason() -> None:
    """And every mark of a sample is of a defect."""
    marks = {rule for path in (*OBJECTS, *VALUES) for _, rule in marked(path.read_text(encoding="utf-8"))}
    known = {rule.id for rule in registry.rules("objects", "values")}
    named = set()
    for number, said in DEFECTS.items():
        if said.startswith("why: "):
            assert len(said) > 15, number
        elif said.startswith("refused: "):
            assert said.removeprefix("refused: ") in {path.stem for path in REFUSED}, number
        else:
            named |= set(said.split())
    assert {rule for rule in named if not rule.startswith("values/")} <= known
    assert named == marks - BESIDE


def places(value: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of everything below a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from places(each, (*path, key))


@pytest.mark.full
@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.stem)
@pytest.mark.parametrize("odd", [[], {}, "x", [["a"]]], ids=str)
def test_no_rule_crashes_on_odd_values(path: Path, odd: Json) -> None:
    """Whatever one place holds: what the API server would refuse must not hide what else is wrong."""
    objects = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    for number, whole in enumerate(objects):
        for *above, last in places(whole):
            changed: Any = copy.deepcopy(whole)
            inner = changed
            for part in above:
                inner = inner[part]
            inner[last] = odd
            given = [*objects[:number], changed, *objects[number + 1 :]]
            items = [Item(at, (), each, pods.pods(each)) for at, each in enumerate(given)]
            found = judge(Manifests(items, [""] * len(given), None), registry.rules("objects"))
            assert [(above, last, each.what) for each in found if "crashed" in each.what] == []
