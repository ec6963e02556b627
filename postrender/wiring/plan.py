"""Compute from the values what a pod needs on its cluster, as `charts/common` does.

This module and the `common.wiring.*` templates implement the same wiring. For every profile,
tests/postrender/test_equivalence.py renders the charts without wiring, post-renders them, and compares the result with
the charts' own wiring.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from postrender import secrets
from postrender.counting import counted
from postrender.errors import InputError
from postrender.manifests.pods import Pod, excluded, mapping, selected
from postrender.values import profiles
from postrender.values.quantity import near
from postrender.values.quantity import quantity as amount_of
from postrender.wiring import claims, node_check
from postrender.yaml import writer

# Increase this number when the same values result in different wiring.
FORMAT: Final = 1
_ON_NODE: Final = "has the network of its node (hostNetwork), to which no other can be attached"
_WITHOUT_INTERFACE: Final = "has the network of its node (hostNetwork), but the values are for a network of its own"
# What to do about some reasons why a pod is not wired.
FIXES: Final[Mapping[str, str]] = {
    _ON_NODE: "remove hostNetwork: true from the pod",
    _WITHOUT_INTERFACE: "write accelerator.hostNetwork: true and the node's accelerator.nccl.socketInterface",
}
# The init container that checks the node's driver and mounted folders.
CHECK: Final = "check-node"
# The modulus of the fingerprint in annotations: a different one would change every wired object.
_PRIME = 2**32 - 5
# No amount has more digits, and Python does not read numbers of any length.
_QUANTITY = re.compile("0*([1-9][0-9]{0,17})(Mi|Gi|Ti)")
_MEBIBYTE = {"Mi": "Gi", "Gi": "Ti"}


def quantity(text: str) -> str:
    """Return a memory quantity in Kubernetes' canonical form (1024Gi is 1Ti).

    Raises InputError for any other text.
    """
    found = _QUANTITY.fullmatch(text)
    if not found:
        meant = near(text)
        raise InputError(
            f"{text!r} is not a memory quantity",
            fix=f"write {meant}" if _QUANTITY.fullmatch(meant) else "write it as in 250Gi",
        )
    number, unit = int(found[1]), found[2]
    while unit in _MEBIBYTE and number % 1024 == 0:
        number, unit = number // 1024, _MEBIBYTE[unit]
    return f"{number}{unit}"


def from_secret(name: str, secret: Mapping[str, str]) -> dict[str, Any]:
    """Return an environment variable that refers to a Secret's key."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret["name"], "key": secret["key"]}}}


class Wiring:
    """One stack's wiring; `values` come from `inputs.load`.

    Lists have the same order as in the charts.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._accelerator = values["accelerator"]
        self._settings = self._accelerator["nccl"]
        self._image = values["images"]["training"]
        self.profile = str(self._accelerator["name"])
        self.gpus = int(self._accelerator["gpusPerNode"])
        self.mode = str(values["network"]["mode"])
        self.keys: dict[str, str] = values["platform"]["keys"]
        self.is_google = values["platform"]["kind"].startswith("gke-")
        self.is_autopilot = values["platform"]["kind"] == "gke-autopilot"
        self.labels: dict[str, str] = self._accelerator["nodeSelector"]
        self.label = ", ".join(self.labels.values())
        # Of the machine, whether or not its nodes are selected by them.
        self.gpu_label = str(self._accelerator.get("gpuNodeLabel") or "")
        self.machine_type = str(self._accelerator.get("machineType") or "")
        self.uses_host_network = self.mode != "none" and bool(self._accelerator.get("hostNetwork"))
        self.annotations = self._annotations()
        self.volumes, self.mounts = self._volumes()
        self.secrets = self._secrets()
        self.nccl = self._variables()
        self.tolerations = self._tolerations()
        self.resources: dict[str, str] = self._accelerator.get("resources", {}) if self.mode == "devices" else {}
        self.device_classes = {str(each["deviceClass"]) for each in self._accelerator.get("claims", {}).values()}
        self.capabilities = self._capabilities()
        self.digest = self._digest()

    def _digest(self) -> str:
        """Return a fingerprint of the wiring: eight hexadecimal digits.

        Raises InputError if the wiring contains a literal secret.
        """
        everything = [
            *(self.annotations, self.secrets, self.libraries(""), self.nccl, self.volumes, self.mounts),
            *(self.selector("", ""), self.tolerations, self.mode, self.resources, self.capabilities),
            self.uses_host_network,
        ]
        text = writer.flow(everything)
        if shape := secrets.shape_of(text):
            raise InputError(
                f"the values contain what looks like a secret of the kind {secrets.title_of(shape)}, which would "
                "appear in the manifests",
                fix="revoke it, put the new one into a Kubernetes Secret, and give the name of that Secret",
            )
        return f"{int.from_bytes(text.encode(), 'big') % _PRIME:08x}"

    def is_enough(self, name: str, amount: object) -> bool:
        """Return whether an amount of a resource of the machine gives a pod all its devices."""
        wanted, given = amount_of(self.resources[name]), amount_of(amount)
        if given is None or wanted is None:
            return False
        return given >= wanted if profiles.is_flag(wanted, self.gpus) else given == wanted

    @property
    def stamp(self) -> str:
        """Return the content of a wired object's annotation."""
        return f"{FORMAT} {self.digest}"

    def foreign_labels(self, spec: Mapping[str, Any]) -> dict[str, set[str]]:
        """Return the labels, with their values, by which a pod selects machines other than the profile's."""
        known: Mapping[str, set[str]] = {key: set() for key in self.labels}
        is_own = all(value in selected(spec, key) for key, value in self.labels.items())
        if is_own and not all(map(profiles.names_gpu, self.labels)):
            return {}
        if spec.get("affinity") or not mapping(spec.get("nodeSelector")).keys() <= known.keys():
            # Another cloud's machines have other labels.
            known = {**profiles.labels(self.profile), **known}
        found = {key: selected(spec, key) for key in known}
        return {
            key: values
            for key, values in found.items()
            if values and self.labels.get(key) not in values and (key in self.labels or values & known[key])
        }

    def unfit(self, pod: Pod) -> str:
        """Return why a GPU pod cannot use a complete node of the profile; empty if it can or has no GPUs."""
        count, containers = pod.gpu_container()[1], pod.gpu_containers()
        if not count:
            return ""
        if not self.gpus:
            return f"takes {counted(count, 'GPU')}, and {self.profile} has none"
        if len(containers) > 1:
            return f"divides its GPUs among {len(containers)} containers, and one must take all {self.gpus}"
        if count != self.gpus:
            return f"takes {counted(count, 'GPU')}, and a node of {self.profile} has {self.gpus}"
        for key, values in self.foreign_labels(pod.spec).items():
            return f"selects {', '.join(sorted(values))}, and {self.profile} is {self.labels.get(key, self.label)}"
        for key, label in self.labels.items():
            if label in excluded(pod.spec, key):
                return f"avoids {label} by its affinity"
        own = self.mode != "none" and not self.uses_host_network and pod.spec.get("hostNetwork") is True
        if not own:
            return ""
        if self.mode == "devices" and not self.annotations:
            # The devices come all the same, but the interface of NCCL's sockets has another name on a node.
            return _WITHOUT_INTERFACE
        return _ON_NODE

    def interfaces(self) -> list[dict[str, str]]:
        """Return a GPU pod's interfaces other than eth0, with their networks, sorted by number."""
        prefix = self._values["network"]["names"]["prefix"]
        given = self._accelerator["interfaces"]
        names = sorted((name for name in given if name[3:].isdecimal()), key=lambda name: int(name[3:]))
        return [
            {"interface": name, "network": f"{prefix}{given[name]['network']}", "deviceMode": given[name]["deviceMode"]}
            for name in names
        ]

    def _annotations(self) -> dict[str, str]:
        own: dict[str, str] = self._accelerator.get("annotations", {}) if self.mode != "none" else {}
        if self.mode != "multiNetwork":
            return own
        pairs = [("eth0", "default"), *((each["interface"], each["network"]) for each in self.interfaces())]
        listed = ",".join(f'{{"interfaceName":"{name}","network":"{network}"}}' for name, network in pairs)
        return own | {self.keys["defaultInterface"]: "eth0", self.keys["interfaces"]: f"[{listed}]"}

    def _secrets(self) -> list[dict[str, Any]]:
        """Return the variables that all pods need: secrets by reference, or HF_HUB_OFFLINE if downloads are off."""
        huggingface, wandb = self._values["huggingface"], self._values["tracking"]["wandb"]
        if huggingface["offline"]["enabled"]:
            found: list[dict[str, Any]] = [{"name": "HF_HUB_OFFLINE", "value": "1"}]
        else:
            found = [from_secret("HF_TOKEN", huggingface["secret"])]
        return [*found, *([from_secret("WANDB_API_KEY", wandb["secret"])] if wandb["enabled"] else [])]

    def libraries(self, image: str) -> list[dict[str, Any]]:
        """Return LD_LIBRARY_PATH for a container; only the training image adds its own library path."""
        if not self._accelerator["libraryPath"]:
            return []
        own = self._image["libraryPath"] if self._is_training(image) else ""
        paths = [path for path in (own, self._accelerator["libraryPath"]) if path]
        return [{"name": "LD_LIBRARY_PATH", "value": ":".join(paths)}]

    def _variables(self) -> list[dict[str, Any]]:
        """Return the NCCL variables of a GPU pod."""
        nccl = self._settings
        wanted = {"NCCL_SOCKET_IFNAME": nccl["socketInterface"], "GLOO_SOCKET_IFNAME": nccl["socketInterface"]}
        if self.mode != "none":
            names = {"BASH_ENV": "environmentScript", "NCCL_NET": "net", "NCCL_TUNER_CONFIG_PATH": "tunerConfig"}
            wanted = {name: nccl[key] for name, key in names.items() if nccl.get(key)} | wanted
        more = nccl.get("env", {})
        pairs = [*wanted.items(), *((name, more[name]) for name in sorted(more))]
        return [{"name": name, "value": value} for name, value in pairs]

    def _volumes(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        size = quantity(self._accelerator["sharedMemory"])
        volumes: list[dict[str, Any]] = [
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": size}},
        ]
        mounts: list[dict[str, Any]] = []
        paths = self._accelerator["hostPaths"]
        for name in sorted(paths):
            path = paths[name]
            of_plugin = (self._settings.get("environmentScript") or "").startswith(f"{path['mountPath']}/")
            if of_plugin and self.mode == "none":
                continue
            volumes.append({"name": f"host-{name}", "hostPath": {"path": path["hostPath"], "type": "Directory"}})
            mounts.append({"name": f"host-{name}", "mountPath": path["mountPath"], "readOnly": True})
        mounts.append({"name": "shared-memory", "mountPath": "/dev/shm"})  # noqa: S108 (shared memory)
        files = self._accelerator.get("files", {}) if self.mode != "none" else {}
        for name in sorted(files):
            file = files[name]
            volumes.append({"name": f"file-{name}", "configMap": {"name": file["configMap"]}})
            at = {"mountPath": file["mountPath"], "subPath": file["key"], "readOnly": True}
            mounts.append({"name": f"file-{name}", **at})
        return volumes, mounts

    def _capabilities(self) -> list[str]:
        """Return the Linux capabilities that the GPU network needs; Autopilot neither allows nor needs any."""
        wanted = self._accelerator.get("capabilities", {}) if self.mode != "none" and not self.is_autopilot else {}
        return [name for name in sorted(wanted) if wanted[name]]

    @property
    def _claimed(self) -> dict[str, dict[str, Any]]:
        """Return the network devices that a pod claims, by claim name."""
        found: dict[str, dict[str, Any]] = self._accelerator.get("claims", {}) if self.mode == "dranet" else {}
        return {name: found[name] for name in sorted(found)}

    def claims(self, owner: str, nodes: int | None) -> list[dict[str, str]]:
        """Return a pod's resource claims; `nodes` is the number of pods in its NVLink domain.

        Raises InputError if the object has no name, because the claims' names contain it.
        """
        if not owner and (self._claimed or self._accelerator.get("nvlinkDomainNodes")):
            raise InputError("an object without a name cannot claim devices", fix="give it metadata.name")
        found = [{"name": name, "resourceClaimTemplateName": f"{owner}-{name}"} for name in self._claimed]
        if self._accelerator.get("nvlinkDomainNodes"):
            found.append({"name": "nvlink", "resourceClaimTemplateName": self.domain_name(owner, nodes)})
        return found

    def domain_name(self, owner: str, nodes: int | None) -> str:
        """Return the ComputeDomain's name; raise InputError if the number of pods is unknown or too large."""
        most = self._accelerator["nvlinkDomainNodes"]
        if nodes is None or not 0 < nodes <= most:
            found = nodes if nodes is not None else "no fixed number"
            raise InputError(
                f"an NVLink domain of {self.profile} has 1 to {most} nodes, and {owner} has {found}",
                fix="give the object a fixed number of GPU pods, or set accelerator.nvlinkDomainNodes to null and "
                "accelerator.nccl.env.NCCL_MNNVL_ENABLE to '0', so that the nodes use their network",
            )
        return f"{owner}-nvlink-{nodes}"

    def documents(self, owner: str, nodes: int | None) -> list[dict[str, Any]]:
        """Return the objects that the claims of `owner`'s pods refer to, without labels and namespace."""
        found = [claims.template(f"{owner}-{name}", name, claim) for name, claim in self._claimed.items()]
        if self._accelerator.get("nvlinkDomainNodes"):
            found.append(claims.domain(self.domain_name(owner, nodes), nodes))
        return found

    def selector(self, owner: str, image: str) -> dict[str, str]:
        """Return the node selector of a GPU pod."""
        selector: dict[str, str] = {}
        kind = self._values["platform"]["capacity"]["kind"]
        if self._is_arm:
            selector["kubernetes.io/arch"] = "arm64"
        selector |= self.labels
        for claim in self._claimed.values():
            selector |= claim.get("nodeSelector", {})
        if kind in ("spot", "flex-start"):
            selector[self.keys["spot" if kind == "spot" else "flexStart"]] = "true"
        return selector | (self._autopilot(owner, image) if self.is_autopilot else {})

    def _autopilot(self, owner: str, image: str) -> dict[str, str]:
        capacity = self._values["platform"]["capacity"]
        selector: dict[str, str] = {}
        if self._minimum_driver(image):
            selector[self.keys["driverVersion"]] = "latest"
        if capacity["reservation"]:
            selector[self.keys["reservation"]] = capacity["reservation"]
            selector[self.keys["reservationAffinity"]] = "specific"
        if capacity["placementPolicy"]:
            selector[self.keys["placementGroup"]] = owner
            selector[self.keys["placementPolicy"]] = capacity["placementPolicy"]
        return selector

    @property
    def _is_arm(self) -> bool:
        return bool(self._accelerator.get("architecture") == "arm64")

    def _tolerations(self) -> list[dict[str, str]]:
        """Return the tolerations of a GPU pod."""
        kind = self._values["platform"]["capacity"]["kind"]
        wanted = [
            (self.gpus, _tolerate("nvidia.com/gpu")),
            (self._is_arm, _tolerate("kubernetes.io/arch", "arm64")),
            *(
                (True, _tolerate(key, **taint))
                for key, taint in sorted(self._accelerator.get("tolerations", {}).items())
            ),
            (kind == "spot", _tolerate(self.keys["spot"])),
            (kind == "queued", _tolerate(self.keys["queued"], "true")),
        ]
        return [toleration for needed, toleration in wanted if needed]

    def check_node(self, image: str) -> dict[str, Any] | None:
        """Return the init container that fails on a node without NCCL's files or with too old a driver.

        Return None if there is nothing to check.
        """
        script = self._script(image)
        if not script:
            return None
        amounts = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}
        last = 'echo "check-node: driver folders and NCCL settings are in place"'
        return {
            "name": CHECK,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/bin/bash", "-c"],
            "args": [f"{script}{last}"],
            "resources": {"requests": amounts, "limits": amounts},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumeMounts": [mount for mount in self.mounts if mount["name"].startswith("host-")],
        }

    def _script(self, image: str) -> str:
        script, table = self._settings.get("environmentScript"), self._settings.get("tunerConfig")
        files = [file for file in (script, table) if file and self.mode != "none"]
        lines = node_check.plugin(files, script, in_image=not self._is_of_node(files[0])) if files else []
        named = dict.fromkeys(self._accelerator["libraryPath"].split(":"))
        folders = [folder for folder in named if self._is_of_node(folder)]
        if files and folders:
            lines += node_check.shadowed(folders)
        minimum = self._minimum_driver(image)
        if minimum:
            lines += node_check.driver(minimum, self._values["platform"]["kind"])
        return "".join(f"{line}\n" for line in lines)

    def _is_of_node(self, file: str) -> bool:
        """Return whether a file is in a folder of the node rather than in the image."""
        return any(file.startswith(f"{path['mountPath']}/") for path in self._accelerator["hostPaths"].values())

    def _minimum_driver(self, image: str) -> int:
        return int(self._image["minimumDriver"]) if self.gpus and self._is_training(image) else 0

    @property
    def image(self) -> str:
        """Return the training image, by digest if there is one; empty if the values do not name an image."""
        repository, tag, digest = (self._image.get(key) for key in ("repository", "tag", "digest"))
        return (f"{repository}@{digest}" if digest else f"{repository}:{tag}") if repository else ""

    def _is_training(self, image: str) -> bool:
        return bool(self.image) and image == self.image


def _tolerate(key: str, value: str | None = None, effect: str = "NoSchedule") -> dict[str, str]:
    operator = {"operator": "Exists"} if value is None else {"operator": "Equal", "value": value}
    return {"key": key, **operator, "effect": effect}
