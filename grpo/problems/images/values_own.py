"""An image that is not one of the frameworks' public ones: what its name and tag say about its content."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.topic import Topic
from grpo.values import catalogue, images
from grpo.values.derived import mapping
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

TOPIC: Final = Topic("job", framework="", source="")
_REPOSITORY: Final = "images.training.repository"
_TAG: Final = "images.training.tag"
_RELEASE: Final = re.compile(r"(v\d+\.\d+\.\d+)(?:[-_.+]|$)")
_NAME: Final = {"nemo-rl": "NeMo RL", "verl": "verl"}


@TOPIC.problem(
    f"={_REPOSITORY} ={_TAG} =job.framework =job.version",
    fails=Fails.AT_SETUP,
    source="values/recipes at 0.1.0",
    severity=WARNING,
)
def image_named_otherwise(run: RunConfig) -> Iterator[Finding]:
    """the name or tag of your own image says another framework or version than the run has

    Why: if the name is right, the driver finds no framework, or fails in another version of it, while GPUs are billed
    Fix: use an image built for this framework and version; if this image is one, accept the finding in checks.ignore
    """
    repository, tag = str(run.value(_REPOSITORY)), str(run.value(_TAG))
    owner = images.named_after(repository)
    if not run.trains or not owner or images.framework_of(repository) not in ("", run.framework):
        # Another rule refuses what is exactly the name of the other framework's image.
        return
    if owner != run.framework:
        what = f"{_REPOSITORY} is {repository}, by its name an image with {_NAME[owner]}"
        yield Finding(f"{what}, and job.framework is {run.framework}", keys=[f"={_REPOSITORY}", "=job.framework"])
        return
    release = _RELEASE.match(tag)
    is_own = run.framework == "nemo-rl" and not images.framework_of(repository)
    # Any other number may be a version of the image itself.
    if release and is_own and release[1] != run.version and release[1] in catalogue.versions("nemo-rl"):
        yield Finding(f"{_TAG} is {tag}, and job.version {run.version}", keys=[f"={_TAG}", "=job.version"])


@TOPIC.problem(f"={_REPOSITORY}", fails=Fails.AT_SETUP, source="values/recipes at 0.1.0", severity=WARNING)
def image_without_framework(run: RunConfig) -> Iterator[Finding]:
    """the image does not contain the run's framework

    Why: the driver cannot find the framework, so the job ends after every pod has started and while GPUs are billed
    Fix: use the framework's image, as the recipes do, or an image built on it
    """
    repository, code = run.value(_REPOSITORY), mapping(run.value("job.code"))
    has_code = bool(code.get("repository") or mapping(code.get("packages")).get("verl"))
    if run.trains and images.is_without_framework(repository, has_code=has_code):
        own = images.of_version(run.framework, run.version)
        fix = f"write images.training.repository {own['repository']} and tag {own['tag']}, or one built on it"
        lacks = "vLLM" if has_code else _NAME.get(run.framework, run.framework)
        what = f"{_REPOSITORY} is {repository}, a public image without {lacks}"
        yield Finding(what, keys=[f"={_REPOSITORY}"], fix=fix)
