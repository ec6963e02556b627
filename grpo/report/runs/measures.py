"""The per-step measures that a report shows."""

from __future__ import annotations

from typing import Final, NamedTuple


class Measure(NamedTuple):
    """A measure: its field in `Step`, its title, its unit, and its number format."""

    name: str
    title: str
    unit: str = ""
    form: str = "{:.3g}"

    @property
    def label(self) -> str:
        """Return the title with the unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def text(self, value: float) -> str:
        """Format a number as in the report."""
        return self.form.format(value)


SECONDS: Final = Measure("seconds", "Time of a step", "s", "{:.1f}")
# In the order of the page; each has a graph. The time has one of its own, by phase.
MEASURES: Final = (
    Measure("reward", "Reward", form="{:.4f}"),
    Measure("length", "Length of the answers", "tokens", "{:.0f}"),
    Measure("truncated", "Truncated answers", "share", "{:.1%}"),
    Measure("kl", "KL from the reference model"),
    Measure("generation_kl", "KL between policy and generation"),
    Measure("importance_ratio", "Importance ratio", form="{:.3f}"),
    Measure("entropy", "Entropy"),
    Measure("grad_norm", "Gradient norm"),
    Measure("loss", "Loss"),
    Measure("tokens_per_second_per_gpu", "Throughput of a GPU", "tokens/s", "{:.0f}"),
    Measure("memory_gib", "Memory of a GPU, highest", "GiB", "{:.1f}"),
)
