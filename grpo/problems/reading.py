"""The checks that are part of reading values and data and of wiring a stream, for `grpo rules` and the pages.

Each finding has a reason and a fix of its own; the texts here are the general ones. No finding can be ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postrender.finding import ERROR, WARNING, Finding
from postrender.problem import OBJECTS, STREAM, VALUES, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.errors import Location

_HELM: Final = "Helm reads the file in this way, and the charts and the framework get what Helm read"
_REFUSED: Final = "the charts refuse it, so helm install fails; without the schema Helm would ignore it silently"

_VALUES: Final[dict[str, dict[str, str]]] = {
    "no-accelerator": {
        "title": "no values file is an accelerator profile",
        "why": "interfaces, driver paths and worker sizes come from the profile; no chart renders without one",
        "fix": "give --accelerator NAME, or -f with a profile of your own, before the recipe",
    },
    "no-recipe": {
        "title": "no values file is a recipe",
        "why": "image, framework, version and configuration belong together, in one file; no chart "
        "renders without an image",
        "fix": "give a recipe, packaged or your own, with -f after the profile",
    },
    "no-site": {
        "title": "no values file is your own",
        "why": "names of your stack and of objects of the cluster are missing: helm install fails; an "
        "update replaces packaged files",
        "fix": "copy values/examples/site.yaml, write your names into it, and give your file as the last -f",
    },
    "unknown-key": {
        "title": "a key is unknown to the charts",
        "why": _REFUSED,
        "fix": "correct the name; grpo lint --fix does it where only one can be meant, and grpo values lists all keys",
    },
    "missing-key": {
        "title": "a key that has no default is not set",
        "why": "a name that the charts cannot know is missing: helm install fails",
        "fix": "write the key into your own file; the finding names it with an example",
    },
    "wrong-type": {
        "title": "a value does not have the type of its key",
        "why": _REFUSED,
        "fix": "write a value of that type; quotes turn a number, or a word such as on, into a string",
    },
    "wrong-value": {
        "title": "a key has a value that it does not allow",
        "why": _REFUSED,
        "fix": "write one of the values that the finding names, or a string like its example",
    },
    "wrong-prefix": {
        "title": "the sections are under values: instead of at the top level",
        "why": "Helm puts everything under .Values.values, where no chart looks; the schema of the charts refuses it",
        "fix": "delete the line values: and move what is below it to the left; with --set, leave values. out",
    },
    "dotted-key": {
        "title": "a section is written with dots instead of nested",
        "why": "in a values file a dot is a part of the name, which the charts refuse; only --set reads it as a path",
        "fix": "write each part as a section of its own, indented",
    },
    "boolean-key": {
        "title": "Helm reads a key as true or false",
        "why": "Helm reads the unquoted keys y, yes, on, n, no and off as booleans, so the framework never sees them",
        "fix": "put the key in quotes",
    },
    "inexact-number": {
        "title": "a number has more digits than Helm keeps",
        "why": "Helm stores every number as a 64-bit float, which has 53 bits for digits: the run gets another number",
        "fix": "choose a smaller number, or put it in quotes if the key accepts a string",
    },
    "token": {
        "title": "a file contains a secret, in a value or in a comment",
        "why": "values end up in Git, in the release's Secret and in logs; whoever reads one of them has the secret",
        "fix": "revoke it, put the new one into a Kubernetes Secret, and name that",
    },
    "version-of-another-framework": {
        "title": "job.version belongs to another framework than job.framework",
        "why": "image, framework, version and configuration belong together; no chart renders without that",
        "fix": "set job.framework, job.version and images.training to a set that belongs together, as the recipes do",
    },
    "refused-by-chart": {
        "title": "a chart refuses the values when it renders",
        "why": "helm install fails with the same message",
        "fix": "change the keys that the message names",
    },
    "covered-by-overlay": {
        "title": "an overlay of job.configFor overrides a value of job.config",
        "why": "the chart merges job.config of all files first, then the overlay, whichever file is later",
        "fix": "write the value under the overlay that wins; the finding names it",
    },
    "file-order": {
        "title": "a recipe, profile or framework file overrides values of an earlier file",
        "why": "later files win, and a recipe or profile is the more general file: what you set before it is lost",
        "fix": "give the site file last; the finding names both lines",
    },
    "placeholder": {
        "title": "a value is still the placeholder of the example site file",
        "why": "nothing of this name exists: pods wait for it, or a mount and a download fail when they start",
        "fix": "write the name in your project",
    },
    "several-sources": {
        "title": "a volume has several sources",
        "why": "values files are merged, so the source of an earlier file stays; the charts refuse such a volume",
        "fix": "keep one source, and set those of earlier files to null",
    },
    "digest-of-another-image": {
        "title": "the digest belongs to another image than the one that the last file names",
        "why": "the pods ask for that digest and ignore the tag: they wait in ImagePullBackOff, or run another image",
        "fix": "set images.training.digest to '' or to the digest of your image, next to its repository and tag",
    },
    "removes-nothing": {
        "title": "a reward or a prompt is null, but no earlier file has one to remove",
        "why": "null deletes an entry, and the run goes on without it; its content was probably forgotten",
        "fix": "write the content, give it with --set-file in every command of the run, or delete the line",
    },
}
_READ: Final = "the framework reads the column in every row, or compares the answer in it with every response"
_DATA: Final[dict[str, dict[str, str]]] = {
    "not-a-row": {
        "title": "a line in a sample of the data is not a JSON object",
        "why": "the framework reads the whole file when it starts, and ends at such a line",
        "fix": "write one JSON object a line",
    },
    "column-missing": {
        "title": "the data lacks a column that the run reads",
        "why": _READ,
        "fix": "name a column that the data has, as the finding says",
    },
    "wrong-type": {
        "title": "a column of the data has another type or form than the run reads",
        "why": _READ,
        "fix": "write what the finding says",
    },
    "empty-question": {
        "title": "a row of the data has no question",
        "why": "the model gets a prompt without a question, and learns nothing from it",
        "fix": "remove these rows",
    },
    "answer-unreadable": {
        "title": "an expected answer in the data cannot be read",
        "why": "a whole solution in the place of its final answer gives every response reward 0",
        "fix": "write the final answer alone, as task prepare-data does",
    },
    "source-without-reward": {
        "title": "verl has no reward for the data source of a row, and job.rewards is not set",
        "why": "the run ends at its first reward: every pod has started, and a batch has been generated",
        "fix": "set job.rewards, or write the name of a data source that verl knows",
    },
    "too-few-rows": {
        "title": "the data has too few rows for the steps of the run",
        "why": "both frameworks leave out an incomplete batch, so the run ends early, or at once",
        "fix": "lower the batch or the steps, raise the epochs, or add rows",
    },
    "another-name": {
        "title": "the name of the data file differs slightly from the one that the run reads",
        "why": "the run ends at set-up if no such file is on the volume: every pod has started",
        "fix": "correct the name in the values, or on the volume",
        "severity": WARNING,
    },
    "prompt-too-long": {
        "title": "a question has more words than a prompt may have tokens",
        "why": "NeMo RL leaves the row out of the loss, and verl filters it out or cuts it",
        "fix": "remove or shorten these rows, or raise the length",
    },
    "column-types": {
        "title": "the values of a column have several types",
        "why": "datasets 4.4 refuses a file with strings and numbers in one column, and makes times of dates",
        "fix": "write all values of the column as texts",
        "severity": WARNING,
    },
    "validation-in-training": {
        "title": "the run trains on a row of the validation data",
        "why": "the accuracy of the validation rises with what the model has memorized",
        "fix": "remove these rows from one of the files",
        "severity": WARNING,
    },
}
_CHECKS: Final[dict[str, dict[str, str]]] = {
    "could-not-run": {
        "title": "a file or a chart could not be checked",
        "why": "nothing in the file or chart was checked, so the lack of other findings does not mean that all is well",
        "fix": "do what the finding says; it names the file and the reason",
    },
    "ignored-nothing": {
        "title": "an entry of checks.ignore accepts no finding",
        "why": "an unnecessary exception hides the next mistake of its kind",
        "fix": "remove the line, or correct the id; grpo rules lists the ids",
    },
}
_CHECKPOINTS: Final[dict[str, dict[str, str]]] = {
    "shared-run-directory": {
        "title": "runs of two stacks have the same directory",
        "why": "the one that starts later is refused, or goes on from the checkpoints of the other one",
        "fix": "give one of the two runs another job.name, or its stack another bucket",
    },
}
_KUSTOMIZE: Final[dict[str, dict[str, str]]] = {
    "edited-by-hand": {
        "title": "a kustomization that grpo render wrote was edited",
        "why": "Argo CD, Flux and kubectl apply -k install what it says, not what the values render to",
        "fix": "restore it from Git; write what you want into the values, or into a kustomization above this folder",
    },
    "file-not-listed": {
        "title": "a manifest lies beside a kustomization that does not list it",
        "why": "kustomize does not install the file, and a tool that prunes deletes its object",
        "fix": "list it under resources, or move it away",
        "severity": WARNING,
    },
    "file-missing": {
        "title": "a kustomization lists a file that is not there",
        "why": "kustomize refuses the folder, so nothing of it is installed",
        "fix": "restore the file from Git, or remove the line",
    },
}
_WIRING: Final[dict[str, dict[str, str]]] = {
    "conflict": {
        "title": "an object already has a value that conflicts with the wiring",
        "why": "with the object's value the pod lacks an interface, a device or a setting of this machine",
        "fix": "remove it, or choose with --on-conflict keep or --on-conflict replace",
    },
    "nothing-wired": {
        "title": "a stream has GPUs or a Ray cluster, but none of its pods is wired",
        "why": "Helm hides the output of a post-renderer that succeeds, and the pods would train over TCP",
        "fix": "let one container take all GPUs of a node, give the values of the pods' machine, or --allow-unwired",
    },
}


def _rules() -> Iterator[Problem]:
    of_domains = (
        ("values", VALUES, _VALUES),
        ("data", VALUES, _DATA),
        ("checks", VALUES, _CHECKS),
        ("checkpoints", OBJECTS, _CHECKPOINTS),
        ("kustomize", OBJECTS, _KUSTOMIZE),
        ("wiring", STREAM, _WIRING),
    )
    for domain, target, texts in of_domains:
        for slug, text in texts.items():
            yield Problem(
                f"{domain}/{slug}",
                target=target,
                severity=text.get("severity", ERROR),
                title=text["title"],
                why=text["why"],
                fix=text["fix"],
            )


READING: Final = tuple(_rules())
_BY_ID: Final = {each.id: each for each in READING}


def found(rule: str, what: str, at: Location, fix: str = "") -> Finding:
    """Return a finding of one of these checks."""
    problem = _BY_ID[rule]
    return Finding(what, at, rule=rule, severity=problem.severity, why=problem.why, fix=fix or problem.fix)
