"""The checks that are part of reading values and data and of wiring a stream, for `grpo rules` and the pages.

Each finding of one has a reason and a fix of its own; these are the general ones. None can be ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postrender.finding import ERROR, WARNING
from postrender.problem import STREAM, VALUES, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

_HELM: Final = "Helm reads the file in this way, and the charts and the framework get what Helm read"
_REFUSED: Final = "the charts refuse it, so helm install fails; without the schema Helm would ignore it silently"

_VALUES: Final[dict[str, dict[str, str]]] = {
    "no-accelerator": {
        "title": "one of the files is an accelerator profile",
        "why": "interfaces, driver paths and worker sizes come from the profile; no chart renders without one",
        "fix": "give --accelerator NAME, or -f with a profile of your own, before the recipe",
    },
    "no-recipe": {
        "title": "one of the files is a recipe",
        "why": "image, framework, version and configuration belong together and come from one file",
        "fix": "give a recipe, packaged or your own, with -f after the profile",
    },
    "no-site": {
        "title": "one of the files is the user's own",
        "why": "the names of the stack and of the cluster's own objects are yours; an update replaces packaged files",
        "fix": "copy values/examples/site.yaml, write your names into it, and give your file as the last -f",
    },
    "unknown-key": {
        "title": "every key is one that a chart knows",
        "why": _REFUSED,
        "fix": "correct the name; grpo lint --fix does it where only one can be meant, and grpo values lists all keys",
        "bad": "ray:\n  workers:\n    replicsa: 4\n",
        "good": "ray:\n  workers:\n    replicas: 4\n",
    },
    "missing-key": {
        "title": "every key that has no default is set",
        "why": "a name that the charts cannot know is missing: helm install fails",
        "fix": "write the key into your own file; the finding names it with an example",
    },
    "wrong-type": {
        "title": "every value has the type of its key",
        "why": _REFUSED,
        "fix": "write a value of that type; quotes make a text of a number or of a word such as on",
        "bad": "ray:\n  workers:\n    replicas: '4'\n",
        "good": "ray:\n  workers:\n    replicas: 4\n",
    },
    "wrong-value": {
        "title": "every value is one that its key allows",
        "why": _REFUSED,
        "fix": "write one of the values, or a text like the example, that the finding names",
        "bad": "stack:\n  name: My_Stack\n",
        "good": "stack:\n  name: my-stack\n",
    },
    "wrong-prefix": {
        "title": "the sections are at the top of the file, not under values:",
        "why": "Helm puts everything under .Values.values, where no chart looks",
        "fix": "delete the line values: and move what is below it to the left; with --set, leave values. out",
        "bad": "values:\n  ray:\n    workers:\n      replicas: 4\n",
        "good": "ray:\n  workers:\n    replicas: 4\n",
    },
    "dotted-key": {
        "title": "sections are nested, not written with dots",
        "why": "in a values file a dot is a part of the name; only --set reads it as a path",
        "fix": "write each part as a section of its own, indented",
        "bad": "ray.workers.replicas: 4\n",
        "good": "ray:\n  workers:\n    replicas: 4\n",
    },
    "boolean-key": {
        "title": "no key is one that Helm reads as true or false",
        "why": "Helm reads the unquoted keys y, yes, on, n, no and off as booleans, so the framework never sees them",
        "fix": "put the key in quotes",
        "bad": "job:\n  config:\n    actor_rollout_ref:\n      rollout: {n: 8}\n",
        "good": 'job:\n  config:\n    actor_rollout_ref:\n      rollout: {"n": 8}\n',
    },
    "inexact-number": {
        "title": "no number has more digits than Helm keeps",
        "why": "Helm stores every number as a 64-bit float, which has 53 bits for digits: the run gets another number",
        "fix": "choose a smaller number, or put it in quotes if the key accepts a text",
        "bad": "job:\n  config:\n    grpo:\n      seed: 12345678901234567\n",
        "good": "job:\n  config:\n    grpo:\n      seed: 1234567\n",
    },
    "token": {
        "title": "no file contains a secret, not even in a comment",
        "why": "values end up in Git, in the release's Secret and in logs; whoever reads one of them has the secret",
        "fix": "revoke it, put the new one into a Kubernetes Secret, and name that",
        "bad": "huggingface:\n  token: <a token of Hugging Face>\n",
        "good": "huggingface:\n  secret:\n    name: hf-secret\n    key: hf_api_token\n",
    },
    "version-of-another-framework": {
        "title": "job.version is a version of job.framework",
        "why": "image, framework, version and configuration belong together; no chart renders without that",
        "fix": "set job.framework, job.version and images.training to a set that belongs together, as the recipes do",
        "bad": "job:\n  framework: nemo-rl\n  version: 0.9.1\n",
        "good": "job:\n  framework: verl\n  version: 0.9.1\n",
    },
    "refused-by-chart": {
        "title": "no chart refuses the values when it renders",
        "why": "helm install fails with the same message",
        "fix": "change the keys that the message names",
    },
    "covered-by-overlay": {
        "title": "no overlay of job.configFor overrides a value of job.config",
        "why": "the chart merges job.config of all files first, then the overlay, whichever file is later",
        "fix": "write the value under the overlay that wins; the finding names it",
    },
    "file-order": {
        "title": "no recipe or profile overrides a value of an earlier site file",
        "why": "later files win, and a recipe or profile is the more general file: what you set before it is lost",
        "fix": "give the site file last; the finding names both lines",
    },
    "placeholder": {
        "title": "no value is still that of the example site file",
        "why": "nothing of this name exists: pods wait for it, or a mount and a download fail when they start",
        "fix": "write the name in your project",
        "bad": "platform:\n  projectId: my-project\n",
        "good": "platform:\n  projectId: team-a-research\n",
    },
    "several-sources": {
        "title": "a volume has one source",
        "why": "values files are merged, so the source of an earlier file stays; the charts refuse such a volume",
        "fix": "keep one source, and set those of earlier files to null",
        "bad": "storage:\n  data:\n    gcsfuse: {bucket: acme}\n    existingClaim: {name: shared}\n",
        "good": "storage:\n  data:\n    gcsfuse: null\n    existingClaim: {name: shared}\n",
    },
    "digest-of-another-image": {
        "title": "the digest is one of the image that the last file names",
        "why": "the pods ask for that digest and ignore the tag: they wait in ImagePullBackOff, or run another image",
        "fix": "set images.training.digest to '' or to the digest of your image, beside its repository and tag",
    },
    "removes-nothing": {
        "title": "a reward or a prompt that is null removes one of an earlier file",
        "why": "null deletes an entry, so the run goes on without it, in silence; its content was forgotten",
        "fix": "write the content, give it with --set-file in every command of the run, or delete the line",
        "bad": "job:\n  rewards:\n    polite:\n",
        "good": "job:\n  rewards:\n    polite:\n      weight: 0.5\n",
    },
}
_READ: Final = "the framework reads the column in every row, or compares the answer in it with every response"
_DATA: Final[dict[str, dict[str, str]]] = {
    "not-a-row": {
        "title": "every line of a sample of the data is a JSON object",
        "why": "the framework reads the whole file when it starts, and ends at such a line",
        "fix": "write one JSON object a line",
        "bad": "{question: 1 + 1?}\n",
        "good": '{"question": "1 + 1?", "answer": "2"}\n',
    },
    "column-missing": {
        "title": "the data has the columns that the run reads",
        "why": _READ,
        "fix": "name a column that the data has, as the finding says",
    },
    "wrong-type": {
        "title": "a column of the data has what the run reads there: a text, chat messages or a map",
        "why": _READ,
        "fix": "write what the finding says",
    },
    "empty-question": {
        "title": "every row of the data has a question",
        "why": "the model gets a prompt without a question, and learns nothing from it",
        "fix": "remove these rows",
    },
    "answer-unreadable": {
        "title": "every expected answer is one that the reward can read",
        "why": "a whole solution in the place of its final answer gives every response reward 0",
        "fix": "write the final answer alone, as task prepare-data does",
        "bad": '{"question": "1 + 1?", "answer": "One and one are two.\\n#### 2"}\n',
        "good": '{"question": "1 + 1?", "answer": "2"}\n',
    },
    "source-without-reward": {
        "title": "verl has a reward for the data source of every row, or job.rewards has one",
        "why": "the run ends at its first reward: every pod has started, and a batch has been generated",
        "fix": "set job.rewards, or write the name of a data source that verl knows",
    },
    "too-few-rows": {
        "title": "the data has enough rows for the steps of the run",
        "why": "both frameworks leave out an incomplete batch, so the run ends early, or at once",
        "fix": "lower the batch or the steps, raise the epochs, or add rows",
    },
    "another-name": {
        "title": "the data has the name of the file that the run reads",
        "why": "the run ends at set-up if no such file is on the volume: every pod has started",
        "fix": "correct the name in the values, or on the volume",
        "severity": WARNING,
    },
    "prompt-too-long": {
        "title": "no question has more words than a prompt may have tokens",
        "why": "silent: NeMo RL leaves the row out of the loss, and verl filters it out or cuts it",
        "fix": "remove or shorten these rows, or raise the length",
    },
    "column-types": {
        "title": "the values of a column have one type, which loading keeps",
        "why": "datasets 4.4 refuses a file with texts and numbers in a column, and makes times of dates",
        "fix": "write all values of the column as texts",
        "severity": WARNING,
    },
    "validation-in-training": {
        "title": "no row of the validation is one of the training",
        "why": "the accuracy of the validation rises with what the model has memorized",
        "fix": "remove these rows from one of the files",
        "severity": WARNING,
    },
}
_CHECKS: Final[dict[str, dict[str, str]]] = {
    "could-not-run": {
        "title": "every file can be read, and every chart can be rendered",
        "why": "nothing behind the file or chart could be judged, so no other finding is no sign that all is well",
        "fix": "do what the finding says; it names the file and the reason",
    },
    "ignored-nothing": {
        "title": "every entry of checks.ignore accepts a finding",
        "why": "an unnecessary exception hides the next mistake of its kind",
        "fix": "remove the line, or correct the id; grpo rules lists the ids",
        "bad": "checks:\n  ignore:\n    nemo-rl/no-such-rule: we know\n",
        "good": "checks:\n  ignore: {}\n",
    },
}
_WIRING: Final[dict[str, dict[str, str]]] = {
    "conflict": {
        "title": "no object has a value of its own where the wiring needs another one",
        "why": "with the object's value the pod lacks an interface, a device or a setting of this machine",
        "fix": "remove it, or choose with --on-conflict keep or --on-conflict replace",
        "bad": "env:\n- name: NCCL_NET\n  value: Socket\n",
        "good": "env: []\n",
    },
    "nothing-wired": {
        "title": "a stream with GPUs or a Ray cluster has a pod that is wired",
        "why": "Helm hides what a post-renderer that succeeds says, and the pods would train over TCP",
        "fix": "let one container take all GPUs of a node, give the values of the pods' machine, or --allow-unwired",
        "bad": "limits:\n  nvidia.com/gpu: 4\n",
        "good": "limits:\n  nvidia.com/gpu: 8\n",
    },
}


def _rules() -> Iterator[Problem]:
    of_domains = (
        ("values", VALUES, _VALUES),
        ("data", VALUES, _DATA),
        ("checks", VALUES, _CHECKS),
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
                bad=text.get("bad", ""),
                good=text.get("good", ""),
            )


READING: Final = tuple(_rules())
