"""KubeRay's own validation and the rules agree on every generated object, but for what is listed here.

`kuberay_verdicts.yaml` holds what the operator of `make tools` refuses, as the rules that say the same; with the
operator's code built the record is compared with it, and `--write-goldens` writes it anew.
"""

from __future__ import annotations

import copy
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo.check.objects import check
from grpo.helm.engines import Rendered
from grpo.manifests.loader import read
from grpo.problems import registry
from grpo.problems.ray.objects_fields import LATER
from postrender.finding import ERROR
from postrender.manifests.schemas import Kinds
from postrender.yaml import reader
from tests import options
from tests.catalogues import kuberay
from tests.conftest import ACCELERATORS, LAYERS, ROOT, require_tool
from tests.problems.kuberay_cases import Case, cases, whole
from tests.problems.kuberay_clusters import Edits
from tests.problems.kuberay_jobs import JOB
from tests.problems.kuberay_services import SERVICE

RECORD = ROOT / "tests/problems/kuberay_verdicts.yaml"
KINDS = Kinds()
ERRORS = {rule.id for rule in registry.rules("objects") if rule.severity == ERROR}
# What the schemas of kinds say.
FIELD = "kubernetes/unknown-field"
VALUE = "kubernetes/value-refused"
# A warning: the next version of the operator knows the field.
NEWER = "ray/newer-field"
# Words of the operator's reasons, and the rule that says the same. The first that fits counts.
REASONS = (
    (r"at least one container", VALUE),
    (r"in both rayStartParams and Resources", "ray/resources-twice"),
    (r"rayStartParams\['labels'\]", "ray/labels-in-start-params"),
    (r"invalid label (key|value)", "ray/group-label"),
    (r"negative m..Replicas", VALUE),
    (r"greater than maxReplicas", "ray/min-above-max"),
    (r"group names must be unique", "ray/group-name-twice"),
    (r"cannot be suspended with Autoscaler", "ray/suspended-group-scales"),
    (r"idleTimeoutSeconds must be non-neg", VALUE),
    (r"idleTimeoutSeconds is set", "ray/idle-timeout-without-v2"),
    (r"autoscaler_v2 cannot be set", "ray/autoscaler-v2-without-autoscaler"),
    (r"autoscalerOptions.version and head", "ray/autoscaler-version-twice"),
    (r"using autoscaler V2", "ray/restart-policy-with-v2"),
    (r"ft-enabled annotation", "ray/fault-tolerance-twice"),
    (r"RAY_REDIS_ADDRESS is set", "ray/redis-address-alone"),
    (r"initializing-timeout", "ray/initializing-timeout"),
    (r"headService.metadata.name", "ray/head-service-named"),
    (r"UpgradeStrategy.Type value", VALUE),
    (r"RayClusterDeletionDelay|rayClusterDeletionDelay|Percent must be|intervalSeconds must be", "ray/service-number"),
    (r"required for NewClusterWithIncrementalUpgrade", "ray/incremental-upgrade"),
    (r"port named 'serve'", "ray/serve-port-missing"),
    (r"serveConfigV2: error", "ray/serve-config"),
    (r"invalid cron schedule|operator panics", "ray/cron-schedule"),
    (r"redis username", "ray/redis-username"),
    (r"GcsFaultToleranceOptions is enabled", "ray/redis-beside-options"),
    (r"K8s token auth mode", "ray/kubernetes-tokens-owned"),
    (r"secretName is also set|mode not set to 'token'", "ray/kubernetes-tokens"),
    (r"RayVersion|minimum Ray version", "ray/token-needs-version"),
    (r"upgradeStrategy cannot be set", "ray/upgrade-strategy-owned"),
    (r"no more than \d+ characters", VALUE),
    (r"valid DNS1035|RFC 1123 subdomain", VALUE),
    (r"deletionRules\S* in body should have|deletionStrategy: Invalid|OnSuccess cannot be unset", "ray/deletion-shape"),
    (r"condition(\.ttlSeconds)?: Invalid", "ray/deletion-condition"),
    (r"Unsupported value|managedBy: Invalid", VALUE),
    (r"rayStartParams\S* in body must be", VALUE),
    (r"Required value|replicas in body must be", VALUE),
    (r"not allowed to be suspended", "ray/suspend-without-shutdown"),
    (r"cannot have TTLSeconds", "ray/ttl-without-shutdown"),
    (r"support the suspend|not supported in SidecarMode", "ray/selector-excludes"),
    (r"DeadlineSeconds\b.*(in body|positive)|TTLSecondsAfter\w+ must|backoffLimit must", VALUE),
    (r"must be set$|ClusterSelector should not be empty", "ray/job-without-cluster"),
    (r"BackoffLimit is incompatible", "ray/job-cannot-retry"),
    (r"SidecarMode doesn't support|using SidecarMode", "ray/sidecar-excludes"),
    (r"unmarshal RuntimeEnvYAML", "ray/runtime-env-not-a-map"),
    (r"metadata field|parse Ray version", "ray/metadata-needs-version"),
    (r"mutually exclusive|'DeleteNone'", "ray/deletion-and-shutdown"),
    (r"not support\w* (with autoscaling|RayCluster with auto)", "ray/deletion-of-scaled-workers"),
    (r"duplicate rule", "ray/deletion-rule-twice"),
    (r"must be >=", "ray/deletion-order"),
    (r"ClusterSelector mode doesn't support Del|when ClusterSelector is set", "ray/deletion-of-another-cluster"),
)
# Where the rules say more than the operator: it accepts the object, which then does not work.
STRICTER = {
    "ray/dashboard-port-missing": "the operator looks for the port when it submits, not when it validates",
    "ray/command-joined": "the operator takes any command; what becomes of it shows in the pod",
    "ray/job-with-two-clusters": "the operator takes the selector and leaves the cluster's spec unread",
    "ray/entrypoint-missing": "the operator does not look; Ray refuses the submission when the cluster is up",
    "ray/entrypoint-split": "the operator pastes the entrypoint into a shell as it is",
    "ray/entrypoint-gpus": "only Ray's scheduler would notice, by waiting",
    "ray/runtime-env-key": "the operator looks whether it is a map; Ray drops what it does not know",
    "ray/serve-config": "the operator looks whether it is a map; Ray wants applications in it",
    "ray/entrypoint-resources": "the text is read at the submission, not before",
    VALUE: "neither the definition nor the operator looks for a mode that is none, a submitter without containers, -1",
}
# What the operator would say next.
BEHIND = {
    "cluster, Kubernetes tokens, token, Ray 2.54.9, secret tokens": "ray/kubernetes-tokens",
    "job, Kubernetes tokens, token, Ray 2.54.9, secret ": "ray/token-needs-version",
    "job, Kubernetes tokens, token, Ray 2.54.9, secret tokens": "ray/token-needs-version",
    "service, Kubernetes tokens, token, Ray 2.54.9, secret ": "ray/token-needs-version",
    "service, Kubernetes tokens, token, Ray 2.54.9, secret tokens": "ray/token-needs-version",
    "service, head without dashboard port": "ray/dashboard-port-missing",
    **{f"{holder}, upgrade RollingUpdate": "ray/upgrade-strategy-owned" for holder in ("job", "service")},
    **{f"{kind}, suspended, other, kept": "ray/selector-excludes" for kind in ("RayJob", "cron job")},
    **{f"{kind}, rule without a condition": "ray/deletion-condition" for kind in ("RayJob", "cron job")},
}


def rules_of(reason: str) -> str:
    """Return the rule that a reason of the operator belongs to."""
    for words, rule in REASONS:
        if re.search(words, reason, re.DOTALL):
            return rule
    raise AssertionError(f"expected a row in REASONS for: {reason}")


def verdicts(all_cases: list[Case]) -> dict[str, list[str]]:
    """Ask the operator's own code; return the rules by the cases that it refuses or reads only a part of."""
    program = require_tool("kuberay-validate")
    texts = "\n---\n".join(json.dumps(case.object) for case in all_cases)
    definitions = ROOT / ".tools/share/kuberay-crds"
    done = subprocess.run([program, definitions], input=texts, text=True, capture_output=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    found = {}
    for case, answer in zip(all_cases, answers, strict=True):
        reasons = {rules_of(reason) for reason in answer.get("reasons", ())}
        dropped = {rule_of_a_field(path) for path in answer.get("dropped", ())}
        if reasons or dropped:
            found[case.name] = sorted(reasons | dropped)
    return found


def rule_of_a_field(path: str) -> str:
    """Return the rule about a field that the API server drops."""
    later = {name for names in LATER.values() for name in names.split()}
    return NEWER if path.rpartition(".")[2] in later else FIELD


@cache
def record() -> dict[str, list[str]]:
    """Return what the operator refused when it was last asked."""
    return dict(yaml.safe_load(RECORD.read_text(encoding="utf-8")))


@cache
def ours(step: int = 1) -> dict[str, set[str]]:
    """Return the errors that the rules find in each case, or in one of so many."""
    found = {}
    for case in cases()[::step]:
        findings = check(read({"case.yaml": json.dumps(case.object).encode()}), None, KINDS)
        found[case.name] = {each.rule for each in findings} & (ERRORS | {NEWER})
    return found


@pytest.mark.full
def test_the_record_matches_the_operators_messages(write_goldens: bool) -> None:
    found = verdicts(cases())
    if write_goldens:
        head = "# What KubeRay 1.6.2 refuses of kuberay_cases.py, as rules; written by test_kuberay.py.\n"
        text = "".join(f"{json.dumps(name)}: [{', '.join(rules)}]\n" for name, rules in found.items())
        RECORD.write_text(head + text, encoding="utf-8")
    assert dict(yaml.safe_load(RECORD.read_text(encoding="utf-8"))) == found


def test_there_are_enough_accepted_and_rejected_cases() -> None:
    names = [case.name for case in cases()]
    assert len(names) == len(set(names)) >= 300
    assert len(record()) >= 150
    assert len(names) - len(record()) >= 150
    assert set(record()) <= set(names)


def test_every_rule_about_an_operator_rejection_has_a_case() -> None:
    refused = {rule for rules in record().values() for rule in rules}
    assert refused == {rule for _, rule in REASONS} | {FIELD, NEWER}


STEPS = [6, pytest.param(1, marks=pytest.mark.full)]


@pytest.mark.parametrize("step", STEPS)
def test_the_rules_find_whatever_the_operator_rejects(step: int) -> None:
    found = ours(step)
    missed = {name: rules for name, rules in record().items() if name in found and not {*rules} <= found[name]}
    assert missed == {}


@pytest.mark.parametrize("step", STEPS)
def test_the_rules_accept_whatever_the_operator_accepts(step: int) -> None:
    more = {rule for name, found in ours(step).items() if name not in record() for rule in found}
    assert more == {*STRICTER} if step == 1 else more <= {*STRICTER}


@pytest.mark.full
def test_extra_findings_occur_only_where_the_operator_stops_at_an_earlier_one() -> None:
    """It stops at the first thing that it finds."""
    refused = {name: {*rules, VALUE} for name, rules in record().items() if not name.startswith("pair, ")}
    # The operator compares num-gpus with nothing.
    own = {"ray/more-gpus-than-container", "ray/gpus-unused"}
    more = {name: ours()[name] - rules - own for name, rules in refused.items()}
    assert {name: rules for name, rules in more.items() if rules} == {name: {rule} for name, rule in BEHIND.items()}


@pytest.mark.full
def test_the_rules_find_both_of_two_wrong_fields() -> None:
    two = [name.removeprefix("pair, ").split(" + ") for name in ours() if name.startswith("pair, ")]
    assert len(two) > 30
    for pair in two:
        each = [ours()[f"cluster, {name}"] for name in pair]
        assert ours()[f"pair, {' + '.join(pair)}"] == set.union(*each), pair


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of everything in an object."""
    yield path
    for key, below in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        yield from places(below, (*path, key))


JOB_EDITS = {**JOB["rule with two conditions"], **JOB["environment 0"], "clusterSelector": {"a": "b"}}


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "edits"),
    [
        ("RayJob, K8sJobMode with template", JOB_EDITS),
        ("RayService, incremental", SERVICE["own service"]),
        ("RayCronJob, schedule '0 6 * * *'", {}),
    ],
)
def test_no_rule_crashes_on_a_malformed_kuberay_object(name: str, edits: Edits) -> None:
    case = next(case for case in cases() if case.name == name)
    case.object["spec"] |= edits
    case.object["metadata"] |= {"annotations": {"ray.io/initializing-timeout": "30m"}}
    for path in list(places(case.object))[1:]:
        for wrong in (None, True, -1, 0.5, "a", [], ["a"], [[]], {}, {"a": []}, [{"name": {}}]):
            found = copy.deepcopy(case.object)
            at: Any = found
            for part in path[:-1]:
                at = at[part]
            at[path[-1]] = wrong
            if found.get("kind"):
                findings = check(read({"case.yaml": json.dumps(found).encode()}), None, KINDS)
                assert not [each.what for each in findings if "crashed" in each.what], (path, wrong)


def properties(definitions: Path, part: str) -> set[str]:
    """Return the fields of a part of the operator's definitions, which are in a folder."""
    plural, path = next((plural, parts[part]) for plural, parts in PLURALS.items() if part in parts)
    text = (definitions / f"ray.io_{plural}.yaml").read_text(encoding="utf-8")
    versions = yaml.load(text, Loader=yaml.CSafeLoader)["spec"]["versions"]
    node: Any = next(each for each in versions if each["name"] == "v1")["schema"]["openAPIV3Schema"]
    for part in ("spec", *path):
        node = node["items"] if part == "[]" else node["properties"][part]
    return set(node["properties"])


PARTS = {
    "a cluster": (),
    "the head": ("headGroupSpec",),
    "a worker group": ("workerGroupSpecs", "[]"),
    "scaleStrategy": ("workerGroupSpecs", "[]", "scaleStrategy"),
    **{name: (name,) for name in ("autoscalerOptions", "authOptions", "upgradeStrategy", "gcsFaultToleranceOptions")},
}
SERVICE_PARTS = {
    "a RayService": (),
    "a service's upgradeStrategy": ("upgradeStrategy",),
    "clusterUpgradeOptions": ("upgradeStrategy", "clusterUpgradeOptions"),
}
JOB_PARTS = {
    "a RayJob": (),
    "submitterConfig": ("submitterConfig",),
    "deletionStrategy": ("deletionStrategy",),
    "a deletion rule": ("deletionStrategy", "deletionRules", "[]"),
    "a condition": ("deletionStrategy", "deletionRules", "[]", "condition"),
}
PLURALS: dict[str, dict[str, tuple[str, ...]]] = {
    "rayclusters": PARTS,
    "rayjobs": JOB_PARTS,
    "rayservices": SERVICE_PARTS,
    "raycronjobs": {"a RayCronJob": ()},
}


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The definitions of KubeRay 1.7."""
    require_tool("kuberay-validate")
    return kuberay.build(ROOT / ".tools/share/kuberay-crds", tmp_path_factory.mktemp("kuberay-1.7"))


@pytest.mark.full
@pytest.mark.parametrize("part", [part for parts in PLURALS.values() for part in parts])
def test_the_newer_fields_match_the_next_version(later: Path, part: str) -> None:
    added = properties(later, part) - properties(ROOT / ".tools/share/kuberay-crds", part)
    assert added == set(LATER.get(part, "").split())


GOLDENS = sorted((ROOT / "tests/goldens").glob("*/*.yaml"))


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_our_own_manifests_are_clean(golden: Any) -> None:
    text = whole(golden.read_text(encoding="utf-8"))
    assert reader.load_objects(text, golden.name)
    assert [f"{each.rule}: {each.what}" for each in check(read({golden.name: text.encode()}), None, KINDS)] == []


@pytest.mark.parametrize("platform", ["gke-standard", "gke-autopilot"])
@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_jobs_with_their_own_cluster_are_clean(
    accelerator: str, platform: str, render_text: Callable[..., Rendered]
) -> None:
    values = {**options.FACTORS["platform"][platform], "job": {"cluster": {"mode": "ephemeral"}}}
    text = render_text(LAYERS[-1], values, accelerator=accelerator).manifest
    assert "rayClusterSpec" in text
    assert [f"{each.rule}: {each.what}" for each in check(read({"job": text.encode()}), None, KINDS)] == []


def test_a_teams_own_manifest_has_no_ray_errors() -> None:
    text = (ROOT / "tests/e2e/foreign/verl.yaml").read_bytes()
    found = {each.rule for each in check(read({"verl.yaml": text}), None)}
    assert not {rule for rule in found & ERRORS if rule.startswith(("ray/", "kueue/"))}
