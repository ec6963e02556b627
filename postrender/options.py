"""The options of `grpo-post-render`, from its command line or from a kustomize function's configuration."""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Iterator, Sequence
from typing import Any

from postrender.errors import UsageError
from postrender.manifests import pods
from postrender.wiring.transforms import FAIL, POLICIES
from postrender.yaml import stream

NAME = "grpo-post-render"
FIX = f"see {NAME} --help"
_USAGE = f"""\
helm install ... --post-renderer {NAME} --post-renderer-args --values --post-renderer-args FILE ...
       helm template ... | {NAME} --values FILE ... [options]"""
_DESCRIPTION = """\
Wire the pods of a rendered stream of any chart from the values files of a stack: network interfaces, NCCL settings,
driver folders, shared memory, node placement, secrets by reference. A pod is wired if it takes all GPUs of a node of
the profile; the other pods of a Ray cluster get the secrets. Every other document passes byte for byte. A stream that
is unsafe to install is refused: nothing is written to stdout, and the reasons go to stderr. A stream with GPUs or with
a Ray cluster of which no pod is wired is refused, too. Where only some are wired, stderr and the annotation
grpo-charts/not-wired of each object name the others and the reasons; Helm shows only the annotation.

An object with the annotation grpo-charts/wiring: skip is not changed."""
_EPILOG = """\
Helm 4 takes the name of a plugin instead of a program: grpo helm-plugin install

Exit codes: 0 passed, 1 refused, 2 wrong command line or input, 3 could not run.

Examples:
  helm template my-release my-chart | grpo-post-render --values values/accelerators/b200.yaml --values my-site.yaml
  GRPO_VALUES=values/accelerators/b200.yaml:my-site.yaml helm install my-release my-chart \\
    --post-renderer grpo-post-render"""
# The line width of --help.
_WIDTH = 100
_FUNCTION = b"apiVersion: config.kubernetes.io/"


class Settings(argparse.Namespace):
    """The options from the command line, or of a kustomize function."""

    values: list[str]
    report: str
    on_conflict: str
    select: list[tuple[str, str]]
    templates: list[tuple[str, str]]
    no_gate: bool
    allow_unwired: bool
    init_containers: bool


def help_text() -> str:
    """Return the --help text."""
    return _parser().format_help()


def parse(words: Sequence[str], settings: Settings | None = None) -> Settings:
    """Parse options and add them to settings; raise UsageError if an option is wrong."""
    try:
        found, surplus = _parser().parse_known_args(words, settings or Settings())
    except argparse.ArgumentError as error:
        problem = "needs a value" if "expected" in error.message else "takes no value"
        raise UsageError(f"{error.argument_name} {problem}", fix=FIX) from error
    for word in surplus:
        fix = "give files with --values FILE" if word == "-f" else FIX
        raise UsageError(f"{word!r} was not expected", fix=fix)
    return found


def configure(settings: Settings, data: bytes) -> Settings:
    """Add a kustomize function's configuration: the `spec` of its functionConfig, whose keys are option names.

    Only kustomize sends a single document that starts with _FUNCTION. In a stream from Helm, a chart would be the one
    to set it, and a chart must not switch off the gate.
    """
    if os.environ.get("HELM_PLUGIN_NAME") or not data.startswith(_FUNCTION):
        return settings
    documents = list(stream.split(data))
    if len(documents) > 1:
        return settings
    (document,) = documents
    config = pods.mapping(pods.mapping(document.parse()).get("functionConfig"))
    return parse([*_words(pods.mapping(config.get("spec")))], settings)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        NAME,
        usage=_USAGE,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=functools.partial(argparse.RawDescriptionHelpFormatter, width=_WIDTH),
        allow_abbrev=False,
        exit_on_error=False,
    )
    add = parser.add_argument
    add(
        "--values",
        metavar="FILE",
        action="append",
        default=[],
        help="values file; repeat it for each file, later files win, as with helm (or GRPO_VALUES=FILE:FILE)",
    )
    add(
        "--on-conflict",
        metavar="WHAT",
        type=_policy,
        default=FAIL,
        help="what to do with an existing value that differs: fail (default), keep or replace",
    )
    add(
        "--select",
        metavar="KIND/NAME",
        type=_selected,
        action="append",
        default=[],
        help="wire only this object; may be given more than once",
    )
    add(
        "--pod-template-path",
        metavar="KIND=PATH",
        dest="templates",
        type=_template,
        action="append",
        default=[],
        help="path of the pod template in another kind: MPIJob=spec.mpiReplicaSpecs.*.template",
    )
    add("--init-containers", action="store_true", help="also give the secrets to init containers")
    add(
        "--allow-unwired",
        action="store_true",
        help="also pass on a stream with GPUs or a Ray cluster of which no pod is wired",
    )
    add("--no-gate", action="store_true", help="wire without judging the stream")
    add("--report", metavar="FILE", default="", help="write what was wired, skipped and refused as JSON")
    return parser


def _policy(value: str) -> str:
    if value not in POLICIES:
        raise UsageError(f"--on-conflict is {value!r}, expected one of {', '.join(POLICIES)}", fix=FIX)
    return value


def _selected(value: str) -> tuple[str, str]:
    kind, _, name = value.partition("/")
    if not kind or not name:
        raise UsageError(f"--select is {value!r}, expected KIND/NAME", fix="--select raycluster/my-cluster")
    return kind, name


def _template(value: str) -> tuple[str, str]:
    kind, _, path = value.partition("=")
    if not kind or not path.strip("."):
        option = "--pod-template-path"
        raise UsageError(f"{option} is {value!r}, expected KIND=PATH", fix=f"{option} MyJob=spec.template")
    return kind, path.strip(".")


def _words(spec: dict[str, Any]) -> Iterator[str]:
    """Yield a function's configuration as command line options."""
    for option, value in spec.items():
        if option in ("allow-unwired", "init-containers", "no-gate"):
            if not isinstance(value, bool):
                raise UsageError(f"functionConfig.spec.{option}: expected true or false", fix=FIX)
            if value:
                yield f"--{option}"
        elif option in ("values", "report", "on-conflict", "select", "pod-template-path"):
            yield from (f"--{option}={each}" for each in (value if isinstance(value, list) else [value]))
        else:
            raise UsageError(f"functionConfig.spec.{option} was not expected", fix=FIX)
