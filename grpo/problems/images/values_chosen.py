"""The image contains the framework that the run uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.topic import Topic
from grpo.values import images
from postrender.finding import Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

TOPIC: Final = Topic("job", framework="", source="")
_REPOSITORY: Final = "images.training.repository"


@TOPIC.problem(f"={_REPOSITORY} =job.framework", fails=Fails.AT_SETUP, source="values/recipes at 0.1.0")
def image_of_another_framework(run: RunConfig) -> Iterator[Finding]:
    """the image is for a different framework than job.framework

    Why: the driver cannot find the framework, so the job ends after every pod has started and while GPUs are billed
    Fix: use the framework's image, or correct job.framework
    """
    repository = run.value(_REPOSITORY)
    owner = images.framework_of(repository)
    if owner and owner != run.framework:
        own = images.of_version(run.framework, run.version)
        fix = f"write images.training.repository {own['repository']} and tag {own['tag']}, or job.framework {owner}"
        what = f"{_REPOSITORY} is {repository}, an image of {owner}, and job.framework is {run.framework}"
        yield Finding(what, keys=[f"={_REPOSITORY}", "=job.framework"], fix=fix)
