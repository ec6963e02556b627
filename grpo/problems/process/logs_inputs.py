"""A run's inputs: data, rewards, checkpoints, models, configuration."""

from __future__ import annotations

from grpo.problems.problem import CONFIGURATION, EXCEPTION, SAME, UNKNOWN, failure
from grpo.problems.sign import printed

_DATA_FRAMES = r"/datasets?/|rl_dataset|dataloader|data_?set|processors?\.py|collate|prepare_data|load_data"
_REWARD_FRAMES = r"reward|compute_score|verif(?:y|ier)|_score\b|environments?/|grader|math_verify"
_ANY = r"^(?:\w+\.)*\w*(?:Error|Exception)\b.*"

DATA = failure(
    "data-set",
    "the data set cannot be read, or has not the form that the run expects",
    CONFIGURATION,
    "compare the columns and rows with the values: grpo try-reward shows what a row becomes; task prepare-data "
    "writes the form "
    "that the charts expect",
    SAME,
    printed(
        "datasetgenerationerror",
        "datasetnotfounderror",
        "datagenerationerror",
        "datafilesnotfounderror",
        "couldn't find any data file at",
        "couldn't find a dataset script at",
        "doesn't exist on the hub or cannot be accessed",
        "unknown split",
        "builderconfig",
        "casterror",
        "couldn't cast",
        "arrowinvalid",
        "arrowtypeerror",
        "parquet magic bytes not found",
        "num_samples should be a positive integer",
        "train dataloader is empty",
        "dataloader is empty",
        "schemainferenceerror",
        "emptydataseterror",
        "unexpectedsplitserror",
        "nonmatchingsplitssizeserror",
        "dataset scripts are no longer supported",
        "not in the dataset",
        "no (supported) data files found",
        unless="warn",
    )
    + printed(
        "error",
        "exception",
        pattern=_ANY,
        general=True,
        frames=_DATA_FRAMES,
        unless="cuda|nccl|ray|worker|hub|connection|timeout|memory|modulenotfound|importerror|huggingface|template",
    )
    + printed("column", pattern=r"column\w* \S+ (?:not|does not|doesn't)\b.*|(?:missing|no such) columns?.*"),
    value="job.config.data",
    earlier=(
        "data/not-a-row data/column-missing data/column-types data/wrong-type "
        "verl/batch-larger-than-data nemo-rl/processor-field"
    ),
)

REWARD = failure(
    "reward",
    "the reward failed",
    UNKNOWN,
    "grpo try-reward runs it on rows of the data without a GPU: a missing answer, another type, a library that "
    "is not in the "
    "image",
    SAME,
    printed(
        "error",
        "exception",
        pattern=_ANY,
        general=True,
        frames=_REWARD_FRAMES,
        unless="cuda|nccl|actor|raytask|connection|memory|hub|modulenotfound|importerror",
    )
    + printed("reward function is not implemented", "not implemented for data_source")
    + printed(
        "reward",
        pattern=r"(?:rewards?|compute_score)\b[^\n]*(?:must be|must return|should return|expected|mismatch|"
        r"not found|cannot be imported|failed).*|grpo: .*rewards?.* found a mistake.*",
        unless="warn",
    ),
    value="job.rewards",
    earlier=(
        "data/source-without-reward verl/reward-manager verl/reward-function-without-name "
        "nemo-rl/environment-workers job/reward-function job/reward-name-undefined job/reward-import-absent "
        "job/reward-import-doubtful"
    ),
)

CHECKPOINT = failure(
    "checkpoint-mismatch",
    "a checkpoint does not fit the model or the configuration, or is not whole",
    CONFIGURATION,
    "grpo checkpoints RUN shows which steps are whole; resume with the model, the parallelism and the "
    "optimizer that wrote it, or "
    "move the broken step away",
    SAME,
    printed(
        "size mismatch for",
        "missing key(s) in state_dict",
        "unexpected key(s) in state_dict",
        "error(s) in loading state_dict",
        "pytorchstreamreader failed",
        "checkpointexception",
        "checkpointingexception",
        "cannot be loaded from the checkpoint",
        "metadataincompletebuffer",
        "headertoolarge",
        "invalidheaderdeserialization",
        "missing key in checkpoint state_dict",
        "checkpoint is incomplete",
        "invalid magic number",
        "unable to load weights from pytorch checkpoint",
        "weights only load failed",
        "is not a checkpoint",
        "loaded state dict contains a parameter group",
        "cannot load a checkpoint",
        "unpicklingerror",
        "no checkpoint found",
        "the checkpoint has",
        "shape mismatch in",
        "you set `ignore_mismatched_sizes`",
    )
    # An error of a save names the file or the disk.
    + printed("safetensorerror", unless=r"(?<!de)serializ|ioerror|storagefull|raytaskerror")
    + printed(
        "checkpoint",
        pattern=r"(?:valueerror|runtimeerror|keyerror|assertionerror|grpo):.*checkpoint[^\n]*(?:mismatch|"
        r"does not match|not complete|incomplete|corrupt|broken|missing|not found|does not exist).*",
    )
    # Each rank of verl reads the file of its number and of the number of all GPUs.
    + printed("_world_size_", pattern=r"(?:FileNotFoundError|\[Errno 2\]).*_world_size_\d+_rank_\d+\.pt.*"),
    value="job.config",
    earlier="verl/checkpoint-contents",
)

MODEL = failure(
    "model-unknown",
    "a library in the image does not know the model or its tokenizer",
    CONFIGURATION,
    "use an image whose transformers and vLLM know this architecture, or another model",
    SAME,
    printed(
        "does not recognize this architecture",
        "are not supported for now",
        "are not currently supported",
        "unrecognized configuration class",
        "unrecognized model in",
        "can't load tokenizer",
        "couldn't instantiate the backend tokenizer",
        "chat_template is not set",
        "no chat template",
        "does not support lora",
        "is not supported by vllm",
        "no module or parameter named",
        "failed to be inspected",
        "has no vllm implementation",
        unless=r"warn|you are using a model of type",
    )
    + printed(
        "trust_remote_code",
        pattern=r"(?:requires you to|must be executed|please pass|set the option|you must)[^\n]*trust_remote_code",
    )
    + printed("templateerror", pattern=r"(?:jinja2\S*)?TemplateError: .*")
    + printed(
        "keyerror",
        pattern=r"^KeyError: .*",
        frames=r"auto_factory|configuration_auto|model_loader|/models/registry|weight_utils|load_weights",
    ),
    value="job.config.policy.model_name",
    earlier="nemo-rl/lora-not-merged",
)

LENGTH = failure(
    "too-long",
    "a prompt or an answer is longer than the model or the engine takes",
    CONFIGURATION,
    "shorten or filter the prompts, or raise the lengths in the configuration together",
    SAME,
    printed(
        "longer than the maximum model length",
        "exceeds the maximum model length",
        "maximum context length",
        "exceeds max_model_len",
        "is greater than the derived max_model_len",
        "prompt is too long",
        "sequence length is longer than the specified maximum",
        "is longer than max_prompt_length",
        "exceeds the model's maximum",
        "max_tokens must be at least 1",
        unless="token indices",
    )
    + printed("sequence_length", pattern=r"sequence_length=\d+ is larger than.*")
    + printed(
        "prompt", pattern=r"prompt (?:length|has|contains)[^\n]*(?:exceeds?|longer than|larger than|greater than).*"
    ),
    value="job.config",
    earlier=(
        "verl/longer-than-model nemo-rl/longer-than-model verl/no-room-for-an-answer "
        "nemo-rl/prompt-longer-than-model data/prompt-too-long"
    ),
)

CONFIG = failure(
    "configuration-refused",
    "the framework refuses its configuration",
    CONFIGURATION,
    "run grpo lint with these values: it knows the keys and types of each version; the line names the key",
    SAME,
    printed(
        "configcompositionexception",
        "missingmandatoryvalue",
        "interpolationkeyerror",
        "interpolationresolutionerror",
        "could not override",
        "error merging override",
        "unrecognized arguments",
        "overrideparseexception",
        "missingconfigexception",
        "invalid choice:",
        "the following arguments are required",
        "unsupportedinterpolationtype",
        "in hydra.main",
    )
    + printed("omegaconf.errors", "configattributeerror", "configkeyerror", "configtypeerror", general=True)
    + printed("validation error", pattern=r"\b\d{1,6} validation errors? for .*|validationerror: .*")
    + printed(
        "must be divisible by",
        "divisible by",
        pattern=r"^(?:\w+\.)*(?:Assertion|Value|Runtime)Error: .*divisible by.*|must be divisible by.*|"
        r"is not divisible by.*",
    )
    + printed(
        "you can't train a model that has been loaded with",
        "could not find the transformer layer class to wrap",
    )
    + printed("target modules", pattern=r"^ValueError: target modules .{0,500} not found in the base model")
    + printed(
        "not support",
        "n't support",
        pattern=r"^(?:\w+\.)*(?:Runtime|Value|Assertion|NotImplemented)Error: .{0,500}(?:does|do)(?: not|n't) (?:yet )?"
        r"support\b.{0,200}\b(?:[TPDEC]P|(?:tensor|pipeline|data|expert|context)[ _-]parallel\w*)\b",
    )
    + printed("jsondecodeerror", frames=r"integrations/deepspeed|deepspeed/runtime/config|load_config")
    + printed("smaller than max_model_len", pattern=r"max_num_batched_tokens.*smaller than max_model_len.*")
    + printed(
        "assertionerror",
        "valueerror",
        pattern=r"^(?:AssertionError|ValueError|NotImplementedError): .*(?:config|must be (?:set|greater|less|"
        r"positive|one of|a multiple)|not supported (?:with|when|for)|is not supported|requires|only supports?|"
        r"invalid|unknown|unsupported|expected|not compatible with).*",
        frames=r"config|__post_init__|validate|arg_utils|__init__",
    ),
    value="job.config",
    earlier=(
        "verl/dangling-reference nemo-rl/dangling-reference job/variable-not-set verl/wrong-type "
        "nemo-rl/wrong-type verl/lora-targets"
    ),
)

NUMBERS = failure(
    "not-a-number",
    "the training produced NaN or infinity",
    UNKNOWN,
    "lower the learning rate, clip gradients, look at the precision and at the step where it began (grpo watch)",
    SAME,
    printed(
        "probability tensor contains either",
        "found nan in",
        "nan in loss",
        "loss is nan",
        "nan loss",
        "found inf or nan",
        "nan detected",
        "nan or inf",
        "got nan",
        "contains nan",
        "returned nan",
        "gradient overflow",
        # DeepSpeed with fp16.
        "current loss scale already at minimum",
        "not finite",
        "non-finite",
        unless=r"warn|\bskip",
    )
    + printed("expected parameter logits", pattern=r"expected parameter \w+ .* to satisfy the constraint.*"),
    place=EXCEPTION,
    value="job.config",
    earlier="verl/temperature-zero nemo-rl/greedy-generation nemo-rl/reward-scaling nemo-rl/betas",
)

ASSERTION = failure(
    "known-to-lint",
    "the framework refuses values that grpo lint refuses before the start",
    CONFIGURATION,
    "run grpo lint with the values files: it has the numbers and what to write",
    SAME,
    (),
    value="job.config",
)
