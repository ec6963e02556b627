"""The dashboard, the alerts and the log queries: they parse, and they ask for what Ray and the trainers write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import promql_parser
import pytest
import yaml

from postrender.manifests.schemas import Kinds
from tests.conftest import ROOT
from tests.docs.pages import blocks

FOLDER = ROOT / "examples/monitoring"
# Of Ray 2.55.1, of which a head without GPUs served these at its port 8080 while a job ran.
SERVED = {
    "ray_node_cpu_utilization",
    "ray_node_disk_utilization_percentage",
    "ray_node_mem_total",
    "ray_node_mem_used",
    "ray_node_network_receive_speed",
    "ray_node_network_send_speed",
    "ray_resources",
    "ray_tasks",
}
# Those of GPUs are in its dashboard/modules/reporter/reporter_agent.py, without the prefix ray_.
IN_SOURCE = {
    "ray_node_gpu_power_milliwatts",
    "ray_node_gpu_temperature_celsius",
    "ray_node_gpus_utilization",
    "ray_node_gram_used",
}
REPORTER = "lib/python*/site-packages/ray/dashboard/modules/reporter/reporter_agent.py"


def rules(name: str) -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / name).read_text("utf-8"))["spec"]["groups"]
    return list(group["rules"])


@cache
def dashboard() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))
    return content


def expressions() -> Iterator[str]:
    """Give every PromQL expression of the examples."""
    yield from (rule["expr"] for rule in rules("prometheus-rule.yaml"))
    yield from (target["expr"] for panel in dashboard()["panels"] for target in panel["targets"])


def selectors(node: Any) -> Iterator[Any]:
    """Give the selectors of metrics in a parsed expression."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for part in ("lhs", "rhs", "expr", "vector_selector"):
        if hasattr(node, part):
            yield from selectors(getattr(node, part))
    for argument in getattr(node, "args", ()):
        yield from selectors(argument)


def test_every_expression_uses_existing_ray_metrics() -> None:
    found = [each for text in expressions() for each in selectors(promql_parser.parse(text))]
    assert {each.name for each in found} == SERVED | IN_SOURCE


def test_ray_exports_the_gpu_metrics() -> None:
    reporters = sorted((ROOT / ".tools/node").glob(f"ray-*/opt/nemo_rl_venv/{REPORTER}"))
    if not reporters:
        pytest.skip("needs .tools/node (tools/node.sh)")
    source = reporters[-1].read_text("utf-8")
    for name in IN_SOURCE | {each for each in SERVED if each.startswith("ray_node_")}:
        assert f'"{name.removeprefix("ray_")}": Gauge(' in source, name


def test_both_prometheuses_get_the_same_alerts() -> None:
    assert rules("prometheus-rule.yaml") == rules("google-rules.yaml")
    for name in ("prometheus-rule.yaml", "google-rules.yaml"):
        assert Kinds().judge([yaml.safe_load((FOLDER / name).read_text("utf-8"))]) == [[]]
    alerts = {rule["alert"] for rule in rules("google-rules.yaml")}
    page = (ROOT / "docs/howto/alerts.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == alerts


def test_alerts_aggregated_over_a_cluster_keep_its_name() -> None:
    """The message names it, and Google's managed Prometheus keeps what it stores apart by namespace."""
    for rule in rules("google-rules.yaml"):
        told = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        aggregated = re.findall(r"\bby \(([^)]*)\)", rule["expr"])
        assert told == ({"ray_io_cluster"} if aggregated else {"pod"})
        assert set(aggregated) <= {"namespace, ray_io_cluster"}


def test_the_dashboard_shows_one_cluster() -> None:
    """Each selector is bound to the variables, and the panels do not overlap."""
    variables = {each["name"] for each in dashboard()["templating"]["list"]}
    assert variables == {"datasource", "namespace", "cluster"}
    for panel in dashboard()["panels"]:
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            for selector in selectors(promql_parser.parse(target["expr"])):
                bound = {matcher.name: matcher.value for matcher in selector.matchers.matchers}
                assert (bound["namespace"], bound["ray_io_cluster"]) == ("$namespace", "$cluster")
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard()["panels"]]
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(set(places)) == len(places)


NEMO_STEP = "=" * 25 + " Step 3/100 " + "=" * 25
VERL_STEP = (
    "(TaskRunner pid=47, ip=10.8.0.7) step:3 - actor/entropy:0.2 - critic/score/mean:0.8125 - timing_s/step:61.7"
)
ZERO = [
    "  • Avg Reward: 0.0000",
    "  • Avg Total Reward: 0.0000",
    "(TaskRunner pid=47) step:3 - critic/score/mean:0.0 - critic/score/max:0.0",
    "(TaskRunnerV1 pid=8) step:3 - critic/score/mean:np.float64(0.0) - training/epoch:0",
    "step:3 - critic/score/mean:0.0",
]
LINES: dict[str, tuple[list[str], list[str]]] = {
    "step:": ([NEMO_STEP, VERL_STEP], ["Saving checkpoint for step 3...", "  • Total step time: 3.00s"]),
    "Reward": (
        ZERO,
        ["  • Avg Reward: 0.0312", "  • Avg Reward: 10.0000", VERL_STEP, "step:3 - critic/score/mean:0.05 - x:0.0"],
    ),
    "NCCL": (
        [
            "a:1:2 [0] NCCL WARN Timeout",
            "torch.distributed.DistBackendError: NCCL error in: x",
            "ncclRemoteError: A call failed",
        ],
        ["a:1:2 [0] NCCL INFO Bootstrap: Using eth0", "NCCL_DEBUG=INFO"],
    ),
    "check-node": (["check-node: /x is not readable: no"], ["the check-node: container"]),
}


@pytest.mark.parametrize("name", LINES)
def test_each_log_query_matches_its_lines(name: str) -> None:
    """Lines as NeMo RL, verl and NCCL write them. Cloud Logging has RE2, which agrees with Python here."""
    queries = blocks((ROOT / "docs/howto/alerts.md").read_text("utf-8"), "text")
    (pattern,) = [found for text in queries for found in re.findall(r'=~"([^"]*)"', text) if name in found]
    wanted, others = LINES[name]
    assert [line for line in [*wanted, *others] if re.search(pattern, line)] == wanted


def test_the_success_message_of_check_node_is_not_matched() -> None:
    """The words stand in the script of the init container."""
    queries = blocks((ROOT / "docs/howto/alerts.md").read_text("utf-8"), "text")
    ((fine,),) = [found for text in queries if (found := re.findall(r'-textPayload:"([^"]*)"', text))]
    said = re.findall(r'echo "(check-node: [^"]*)"', (ROOT / "charts/common/templates/_check.tpl").read_text("utf-8"))
    assert len(said) > 3
    assert [line for line in said if fine in line] == ["check-node: driver folders and NCCL settings are in place"]
