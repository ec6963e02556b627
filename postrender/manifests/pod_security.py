"""What Pod Security forbids in a pod: https://kubernetes.io/docs/concepts/security/pod-security-standards/."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from postrender.manifests.pods import mapping, sequence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from postrender.manifests.pods import Path

    # A path below the pod's spec, and what is there.
    Refused = Iterator[tuple[Path, str]]

# The label of a namespace, with the levels that refuse something.
ENFORCE: Final = "pod-security.kubernetes.io/enforce"
BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"
_HOST: Final = ("hostNetwork", "hostPID", "hostIPC")
# Capabilities that each level lets a container add.
_ADDED: Final = {
    BASELINE: (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"),
        *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    ),
    RESTRICTED: ("NET_BIND_SERVICE",),
}
_SAFE: Final = ("RuntimeDefault", "Localhost")


def refused(spec: Mapping[str, Any], level: str) -> Refused:
    """Yield what a level forbids in a pod; nothing for the level privileged or an unknown level."""
    if level not in _ADDED:
        return
    for at, volume in enumerate(map(mapping, sequence(spec.get("volumes")))):
        if path := mapping(volume.get("hostPath")).get("path"):
            yield ("volumes", at, "hostPath"), f"the host's folder {path}"
    yield from (((name,), name) for name in _HOST if spec.get(name))
    for key in ("initContainers", "containers"):
        for at, container in enumerate(map(mapping, sequence(spec.get(key)))):
            yield from (((key, at, *path), what) for path, what in _of_container(container, spec, level))


def _of_container(container: Mapping[str, Any], spec: Mapping[str, Any], level: str) -> Refused:
    context = mapping(container.get("securityContext"))
    if context.get("privileged"):
        yield ("securityContext", "privileged"), "privileged containers"
    capabilities = mapping(context.get("capabilities"))
    for number, name in enumerate(map(str, sequence(capabilities.get("add")))):
        if name not in _ADDED[level]:
            yield ("securityContext", "capabilities", "add", number), f"the capability {name}"
    for number, port in enumerate(map(mapping, sequence(container.get("ports")))):
        if port.get("hostPort"):
            yield ("ports", number, "hostPort"), f"the host's port {port['hostPort']}"
    if level == RESTRICTED and (lacks := _lacks(context, mapping(spec.get("securityContext")))):
        yield (), f"container {container.get('name')} without securityContext {', '.join(lacks)}"


def _lacks(context: Mapping[str, Any], of_pod: Mapping[str, Any]) -> list[str]:
    """Return the settings that the restricted level requires but neither the container nor its pod has."""
    both = {**of_pod, **context}
    wanted = {
        "allowPrivilegeEscalation: false": context.get("allowPrivilegeEscalation") is False,
        "capabilities.drop: [ALL]": "ALL" in sequence(mapping(context.get("capabilities")).get("drop")),
        "runAsNonRoot: true": both.get("runAsNonRoot") is True,
        "seccompProfile": mapping(both.get("seccompProfile")).get("type") in _SAFE,
    }
    return [name for name, is_there in wanted.items() if not is_there]
