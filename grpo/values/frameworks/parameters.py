"""Compute a model's number of parameters from its config.json, part by part.

The counts match the classes in transformers 5.23; tests/plan/test_parameters.py verifies them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from grpo.values.reference_errors import UnknownError

if TYPE_CHECKING:
    from grpo.values.frameworks.model import Model


class Parameters(NamedTuple):
    """The number of parameters in each part of a model.

    A layer has `attention` (with its norms) and `feed_forward`; in a model with experts, the latter is one of the
    `experts`, of which `router` chooses `active` for each token. `vision` is the tower of a model that takes images.
    """

    layers: int
    attention: int
    feed_forward: int
    experts: int
    active: int
    router: int
    embedding: int
    head: int
    norm: int
    vision: int

    @property
    def layer(self) -> int:
        """Return the number of parameters in one layer."""
        return self.dense_layer + self.experts * self.feed_forward * (self.experts > 1)

    @property
    def dense_layer(self) -> int:
        """Return the number of parameters in one layer without its experts."""
        return self.attention + self.router + self.feed_forward * (self.experts == 1)

    @property
    def total(self) -> int:
        """Return the number of parameters in the complete model."""
        return self.layers * self.layer + self.outside

    @property
    def of_experts(self) -> int:
        """Return the number of parameters in all experts; 0 in a model without experts."""
        return self.layers * self.experts * self.feed_forward * (self.experts > 1)

    @property
    def outside(self) -> int:
        """Return the number of parameters outside the layers."""
        return self.embedding + self.head + self.norm + self.vision


class _Family(NamedTuple):
    """What a model class has besides its matrices."""

    qkv_bias: bool = False
    output_bias: bool = False
    head_norms: bool = False
    norms: int = 2
    experts: bool = False
    expert_bias: bool = False
    sinks: bool = False
    vision: bool = False
    tied: bool = False


FAMILIES: Final = {
    "LlamaForCausalLM": _Family(),
    "MistralForCausalLM": _Family(),
    "Qwen2ForCausalLM": _Family(qkv_bias=True),
    "Qwen3ForCausalLM": _Family(head_norms=True),
    "Qwen3MoeForCausalLM": _Family(head_norms=True, experts=True),
    "MixtralForCausalLM": _Family(experts=True),
    "GemmaForCausalLM": _Family(tied=True),
    "Gemma2ForCausalLM": _Family(norms=4, tied=True),
    "Gemma3ForCausalLM": _Family(head_norms=True, norms=4, tied=True),
    "Gemma3ForConditionalGeneration": _Family(head_norms=True, norms=4, vision=True, tied=True),
    "GptOssForCausalLM": _Family(qkv_bias=True, output_bias=True, experts=True, expert_bias=True, sinks=True),
}
# Keys that change a layer in a way that is not computed here.
_UNKNOWN_SHAPES: Final = ("first_k_dense_replace", "mlp_only_layers", "shared_expert_intermediate_size", "mlp_bias")
# The vision tower of Gemma 3 (SigLIP): transformers' default, which all sizes use.
_VISION_HIDDEN, _VISION_FEED, _VISION_LAYERS, _PATCH, _POSITIONS = 1152, 4304, 27, 14, 4096


def count(model: Model) -> Parameters:
    """Count a model's parameters; raise UnknownError if its class or a shape is unknown."""
    family = FAMILIES.get(model.architecture)
    shaped = any(model.value(key) for key in _UNKNOWN_SHAPES) or model.value("decoder_sparse_step") not in (None, 1)
    if family is None or shaped:
        raise UnknownError(f"the parameters of {model.architecture}")
    hidden, width = model.number("hidden_size"), model.head_dim()
    heads, pairs = model.number("num_attention_heads"), model.kv_heads()
    experts = model.experts() if family.experts else 1
    words = model.number("vocab_size") * hidden
    return Parameters(
        layers=model.number("num_hidden_layers"),
        attention=_attention(family, hidden, width, heads, pairs, qkv_bias=bool(model.value("attention_bias"))),
        feed_forward=_feed_forward(family, hidden, model.feed_forward()),
        experts=experts,
        active=model.number("num_experts_per_tok") if family.experts else 1,
        router=(hidden + family.expert_bias) * experts if family.experts else 0,
        embedding=words,
        head=0 if model.is_tied(default=family.tied) else words,
        norm=hidden,
        vision=_vision(hidden) if family.vision else 0,
    )


def _attention(family: _Family, hidden: int, width: int, heads: int, pairs: int, *, qkv_bias: bool) -> int:
    """Return the number of parameters in attention and in the layer's norms."""
    projections = hidden * width * 2 * (heads + pairs)
    bias = (width * (heads + 2 * pairs)) * (family.qkv_bias or qkv_bias) + hidden * (family.output_bias or qkv_bias)
    norms = family.norms * hidden + 2 * width * family.head_norms
    return projections + bias + norms + heads * family.sinks


def _feed_forward(family: _Family, hidden: int, inner: int) -> int:
    """Return the number of parameters in a gated MLP: two matrices up, one down."""
    return 3 * hidden * inner + (2 * inner + hidden) * family.expert_bias


def _vision(hidden: int) -> int:
    """Return the number of parameters in Gemma 3's vision tower and in its projection to the language model."""
    size, feed = _VISION_HIDDEN, _VISION_FEED
    embeddings = (3 * _PATCH * _PATCH + 1) * size + _POSITIONS * size
    layer = 4 * (size * size + size) + (size * feed + feed) + (feed * size + size) + 2 * 2 * size
    return embeddings + _VISION_LAYERS * layer + 2 * size + size * hidden + size
