"""Write a plan as text, as Markdown or as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grpo.plan import host, planner
from grpo.plan.phase import DOES_NOT_FIT, FITS, NOT_MODELLED, TIGHT
from grpo.report import topology
from grpo.values.config import OF_VALUES
from postrender import visible
from postrender.counting import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from grpo.plan.advice.changes import Change, Saving
    from grpo.plan.advice.limits import Limit
    from grpo.plan.cost import Cost
    from grpo.plan.phase import Phase
    from grpo.plan.planner import Plan
    from grpo.plan.setup import Setup
    from postrender.finding import Finding
    from postrender.types import Json

FORMATS: Final = ("text", "json", "markdown")
_NOT_COUNTED: Final = "the rows of the data, which give the steps, are not known: --data train=FILE counts them"
_HEAD: Final = ("phase", "verdict", "worst case", "of a GPU", "micro batch")
ASSUMPTIONS: Final = (
    "computed, not measured: a sum of formulas, within 10 % of PyTorch's own count for dense models with FSDP2",
    "worst case: every sequence is as long as it may be; realistic: a quarter of that",
    "a plan fits below 85 % of the usable memory; with experts or Megatron, of which less was checked, below 75 %",
)


class Answer(NamedTuple):
    """The result of `grpo plan` for a run: the plan, its cost, the limits, what helps, and the errors in its values.

    `data` names what the model is trained on.
    """

    plan: Plan
    data: str = ""
    cost: Cost | None = None
    limits: Sequence[Limit] = ()
    changes: Sequence[Change] = ()
    savings: Sequence[Saving] = ()
    errors: Sequence[Finding] = ()

    @property
    def verdict(self) -> str:
        """Return the plan's verdict; a run whose values have errors never counts as fitting."""
        return NOT_MODELLED if self.errors and self.plan.verdict == FITS else self.plan.verdict

    @property
    def reason(self) -> str:
        """Return why the run is not modelled; empty if it is modelled."""
        if not self.errors or self.verdict != NOT_MODELLED:
            return self.plan.reason
        as_read = f"as they were read, the run {FITS}" if self.plan.verdict == FITS else self.plan.reason
        return f"the values have errors; {as_read}"

    @property
    def is_bad(self) -> bool:
        """Return whether the run does not fit, or whether errors in its values may make it a different run."""
        return bool(self.errors) or self.verdict == DOES_NOT_FIT


def write(answer: Answer, form: str, *, explain: bool = False) -> str:
    """Return an answer in the given format; `explain` adds every item with its formula and source."""
    if form == "json":
        return json.dumps(tree(answer), indent=2) + "\n"
    return visible.lines(_lines(answer, markdown=form == "markdown", explain=explain))


def _lines(answer: Answer, *, markdown: bool, explain: bool) -> Iterator[str]:
    plan = answer.plan
    fence = ["```"] if markdown else []
    if plan.setup is None:
        yield from [*_errors(answer, fence), f"{NOT_MODELLED}: {answer.reason}"]
        return
    yield from [*fence, *_topology(plan.setup, answer.data), "", *topology.picture(plan.setup), *fence, ""]
    rows = [_row(each.phase, each.verdict) for each in plan.phases]
    yield from markdown_table(_HEAD, rows) if markdown else text_table(_HEAD, rows)
    if explain:
        for each in plan.phases:
            yield from ["", *fence, each.phase.name, *_items(each.phase), *fence]
    yield from ["", *fence, *_below(plan, plan.setup), *_limits(answer)]
    if answer.cost:
        yield from _cost(answer.cost)
    yield from fence
    if answer.changes:
        yield from ["", "what helps, the best first:"]
        for change in answer.changes:
            yield from _change(change)
    if answer.savings:
        yield from ["", "what needs fewer GPUs:"]
        for saving in answer.savings:
            yield from _saving(saving, answer.cost)
    yield from ["", *_errors(answer, fence)]
    setup = answer.plan.setup
    left = f"; not judged: {left}" if setup and (left := planner.unjudged(setup.checkpoint)) else ""
    yield f"{': '.join(filter(None, (answer.verdict, answer.reason)))} (computed, not measured){left}"


def _errors(answer: Answer, fence: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with the values, then an empty line; nothing if they have no errors."""
    if answer.errors:
        told = (f"  {error_line(each)}" for each in answer.errors)
        yield from ["the values have errors, so the run may be another one (see grpo explain ID):", *fence, *told]
        yield from [*fence, ""]


def error_line(error: Finding) -> str:
    """Return an error in the values as one line, in the style of grpo lint; a bare configuration has no locations."""
    return f"{f'{error.at}: ' if error.at.file else ''}{error.what}  [{error.rule}]"


def _limits(answer: Answer) -> Iterator[str]:
    """Yield the limits; each holds with everything else unchanged."""
    if answer.limits:
        is_tight = answer.plan.verdict == TIGHT
        shown = [f"{each.what}: {_limit(each, is_tight=is_tight)} (now {each.now})" for each in answer.limits]
        yield f"limits       {', '.join(shown)}"


def _limit(limit: Limit, *, is_tight: bool) -> str:
    if limit.fits is None:
        return "none fits in the worst case" if is_tight else "none fits"
    return f"{limit.fits}" if limit.is_whole else f"{limit.fits} or more"


def _cost(cost: Cost) -> Iterator[str]:
    yield f"cost         {cost.hour:,.2f} $ an hour, busy or idle; {cost.day:,.0f} $ a day ({cost.gpus} GPUs)"
    if cost.step_time and cost.step is not None:
        whole = f"; {cost.run:,.0f} $ for {cost.steps} steps" if cost.run is not None else ""
        yield f"             {cost.step:,.2f} $ a step of {cost.step_time.seconds:g} s ({cost.step_time.source}){whole}"


def _change(change: Change) -> Iterator[str]:
    """Yield what to change and its cost, then the loads before and after."""
    training = "changes the training: " if change.changes_training else ""
    yield f"- {_edits(change.edits)}: {change.verdict} ({training}{', '.join(change.costs)})"
    effects = [f"{name} {before.peak} → {after.peak}" for name, (before, after) in change.improved.items()]
    yield f"  {', '.join(effects)}"


def _saving(saving: Saving, cost: Cost | None) -> Iterator[str]:
    """Yield what to change and on how many GPUs the run then fits, followed by their price."""
    yield f"- {_edits(saving.edits)}: {FITS} on {saving.after} GPUs instead of {saving.now} ({saving.costs})"
    if cost:
        yield f"  {cost._replace(gpus=saving.after).hour:,.2f} $ an hour instead of {cost.hour:,.2f} $"


def _edits(edits: Mapping[str, Json]) -> str:
    return ", ".join(f"{key.removeprefix(OF_VALUES)}={_word(value)}" for key, value in edits.items())


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _topology(setup: Setup, data: str) -> Iterator[str]:
    """Yield the model, the machines, and how training and generation use the GPUs."""
    machine, layout, generator, batch = setup.machine, setup.trainer.layout, setup.generator, setup.batch
    billions = f"{setup.parameters.total / 1e9:.1f} billion parameters"
    yield f"model        {setup.model.name}, {billions}" + (f"; data: {data}" if data else "")
    yield f"machines     {machine.nodes} × {machine.gpus} GPUs {machine.name}, {machine.gpu} of each usable"
    sizes = {
        "data": layout.data,
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
        "context": layout.context,
        "expert": layout.expert,
    }
    split = " × ".join(f"{name} {size}" for name, size in sizes.items() if size > 1 or name == "data")
    yield f"training     {layout.gpus} GPUs, {setup.trainer.engine}: {split}"
    place = "the same GPUs" if generator.colocated else f"{generator.gpus} other GPUs"
    each = generator.tensor * generator.pipeline
    yield f"generation   {place}, vLLM engines: {generator.engines}, each of {each} GPU{'s' if each > 1 else ''}"
    sequences = batch.prompts * batch.generations
    micro = f", each {batch.micro_batches} micro batches of {batch.micro_batch} on a GPU" if batch.micro_batches else ""
    step = f"{batch.prompts} prompts × {batch.generations} answers = {sequences} sequences"
    updates = f"{batch.updates} update{'s' if batch.updates > 1 else ''} of {batch.global_batch}"
    yield f"step         {step}, {updates}{micro}"


def _row(phase: Phase, verdict: str) -> tuple[str, ...]:
    most, micro = phase.max_tokens, ""
    if most is not None:
        micro = f"{phase.worst} tokens, fits up to {most}"
    return phase.name, verdict, str(phase.peak), f"{phase.peak.share(phase.usable):.0%}", micro


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a table with columns of equal width."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a table in Markdown."""
    for row in (head, ("---",) * len(head), *rows):
        yield f"| {' | '.join(row)} |"


def _items(phase: Phase) -> Iterator[str]:
    for item in phase.items:
        yield f"  {item.at(phase.worst)!s:>10}  {item.name}: {item.formula} ({item.source})"


def _below(plan: Plan, setup: Setup) -> Iterator[str]:
    """Yield the lines on the KV cache, the node's memory and the checkpoints."""
    if cache := plan.cache:
        limit = f", {cache.limit} of them at a time (max_num_seqs)" if cache.limit < cache.wanted else ""
        longest = f"{cache.concurrent} sequences of {setup.generator.length} tokens at a time"
        yield f"KV cache     {cache.size} a GPU: an engine holds {longest}, and a step gives it {cache.wanted}{limit}"
    if setup.machine.host:
        yield f"node memory  {host.verdict(setup)}: {host.peak(setup)} of {setup.machine.host}"
    else:
        yield f"node memory  {host.peak(setup)}; the memory of a node is not known"
    if store := host.store(setup):
        yield f"Ray objects  {host.objects_verdict(setup)}: {host.objects(setup)} a step, {store} of a node's /dev/shm"
    size, kept = planner.checkpoint(setup), setup.checkpoint.kept
    if kept != 0:
        room = f"; {setup.checkpoint.key} is {setup.checkpoint.volume}" if setup.checkpoint.volume else ""
        if kept:
            many = f"{kept} of {size} at the same time, {size * kept}"
        else:
            saved = setup.checkpoint
            many = f"each takes {size}, one every {counted(saved.period, 'step')}; {_NOT_COUNTED}"
            room += f", room for {int(saved.volume.count // size.count)}" if saved.volume and size.count else ""
        yield f"checkpoints  {many}{room}"


def tree(answer: Answer) -> dict[str, Any]:
    """Return an answer's JSON object; sizes are in GiB."""
    plan, cost = answer.plan, answer.cost
    errors = [_error(each) for each in answer.errors]
    if plan.setup is None:
        return {
            "verdict": NOT_MODELLED,
            "reason": answer.reason,
            "phases": [],
            "errors": errors,
            "assumptions": list(ASSUMPTIONS),
        }
    setup, cache = plan.setup, plan.cache
    found: dict[str, Any] = {
        "verdict": answer.verdict,
        "model": {"name": setup.model.name, "parameters": setup.parameters.total},
        "data": answer.data,
        "usableGiB": _gib(setup.machine.gpu.gib),
        "phases": [
            {
                "name": each.phase.name,
                "verdict": each.verdict,
                "peakGiB": _gib(each.phase.peak.gib),
                "items": {item.name: _gib(item.at(each.phase.worst).gib) for item in each.phase.items},
                "tokens": each.phase.worst,
                "maxTokens": each.phase.max_tokens,
            }
            for each in plan.phases
        ],
        "host": {
            "verdict": host.verdict(setup),
            "peakGiB": _gib(host.peak(setup).gib),
            "items": {item.name: _gib(item.fixed.gib) for item in host.items(setup)},
        },
        "sharedMemory": {
            "verdict": host.objects_verdict(setup),
            "objectsGiB": _gib(host.objects(setup).gib),
            "roomGiB": _gib(store.gib) if (store := host.store(setup)) else None,
        },
        "checkpoint": {
            "verdict": planner.volume(setup),
            "sizeGiB": _gib(planner.checkpoint(setup).gib),
            "kept": setup.checkpoint.kept,
        },
        "notJudged": [each for each in [planner.unjudged(setup.checkpoint)] if each],
        "limits": [{"what": each.what, "key": each.key, "now": each.now, "fits": each.fits} for each in answer.limits],
        "changes": [
            {
                "edits": {key.removeprefix(OF_VALUES): value for key, value in each.edits.items()},
                "verdict": each.verdict,
                "changesTraining": each.changes_training,
                "costs": list(each.costs),
                "effects": {
                    name: {"beforeGiB": _gib(before.peak.gib), "afterGiB": _gib(after.peak.gib)}
                    for name, (before, after) in each.improved.items()
                },
            }
            for each in answer.changes
        ],
        "savings": [
            {
                "edits": {key.removeprefix(OF_VALUES): value for key, value in each.edits.items()},
                "costs": [each.costs],
                "gpus": each.after,
                "gpusNow": each.now,
            }
            for each in answer.savings
        ],
        "errors": errors,
        "assumptions": list(ASSUMPTIONS),
    }
    if answer.reason:
        found["reason"] = answer.reason
    if cache:
        found["generation"] = {
            "engines": cache.engines,
            "concurrent": cache.concurrent,
            "kvCacheGiB": _gib(cache.size.gib),
        }
    if cost:
        found["cost"] = {
            "gpus": cost.gpus,
            "pricePerGpuHour": cost.price,
            "hour": cost.hour,
            "day": cost.day,
            "step": cost.step,
            "run": cost.run,
        }
    return found


def _error(error: Finding) -> dict[str, Any]:
    place = {"file": error.at.file, "line": error.at.line, "col": error.at.col} if error.at.file else {}
    return {"rule": error.rule, **place, "what": error.what}


def _gib(size: float) -> float:
    return round(size, 2)
