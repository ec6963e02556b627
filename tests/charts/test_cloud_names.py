"""A cloud's names are values: the platform's keys and the profiles have them, not the templates and not the wiring."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from postrender.values import profiles
from tests.charts.test_templates import FILES, code, name
from tests.conftest import ROOT

# The names of clouds, of their Kubernetes, and of what only they have.
CLOUDS = re.compile(
    r"gke|google|gcp|gcloud|autopilot|\beks\b|aws|amazon|\befa\b|karpenter|azure|\baks\b|coreweave"
    r"|\boci\b(?!://)|oracle|\boke\b|nebius",
    re.IGNORECASE,
)
CHOSEN = "an object of that API, which a value asks for by name"
BUCKETS = "Cloud Storage and Managed Lustre, which storage.NAME.gcsfuse and .lustre ask for by name"
ADMISSION = "what platform.kind refuses or changes"
TEXT = "what a person reads"
# The names that a template may have, and why.
TEMPLATES = {
    "common/templates/_autopilot.tpl": ("autopilot gke google", ADMISSION),
    "common/templates/_platform.tpl": ("autopilot gke google", ADMISSION),
    "common/templates/_head.tpl": ("autopilot", ADMISSION),
    "common/templates/_node.tpl": ("autopilot", ADMISSION),
    "common/templates/_pod.tpl": ("autopilot", ADMISSION),
    "common/templates/_raycluster.tpl": ("autopilot", ADMISSION),
    "common/templates/_protection.tpl": ("autopilot gke", f"{ADMISSION}; the fix in a message"),
    "common/templates/_check.tpl": ("autopilot google", "the fix in a message, by platform.kind"),
    "common/templates/_commands.tpl": ("google", f"{CHOSEN}: ray.metrics.scrape"),
    "common/templates/_notes.tpl": ("autopilot gke google", TEXT),
    "common/templates/_sidecar.tpl": ("gke", BUCKETS),
    "common/templates/_storage.tpl": ("gke", BUCKETS),
    "storage/templates/_principal.tpl": ("google", BUCKETS),
    "storage/templates/persistentvolume.yaml": ("gke", BUCKETS),
    "storage/templates/storageclass.yaml": ("gke", BUCKETS),
    "storage/templates/NOTES.txt": ("autopilot gcloud gke", TEXT),
    "network/templates/gkenetworkparamset.yaml": ("gke", f"{CHOSEN}: network.mode multiNetwork"),
    "network/templates/network.yaml": ("gke", f"{CHOSEN}: network.mode multiNetwork"),
    "network/templates/_installer.tpl": ("autopilot gke google", "Google's installer, which network.rdmaInstaller has"),
    "network/templates/NOTES.txt": ("autopilot gcloud gke google", TEXT),
    "raycluster/templates/podmonitoring.yaml": ("google", f"{CHOSEN}: ray.metrics.scrape"),
    "grpo-job/templates/podmonitoring.yaml": ("google", f"{CHOSEN}: ray.metrics.scrape"),
}
# The same for the wiring of the post-renderer.
WIRING = {
    "plan.py": ("autopilot gke google", "reads platform.kind"),
    "platform.py": ("autopilot gke", ADMISSION),
    "node_check.py": ("autopilot gke", "the fix in a message, by platform.kind"),
}
KEYS = yaml.safe_load((ROOT / "charts/raycluster/values.yaml").read_text(encoding="utf-8"))["platform"]["keys"]
MODULES = sorted((ROOT / "postrender/wiring").glob("*.py"))
DOCSTRING = re.compile(r'^ *"""(?:.|\n)*?"""$', re.MULTILINE)
COMMENT = re.compile(r"^ *#.*$", re.MULTILINE)


def named(text: str) -> str:
    """Return the names of clouds outside comments, in lower case."""
    return " ".join(sorted({found.lower() for found in CLOUDS.findall(COMMENT.sub("", text))}))


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_template_names_no_cloud(path: Path) -> None:
    assert named(code(path)) == TEMPLATES.get(name(path), ("", ""))[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_the_wiring_names_no_cloud(path: Path) -> None:
    assert named(DOCSTRING.sub("", path.read_text(encoding="utf-8"))) == WIRING.get(path.name, ("", ""))[0]


def test_every_exception_names_an_existing_file() -> None:
    assert TEMPLATES.keys() <= {name(path) for path in FILES}
    assert WIRING.keys() <= {path.name for path in MODULES}


@pytest.mark.parametrize(("key", "value"), KEYS.items())
def test_no_template_or_wiring_file_contains_a_platform_key(key: str, value: str) -> None:
    """Not even where a file may name the cloud."""
    texts = [code(path) for path in FILES] + [path.read_text(encoding="utf-8") for path in MODULES]
    assert not [text for text in texts if value in text], key


def test_the_rules_use_the_annotations_the_pods_get() -> None:
    found = dict(KEYS.items())
    assert found["interfaces"] == profiles.INTERFACES
    assert found["defaultInterface"] == profiles.DEFAULT_INTERFACE
