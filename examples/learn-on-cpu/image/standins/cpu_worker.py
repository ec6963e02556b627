"""Give the training worker what the stand-in for vLLM needs: its weights as whole tensors."""

from __future__ import annotations

from typing import Any


def whole_weights(worker: Any) -> dict[str, Any]:
    """Return a copy of the weights, gathered from all shards."""
    from torch.distributed.tensor import DTensor

    return {
        name: (weight.full_tensor() if isinstance(weight, DTensor) else weight).detach().clone()
        for name, weight in worker.model.state_dict().items()
    }


def change(module: Any) -> None:
    """Change nemo_rl.models.policy.workers.dtensor_policy_worker."""
    module.DTensorPolicyWorkerImpl.whole_weights = whole_weights
    module.DTensorPolicyWorkerImpl.report_device_id = lambda _worker: "cpu"
