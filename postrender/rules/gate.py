"""The rules that a stream must pass before it reaches a cluster."""

from __future__ import annotations

from postrender.rules.nccl import tuner_of_another_machine
from postrender.rules.network import interfaces_of_another_machine
from postrender.rules.nodes import another_accelerator, host_path_without_type
from postrender.rules.pods import duplicate_merge_key, gpu_container_not_first
from postrender.rules.secrets import literal_token
from postrender.rules.stream import object_twice

RULES = (
    interfaces_of_another_machine.RULE,
    tuner_of_another_machine.RULE,
    gpu_container_not_first.RULE,
    duplicate_merge_key.RULE,
    object_twice.RULE,
    literal_token.RULE,
    host_path_without_type.RULE,
    another_accelerator.RULE,
)
