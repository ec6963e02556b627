"""Tracking: what W&B and MLflow should record reaches them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.topic import Topic
from grpo.values.derived import mapping
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

TOPIC: Final = Topic("job", framework="", source="")
_URI: Final = "tracking.mlflow.trackingUri"
_LOCAL: Final = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])([:/]|$)", re.IGNORECASE)


@TOPIC.problem(f"={_URI}", fails=Fails.AT_SETUP, source="nemo_rl/utils/logger.py:852 at v0.7.0", severity=WARNING)
def mlflow_on_the_head(run: RunConfig) -> Iterator[Finding]:
    """tracking.mlflow.trackingUri is a local address, but the head has no MLflow server

    Why: localhost is the head's own pod: the run retries for minutes, then fails at setup with Connection refused
    Fix: use the address of the server's Service, such as http://mlflow.mlflow.svc:5000
    """
    uri = run.value(_URI)
    # In the head of somebody else's cluster a server may run.
    own = not run.value("stack.names.cluster")
    if run.value("tracking.mlflow.enabled") is True and run.trains and own and _LOCAL.match(str(uri)):
        yield Finding(f"{_URI} is {uri}, and the head has no server of MLflow")


@TOPIC.problem(
    "=tracking.wandb.enabled", fails=Fails.SILENT, source="wandb/sdk/wandb_init.py:714 at 0.21.0", severity=WARNING
)
def tracking_disabled(run: RunConfig) -> Iterator[Finding]:
    """tracking is enabled, but a variable switches it off

    Why: W&B records nothing, not even in a file, and the run has no curves
    Fix: remove the variable, or set tracking.wandb.enabled to false; offline writes files that wandb sync uploads
    """
    if run.value("tracking.wandb.enabled") is not True or not run.trains:
        return
    for section in ("job.env", "ray.env", "ray.head.env"):
        entry = mapping(mapping(run.value(section)).get("WANDB_MODE"))
        if entry.get("value") == "disabled":
            what = "tracking.wandb.enabled is true, and WANDB_MODE is disabled"
            yield Finding(what, keys=[f"={section}.WANDB_MODE", "=tracking.wandb.enabled"])
