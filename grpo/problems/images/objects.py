"""The image that a pod runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.pods.podspec import Container, PodView, each_container
from postrender.finding import INFO, WARNING
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.pods.podspec import Found

# A placeholder is not an image name.
_UNKNOWN: Final = frozenset("{}<>$")
_MOVING: Final = ("latest", "nightly", "main", "master", "edge", "develop", "dev")
_SOURCE: Final = "https://kubernetes.io/docs/concepts/containers/images/#image-names"


def _tag(image: str) -> str:
    """Describe why an image is not pinned; return an empty text if it is."""
    name, at, _ = image.partition("@")
    if at or not name or any(each in _UNKNOWN or each.isspace() for each in name):
        return ""
    tag = name.rpartition("/")[2].partition(":")[2]
    if not tag:
        return "no tag, which is latest"
    last = tag.lower().replace(".", "-").replace("_", "-").rpartition("-")[2]
    return f"the tag {tag}" if last in _MOVING else ""


def _unpinned(container: Container) -> Found:
    image = container.spec.get("image")
    reason = _tag(image) if isinstance(image, str) else ""
    if reason:
        yield (*container.path, "image"), f"the image of container {container.name} has {reason}"


def _training(pod: PodView, container: Container) -> Found:
    yield from _unpinned(container)


def _others(pod: PodView, container: Container) -> Found:
    if not pod.trains:
        yield from _unpinned(container)


def _by_tag(pod: PodView, container: Container) -> Found:
    """Find a privileged container whose image may change under its tag.

    Other rules report a moving tag, and also a training pod, which must not be privileged at all.
    """
    image = container.spec.get("image")
    if (
        pod.trains
        or mapping(container.spec.get("securityContext")).get("privileged") is not True
        or not isinstance(image, str)
    ):
        return
    if "@" not in image and image and not _UNKNOWN.intersection(image) and not _tag(image):
        yield (*container.path, "image"), f"container {container.name} is privileged, and a tag chooses its image"


RULES = (
    Problem(
        "pods/moving-tag",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.LATER,
        title="a training pod has an image that is not pinned to a release or a digest",
        why="a node that pulls later gets another image: versions of Ray differ, and a resumed run uses other code",
        fix="write the tag of a release, or a digest",
        source=_SOURCE,
        check=each_container(_training, trains=True),
    ),
    Problem(
        "pods/image-not-pinned",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.SILENT,
        title="a pod has an image that is not pinned",
        why="the image that runs tomorrow may not be the one tested today, and nobody notices the change",
        fix="write the tag of a release, or a digest",
        source=_SOURCE,
        check=each_container(_others),
    ),
    Problem(
        "pods/privileged-image-by-tag",
        target=OBJECTS,
        severity=INFO,
        fails=Fails.EXPOSES,
        title="a privileged container names its image by tag, not by digest",
        why="whoever may push to the registry moves the tag, and is root on each node that pulls it",
        fix="write its digest behind the tag, IMAGE:TAG@sha256:…; docker buildx imagetools inspect IMAGE:TAG prints it",
        source=_SOURCE,
        check=each_container(_by_tag),
    ),
)
