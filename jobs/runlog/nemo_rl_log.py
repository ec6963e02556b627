"""Read the output of NeMo RL's GRPO.

Sources: nemo_rl/algorithms/grpo.py and print_performance_metrics of nemo_rl/algorithms/utils.py at v0.4.0, v0.5.0,
v0.6.0, v0.7.0 and 7ea279ab; they print the same lines, synchronous and asynchronous, and later versions print more.
The Single Controller, nemo_rl/algorithms/single_controller.py from v0.8.0 on (read at 7ea279ab), prints neither a
step's headers nor its results: it prints the step's times, a dictionary of its measures, and finally its number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import steps
from log_lines import number, words
from steps import Event, Phase, Step, Validation

# A number of more digits is no step, and Python does not read more than 4300.
_HEADER: Final = re.compile(r"={25} (Epoch|Step) (\d{1,18})/(\d{1,18}) ={25}$")
_MEASURE: Final = re.compile(r"• ([^:]+): (\S+?)(s|%)?(?: tokens| steps| \([\d.]+%\))?$")
_RATE: Final = re.compile(r"- (E2E|Generation Worker Group) \(Tokens/sec(/gpu)?\): (\S+)$")
_SAVING: Final = re.compile(r"Saving checkpoint for step (\d{1,18})\.\.\.$")
_VALIDATING: Final = re.compile(r"▶ Starting validation at step (\d{1,18})\.\.\.$")
_SETUP: Final = "▶ Setting up compute cluster..."
_CONTROLLER: Final = "🚀 Launching SingleControllerActor"
_TIMING: Final = "⏱️  Timing:"
_DICTIONARY: Final = "step_metrics={"
_ENTRY: Final = re.compile(r"'(loss|reward|grad_norm|gen_kl_error)': ([^,}]+)")
_TRAINED: Final = re.compile(r"train step (\d{1,18})/(\d{1,18})\s+trainer_v=")
_COMPLETE: Final = "SC run complete:"
_RESULTS: Final = "📊 Training Results:"
_ENDS: Final = ("stopping training early", "Async GRPO training complete!")

_MEASURES: Final = {
    "Loss": "loss",
    "Generation KL Error": "generation_kl",
    "Avg Reward": "reward",
    # With dynamic sampling: of all generations, then of those that are trained on.
    "Avg Total Reward": "reward",
    "Mean Generation Length": "length",
    "Total step time": "seconds",
}
_ENTRIES: Final = {"loss": "loss", "reward": "reward", "grad_norm": "grad_norm", "gen_kl_error": "generation_kl"}
# What is printed among the times of a step, and is no time.
_NO_TIMERS: Final = ("valid_tokens_per_sec_per_gpu",)
TIMERS: Final = {
    "generation": steps.GENERATION,
    "exposed_generation": steps.GENERATION,
    "policy_and_reference_logprobs": steps.LOGPROBS,
    "policy_training": steps.TRAINING,
    "reward_calculation": steps.REWARDS,
    "checkpointing": steps.CHECKPOINT,
    "weight_sync": steps.REFIT,
    "prepare_for_generation/total": steps.REFIT,
}
_VALIDATED: Final = {
    "Accuracy": "reward",
    "Average response length": "length",
    "Total validation time": "seconds",
}


class NemoRl:
    """Turn lines into events; a step is complete at the last line of its throughput, or when the next one starts."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        """Reset the state from the previous process, because another attempt writes into the same log."""
        self.epoch, self.shown, self.validated = 1, 0, 0
        # Steps of the epochs before. A header counts in its epoch; checkpoints and validations count in the run.
        self.before: int | None = None
        self.step: Step | None = None
        self.validation: dict[str, float] | None = None
        self.validation_seconds: float | None = None
        self.phase = steps.LOADING

    @property
    def number(self) -> int:
        """Return the number of the current step, over all epochs; 0 before the first one."""
        return (self.before or 0) + self.shown if self.shown else 0

    def read(self, lines: Iterable[tuple[int, str]]) -> Iterator[Event]:
        """Yield the events of complete lines."""
        for at, line in lines:
            if _may_count(line):
                yield from self._line(at, words(line))

    def end(self) -> Iterator[Event]:
        """Yield the last step if all its results except the throughput are present."""
        yield from self._complete(0)

    def _line(self, at: int, line: str) -> Iterator[Event]:
        first = line[:1]
        if first == "•":
            yield from self._measure(line)
        elif first == "-":
            yield from self._rate(at, line)
        elif first == "=" and (match := _HEADER.match(line)):
            yield from self._header(at, match[1], int(match[2]), int(match[3]))
        elif match := _SAVING.match(line):
            yield from self._enter(steps.CHECKPOINT, int(match[1]))
        elif match := _VALIDATING.match(line):
            self.validation, self.validated = {}, int(match[1])
            yield from self._enter(steps.VALIDATION, self.validated)
        elif line == _RESULTS and self.shown:
            yield from self._results(at)
        elif line in (_SETUP, _CONTROLLER):
            yield from self._complete(at)
            self._start()
            yield Phase(steps.LOADING)
        elif line.endswith(_ENDS) or line.startswith(_COMPLETE):
            yield from self._complete(at)
            yield Phase(steps.ENDED)
        elif not self.shown:
            yield from self._of_controller(at, line)

    def _of_controller(self, at: int, line: str) -> Iterator[Event]:
        """Read what the Single Controller prints after a step; only the last line has the step's number."""
        if line == _TIMING:
            self.step = Step(0, at)
        elif self.step and line.startswith(_DICTIONARY):
            for name, value in _ENTRY.findall(line):
                setattr(self.step, _ENTRIES[name], number(value))
        elif self.step and (match := _TRAINED.match(line)):
            self.step.number, last = int(match[1]), int(match[2])
            following = self.step.number + 1
            yield from self._complete(at)
            if following <= last:
                self.phase = steps.STEP
                yield Phase(steps.STEP, following)

    def _header(self, at: int, what: str, count: int, of: int) -> Iterator[Event]:
        """Begin an epoch or a step; dynamic sampling prints a step's header again for each batch that it tries."""
        yield from self._complete(at)
        if what == "Epoch":
            self.epoch, self.before, self.shown = count, None, 0
            return
        self.shown, self.validation_seconds = count, None
        if self.before is None:
            self.before = (self.epoch - 1) * of
        yield from self._back()

    def _enter(self, phase: str, step: int) -> Iterator[Event]:
        """Enter a phase whose line has the step's number over all epochs."""
        if self.shown:
            self.before = step - self.shown
        self.phase = phase
        yield Phase(phase, step)

    def _back(self) -> Iterator[Event]:
        self.phase = steps.STEP if self.shown else steps.LOADING
        yield Phase(self.phase, self.number or None)

    def _results(self, at: int) -> Iterator[Event]:
        if self.phase != steps.STEP:
            yield from self._back()
        self.step, self.validation = Step(self.number, at), None
        if self.validation_seconds is not None:
            self.step.phases[steps.VALIDATION] = self.validation_seconds

    def _measure(self, line: str) -> Iterator[Event]:
        match = _MEASURE.match(line)
        value = number(match[2]) if match else None
        if match is None or value is None:
            return
        name, of_timer = match[1], match[3] == "s" and line.endswith("%)")
        if self.validation is not None and name in _VALIDATED:
            self.validation[_VALIDATED[name]] = value
            yield from self._validation_done()
        elif self.step is None:
            return
        elif name in _MEASURES:
            setattr(self.step, _MEASURES[name], value)
        elif of_timer and name not in _NO_TIMERS:
            # Timers are sorted by time, and those of one name contain each other.
            self.step.phases.setdefault(TIMERS.get(name, name), value)

    def _validation_done(self) -> Iterator[Event]:
        if self.validation and "seconds" in self.validation:
            self.validation_seconds = self.validation["seconds"]
            found = Validation(self.validated, **self.validation)
            self.validation = None
            yield found
            yield from self._back()

    def _rate(self, at: int, line: str) -> Iterator[Event]:
        if not self.step or not (match := _RATE.match(line)):
            return
        if match[1] == "E2E" and match[2]:
            self.step.tokens_per_second_per_gpu = number(match[3])
        elif match[1] != "E2E" and not match[2]:
            yield from self._complete(at)

    def _complete(self, at: int) -> Iterator[Event]:
        """Yield the current step if it has its results; without a time, its remaining lines were lost."""
        step, self.step = self.step, None
        if step and step.number and step.seconds is not None:
            step.line = step.line or at
            yield step


def _may_count(line: str) -> bool:
    """Return whether a line may be relevant; most are not, and this is much faster than a regular expression."""
    return (
        "•" in line
        or "=====" in line
        or "▶" in line
        or "📊" in line
        or "Tokens/sec" in line
        or "Saving checkpoint" in line
        or "training" in line
        or "⏱" in line
        or _DICTIONARY in line
        or "trainer_v=" in line
        or _COMPLETE in line
        or "SingleController" in line
    )
