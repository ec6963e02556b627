"""Write a plan as text, as Markdown or as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from postrender.plan import host, planner
from postrender.plan.phase import NOT_MODELLED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from postrender.plan.cost import Cost
    from postrender.plan.phase import Phase
    from postrender.plan.planner import Plan
    from postrender.plan.setup import Setup

FORMATS: Final = ("text", "json", "markdown")
_HEAD: Final = ("phase", "verdict", "worst case", "of a GPU", "micro batch")
ASSUMPTIONS: Final = (
    "computed, not measured: a sum of formulas, within 10 % of PyTorch's own count for dense models with FSDP2",
    "worst case: every sequence is as long as it may be; realistic: a quarter of that",
    "a plan fits below 85 % of the usable memory; with experts or Megatron, of which less was checked, below 75 %",
)


def write(plan: Plan, form: str, *, explain: bool = False, cost: Cost | None = None) -> str:
    """Return a plan in a format; `explain` adds every item with its formula and source."""
    if form == "json":
        return json.dumps(_tree(plan, cost), indent=2) + "\n"
    lines = _lines(plan, markdown=form == "markdown", explain=explain, cost=cost)
    return "\n".join(lines) + "\n"


def _lines(plan: Plan, *, markdown: bool, explain: bool, cost: Cost | None) -> Iterator[str]:
    if plan.setup is None:
        yield f"{NOT_MODELLED}: {plan.reason}"
        return
    setup = plan.setup
    yield from _topology(setup)
    yield ""
    rows = [_row(each.phase, each.verdict) for each in plan.phases]
    yield from _markdown_table(rows) if markdown else _text_table(rows)
    if explain:
        for each in plan.phases:
            yield from ["", each.phase.name, *_items(each.phase)]
    yield ""
    yield from _below(plan, setup)
    if cost:
        yield f"cost         {cost.hour:,.2f} $ an hour, busy or idle; {cost.day:,.0f} $ a day ({cost.gpus} GPUs)"
    yield ""
    yield f"{plan.verdict} (computed, not measured)"


def _topology(setup: Setup) -> Iterator[str]:
    """Yield who does what."""
    machine, layout, generator, batch = setup.machine, setup.trainer.layout, setup.generator, setup.batch
    billions = f"{setup.parameters.total / 1e9:.1f} billion parameters"
    yield f"model        {setup.model.name}, {billions}"
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


def _text_table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in (_HEAD, *rows)) for column in range(len(_HEAD))]
    for row in (_HEAD, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _markdown_table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    for row in (_HEAD, ("---",) * len(_HEAD), *rows):
        yield f"| {' | '.join(row)} |"


def _items(phase: Phase) -> Iterator[str]:
    for item in phase.items:
        yield f"  {item.at(phase.worst)!s:>10}  {item.name}: {item.formula} ({item.source})"


def _below(plan: Plan, setup: Setup) -> Iterator[str]:
    """Yield the KV cache, the node's memory and the checkpoints."""
    if cache := plan.cache:
        longest = f"{cache.concurrent} sequences of {setup.generator.length} tokens at a time"
        yield f"KV cache     {cache.size} a GPU, {longest} an engine; a step has {cache.wanted} for each"
    of = f" of {setup.machine.host}" if setup.machine.host else ""
    yield f"node memory  {host.verdict(setup)}: {host.peak(setup)}{of}"
    if store := host.store(setup):
        yield f"Ray objects  up to {store} of a node, in /dev/shm"
    if setup.checkpoint.kept:
        size, kept = planner.checkpoint(setup), setup.checkpoint.kept
        room = f"; {setup.checkpoint.key} is {setup.checkpoint.volume}" if setup.checkpoint.volume else ""
        yield f"checkpoints  {kept} of {size} at the same time, {size * kept}{room}"


def _tree(plan: Plan, cost: Cost | None) -> dict[str, Any]:
    """Return the JSON of a plan; sizes are in GiB."""
    if plan.setup is None:
        return {"verdict": NOT_MODELLED, "reason": plan.reason, "phases": [], "assumptions": list(ASSUMPTIONS)}
    setup, cache = plan.setup, plan.cache
    tree: dict[str, Any] = {
        "verdict": plan.verdict,
        "model": {"name": setup.model.name, "parameters": setup.parameters.total},
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
            "objectsGiB": _gib(store.gib) if (store := host.store(setup)) else None,
            "items": {item.name: _gib(item.fixed.gib) for item in host.items(setup)},
        },
        "checkpoint": {
            "verdict": planner.volume(setup),
            "sizeGiB": _gib(planner.checkpoint(setup).gib),
            "kept": setup.checkpoint.kept,
        },
        "assumptions": list(ASSUMPTIONS),
    }
    if cache:
        tree["generation"] = {
            "engines": cache.engines,
            "concurrent": cache.concurrent,
            "kvCacheGiB": _gib(cache.size.gib),
        }
    if cost:
        tree["cost"] = {"gpus": cost.gpus, "pricePerGpuHour": cost.price, "hour": cost.hour, "day": cost.day}
    return tree


def _gib(size: float) -> float:
    return round(size, 2)
