"""All rules that `grpo check` asks: those of the gate, and those that the post-renderer has no time for."""

from __future__ import annotations

from postrender.rules import gate
from postrender.rules.kubernetes import schema
from postrender.rules.kueue import placement, queue
from postrender.rules.nccl import settings
from postrender.rules.network import attachment, profile_of_a_region
from postrender.rules.nodes import fits
from postrender.rules.pods import images, powers, shared_memory, start, zero
from postrender.rules.ray import (
    autoscaler,
    containers,
    deletion,
    fault_tolerance,
    fields,
    groups,
    names,
    own_start,
    rayjob,
    runtime_env,
    scaling,
    schedulers,
    shell,
    submission,
    tokens,
)
from postrender.rules.secrets import shown
from postrender.rules.storage import buckets, lifetime, lustre, references
from postrender.rules.stream import ends_with_block_scalar, placeholder, value_retyped

RULES = (
    *gate.RULES,
    *names.RULES,
    *fields.RULES,
    *scaling.RULES,
    *groups.RULES,
    *containers.RULES,
    *rayjob.RULES,
    *submission.RULES,
    *shell.RULES,
    *deletion.RULES,
    *autoscaler.RULES,
    *tokens.RULES,
    *schedulers.RULES,
    *fault_tolerance.RULES,
    *queue.RULES,
    *attachment.RULES,
    profile_of_a_region.RULE,
    *settings.RULES,
    *shared_memory.RULES,
    *fits.RULES,
    *zero.RULES,
    *lifetime.RULES,
    *buckets.RULES,
    *lustre.RULES,
    *references.RULES,
    *placement.RULES,
    *runtime_env.RULES,
    *own_start.RULES,
    *start.RULES,
    *images.RULES,
    *powers.RULES,
    *shown.RULES,
    placeholder.RULE,
    value_retyped.RULE,
    ends_with_block_scalar.RULE,
    *schema.RULES,
)
