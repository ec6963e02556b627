"""Draw as text which GPUs train and which generate: one row per node, one column per GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from grpo.plan.setup import Generator, Layout, Setup

# More nodes are drawn as the first ones and the last one.
_MOST: Final = 6
_LETTERS: Final = {"data": "d", "context": "c", "tensor": "t", "pipeline": "p"}


def picture(setup: Setup) -> Iterator[str]:
    """Yield the lines: d, c, t and p are a GPU's training ranks, e is its vLLM engine."""
    trainer, generator, machine = setup.trainer.layout, setup.generator, setup.machine
    cells = [_trains(trainer, rank) for rank in range(trainer.gpus)]
    generates = [_generates(generator, rank) for rank in range(generator.gpus)]
    if generator.colocated:
        cells = [f"{one} {other}".strip() for one, other in zip(cells, generates, strict=True)]
    else:
        cells += generates
    rows = [cells[start : start + machine.gpus] for start in range(0, len(cells), machine.gpus)]
    width = max(len(cell) for cell in cells)
    yield f"{'':8} " + "  ".join(f"GPU {number}".ljust(width) for number in range(len(rows[0]))).rstrip()
    for name, row in _shown(rows):
        yield f"{name:8} " + "  ".join(cell.ljust(width) for cell in row).rstrip()
    yield f"{'':8} {_legend(trainer, setup.generator)}"


def _shown(rows: Sequence[Sequence[str]]) -> Iterator[tuple[str, Sequence[str]]]:
    for number, row in enumerate(rows):
        if len(rows) <= _MOST or number < _MOST - 2 or number == len(rows) - 1:
            yield f"node {number}", row
        elif number == _MOST - 2:
            yield "…", [f"{len(rows) - _MOST + 1} more nodes"]


def _ranks(layout: Layout) -> dict[str, int]:
    """Return the parallel sizes, starting with the one whose ranks are adjacent."""
    sizes = {"tensor": layout.tensor, "context": layout.context, "data": layout.data, "pipeline": layout.pipeline}
    return {name: size for name, size in sizes.items() if size > 1 or name == "data"}


def _trains(layout: Layout, rank: int) -> str:
    """Return a GPU's ranks in the parallel groups; in PyTorch's and in Megatron's mesh, tensor ranks are innermost."""
    place = {}
    for name, size in _ranks(layout).items():
        rank, place[name] = divmod(rank, size)
    return " ".join(f"{letter}{place[name]}" for name, letter in _LETTERS.items() if name in place)


def _generates(generator: Generator, rank: int) -> str:
    return f"e{rank // (generator.tensor * generator.pipeline)}"


def _legend(layout: Layout, generator: Generator) -> str:
    """Return what the letters mean."""
    names = [f"{letter} {name}" for name, letter in _LETTERS.items() if name in _ranks(layout)]
    where = "both on every GPU" if generator.colocated else "on GPUs of their own"
    return f"training: {', '.join(names)} rank; generation: e engine; {where}; the driver needs no GPU"
