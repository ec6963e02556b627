"""Name what no rule can judge about a stack, so that nobody assumes it is clean."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from grpo.lint.linter import described_run
from grpo.plan import planner
from grpo.plan.setup import NotModelledError
from grpo.problems.rewards import values_own_code as own_code
from grpo.problems.storage import values_paths
from grpo.values import images, models
from grpo.values.config import RunConfig
from grpo.values.derived import mapping
from grpo.values.reference_errors import UnknownError
from postrender.errors import InputError
from postrender.values import profiles
from postrender.values.merge import Values


def of(values: Values) -> Iterator[str]:
    """Yield what the rules cannot judge, each with its reason."""
    try:
        name = model_name(values)
    except InputError:
        yield "the model (the values do not name it)"
    else:
        if models.load(name) is None:
            yield f"model {name} (its sizes are not known; give its config.json with --model-config)"
    yield from _image(values)
    yield from _engine(values)
    cluster = values.get("stack.names.cluster")
    if cluster and values.get("job.cluster.mode") != "ephemeral":
        yield f"cluster {cluster} (made by somebody else; grpo check compares its manifest)"
    if values.get("stack.wiring.enabled") is False:
        yield "the wiring (grpo-post-render adds it)"
    if any(mapping(entry).get("file") for entry in mapping(values.get("job.rewards")).values()):
        yield "what the files of job.rewards return (rewards are not executed: grpo try-reward)"
    for name, entry in mapping(values.get("job.rewards")).items():
        text = mapping(entry).get("file")
        if isinstance(text, str) and own_code.is_too_deep(text):
            yield f"the code of reward {name} (it is nested too deeply: split its longest expression)"
    yield from of_nodes(values)
    yield from _checkpoints(values)
    yield from _memory(values)


def _checkpoints(values: Values) -> Iterator[str]:
    """Yield that the number of checkpoints hangs on rows that nobody has counted."""
    run = described_run(values)
    with contextlib.suppress(NotModelledError, UnknownError):
        if run and run.trains and planner.unjudged(planner.checkpoints(run)[1]):
            yield "how many checkpoints the run keeps (that follows from its rows: grpo plan --data train=FILE)"


def rows(values: Values) -> Iterator[str]:
    """Yield that the rows of the user's own files have not been read."""
    run = described_run(values)
    if run and run.trains and (files := values_paths.own_data(run)):
        yield f"the rows of {', '.join(files)} (grpo lint --data train=FILE reads a copy)"


def of_nodes(values: Values) -> Iterator[str]:
    """Yield what is unknown about the machine's nodes."""
    labels = {key: {str(value)} for key, value in mapping(values.get("accelerator.nodeSelector")).items()}
    known = profiles.chosen(labels)
    if values.get("accelerator.worker") and not (known and all(each.cpu and each.memory for each in known)):
        yield "whether a worker fits on its node (no profile says what such a node offers: grpo doctor)"


def _image(values: Values) -> Iterator[str]:
    """Yield what is unknown about an image that is neither public nor a copy of a public one."""
    repository, tag = (values.get(f"images.training.{key}") for key in ("repository", "tag"))
    if not repository or images.is_copy(repository, tag):
        return
    run = described_run(values)
    if run is None or not run.trains or images.is_without_framework(repository, has_code=False):
        return
    code = mapping(run.value("job.code"))
    framework = f"{'verl' if run.framework == 'verl' else 'NeMo RL'} {run.version}"
    has_code = run.framework == "verl" and (code.get("repository") or mapping(code.get("packages")).get("verl"))
    has = f"what {framework} needs" if has_code else framework
    yield f"whether {repository}:{tag} has {has} (it is not one of the public images)"


def _engine(values: Values) -> Iterator[str]:
    """Yield a note if NeMo RL generates with an engine other than vLLM; for verl, a rule warns about it."""
    run = described_run(values)
    if run and run.trains and run.framework == "nemo-rl" and run.at("policy.generation.backend") == "sglang":
        yield "generation with sglang (not supported: nothing of it was tried)"


def _memory(values: Values) -> Iterator[str]:
    """Yield what is unknown about the GPUs' memory."""
    run = described_run(values)
    planned = planner.plan(run) if run else None
    if planned is None or planned.reason.startswith("the model "):
        # The model that is not known is named already.
        yield "whether it fits into the GPUs' memory"
    elif planned.setup is None:
        yield f"whether it fits into the GPUs' memory ({planned.reason})"
    else:
        yield f"the memory of a real GPU (computed: {planned.verdict}; see grpo plan)"


def model_name(values: Values) -> str:
    """Return the name of the run's model; raise InputError if the values do not set it."""
    return name_in(described_run(values))


def name_in(run: RunConfig | None) -> str:
    """Return the name of a run's model; raise InputError if its values do not set it."""
    name = run.model if run else None
    if not isinstance(name, str):
        raise InputError("the values name no model, so --model-config belongs to none", fix="name it in job.config")
    return name
