"""The dimensions of a run's model, and the constraints on them that every framework has.

UnknownError is raised for a model or number that is not in schemas/models.yaml, and for an override that cannot be
resolved; the rule then finds nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grpo.values import models
from grpo.values.reference_errors import UnknownError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo.values.config import RunConfig
    from postrender.types import Json

# As overrides, these decide the length of a sequence; each engine computes it from several numbers in its own way.
_LENGTHENING: Final = ("rope_scaling", "rope_parameters", "model_max_length")
_EXPERTS: Final = ("num_experts", "num_local_experts", "n_routed_experts")
_ALLOWS_LONGER: Final = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
_OFF: Final = ("", "0", "false", "none", "null")


class Model:
    """A model's config.json, with a run's overrides."""

    __slots__ = ("_known", "_over", "name")

    def __init__(self, name: Json, overrides: Json) -> None:
        known = models.load(name) if isinstance(name, str) else None
        if known is None or not isinstance(overrides or {}, dict):
            raise UnknownError(f"the model {name}")
        self.name = name
        self._known: Mapping[str, Any] = known
        self._over: Mapping[str, Any] = overrides or {}

    @property
    def architecture(self) -> str:
        """Return the model's class."""
        if self._overridden("architectures") is not None:
            raise UnknownError("the class of the model")
        return str(self._known["architectures"][0])

    def number(self, key: str) -> int:
        """Return a positive number; raise UnknownError if it is unknown."""
        value = self.value(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UnknownError(key)
        return value

    def experts(self) -> int:
        """Return the number of experts, 0 for a model without experts."""
        found = (self.number(key) for key in _EXPERTS if self.value(key) is not None)
        return next(found, 0)

    def positions(self) -> int:
        """Return the maximum number of tokens in a sequence."""
        if any(self._overridden(key) is not None for key in _LENGTHENING):
            raise UnknownError("the length of a sequence")
        return self.number("max_position_embeddings")

    def kv_heads(self) -> int:
        """Return the number of KV heads."""
        key = "num_key_value_heads"
        return self.number(key) if self.value(key) is not None else self.number("num_attention_heads")

    def head_dim(self) -> int:
        """Return the width of an attention head."""
        if self.value("head_dim") is not None:
            return self.number("head_dim")
        return self.number("hidden_size") // self.number("num_attention_heads")

    def feed_forward(self) -> int:
        """Return the inner width of the MLP; in a model with experts, that of one expert."""
        has_own = self.experts() and self.value("moe_intermediate_size") is not None
        return self.number("moe_intermediate_size" if has_own else "intermediate_size")

    def is_tied(self, *, default: bool) -> bool:
        """Return whether the output layer shares the embedding's weights; `default` is the model class's default."""
        value = self.value("tie_word_embeddings")
        return default if value is None else bool(value)

    def window(self) -> int:
        """Return the window of the layers with sliding attention, in tokens; 0 if all layers attend to all tokens."""
        if self.value("use_sliding_window") is False or self.value("sliding_window") is None:
            return 0
        return self.number("sliding_window")

    def value(self, key: str) -> Json:
        """Return a value; in a multimodal model, most of the language model's values are one level deeper."""
        given = self._overridden(key)
        return given if given is not None else self._known.get(key, _map(self._known.get("text_config")).get(key))

    def _overridden(self, key: str) -> Json:
        text = _map(self._over.get("text_config"))
        return text[key] if key in text else self._over.get(key)


def _map(value: Json) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def uneven_heads(model: Model, size: int, *, repeats: bool) -> str | None:
    """Return an error if GPUs cannot share the attention heads and the KV heads evenly.

    `repeats` is for engines that replicate KV heads if there are more GPUs than KV heads.
    """
    if size < 1:
        raise UnknownError("a size")
    heads, pairs = model.number("num_attention_heads"), model.number("num_key_value_heads")
    shares = pairs % size == 0 or (repeats and size % pairs == 0)
    if heads % size == 0 and shares:
        return None
    return f"{model.name} has {heads} attention heads and {pairs} KV heads"


def no_experts(model: Model) -> str | None:
    """Return an error if a model has no experts."""
    return None if model.experts() else f"{model.name} has no experts"


def allows_longer(run: RunConfig, more: Json = None) -> bool:
    """Return whether a variable lets vLLM accept sequences longer than the model's; `more` are additional variables."""
    runtime = _map(_map(run.value("job.runtimeEnv")).get("env_vars"))
    switches = (run.variable(_ALLOWS_LONGER), *(_map(each).get(_ALLOWS_LONGER) for each in (runtime, more)))
    return any(str(switch).lower() not in _OFF for switch in switches)
