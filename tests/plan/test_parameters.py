"""Parameters are counted as transformers counts them."""

from __future__ import annotations

import pytest

from grpo.values.frameworks import parameters
from grpo.values.frameworks.model import Model
from grpo.values.reference_errors import UnknownError

# Total, one layer and the embedding, counted on the classes of transformers 5.23 on PyTorch's meta device.
COUNTED = {
    "Qwen/Qwen2.5-0.5B-Instruct": (494032768, 14912384, 136134656),
    "Qwen/Qwen2.5-1.5B-Instruct": (1543714304, 46797824, 233373696),
    "Qwen/Qwen2.5-Math-1.5B-Instruct": (1543714304, 46797824, 233373696),
    "Qwen/Qwen2.5-3B-Instruct": (3085938688, 77076992, 311164928),
    "Qwen/Qwen2.5-7B-Instruct": (7615616512, 233057792, 544997376),
    "Qwen/Qwen2.5-14B-Instruct": (14770033664, 275268608, 778567680),
    "Qwen/Qwen2.5-32B-Instruct": (32763876352, 487605248, 778567680),
    "Qwen/Qwen2.5-72B-Instruct": (72706203648, 877684736, 1245708288),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": (1777088000, 46797824, 233373696),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": (7615616512, 233057792, 544997376),
    "Qwen/Qwen3-0.6B": (596049920, 15730944, 155582464),
    "Qwen/Qwen3-1.7B-Base": (1720574976, 50336000, 311164928),
    "Qwen/Qwen3-4B": (4022468096, 100930816, 388956160),
    "Qwen/Qwen3-8B": (8190735360, 192946432, 622329856),
    "Qwen/Qwen3-14B": (14768307200, 330311936, 777912320),
    "Qwen/Qwen3-32B": (32762123264, 487598336, 777912320),
    "Qwen/Qwen3-30B-A3B": (30532122624, 623120640, 311164928),
    "Qwen/Qwen3-235B-A22B": (235093634560, 2487755008, 622329856),
    "meta-llama/Llama-3.2-1B-Instruct": (1235814400, 60821504, 262668288),
    "meta-llama/Llama-3.2-3B-Instruct": (3212749824, 100669440, 394002432),
    "meta-llama/Llama-3.1-8B-Instruct": (8030261248, 218112000, 525336576),
    "meta-llama/Llama-3.3-70B-Instruct": (70553706496, 855654400, 1050673152),
    "deepseek-ai/deepseek-llm-7b-chat": (6910365696, 202383360, 419430400),
    "mistralai/Mistral-Nemo-Instruct-2407": (12247782400, 272640000, 671088640),
    "openai/gpt-oss-20b": (20914757184, 823186976, 579133440),
    "google/gemma-3-1b-it": (999885952, 26842112, 301989888),
    "google/gemma-3-4b-it": (4300079472, 94382592, 671252480),
    "google/gemma-3-12b-it": (12187325040, 224148992, 1006878720),
    "google/gemma-3-27b-it": (27432406640, 412898560, 1409630208),
    "meta-llama/Llama-3.1-405B-Instruct": (405853388800, 3187703808, 2101346304),
}


@pytest.mark.parametrize("name", COUNTED)
def test_a_parameter_count_is_exact(name: str) -> None:
    counted = parameters.count(Model(name, None))
    assert (counted.total, counted.layer, counted.embedding) == COUNTED[name]


def test_experts_are_counted_within_their_layers() -> None:
    counted = parameters.count(Model("Qwen/Qwen3-30B-A3B", None))
    assert counted.of_experts == 28991029248
    assert counted.total == counted.layers * counted.layer + counted.outside


def test_an_override_changes_the_count() -> None:
    whole = parameters.count(Model("Qwen/Qwen2.5-7B-Instruct", None))
    fewer = parameters.count(Model("Qwen/Qwen2.5-7B-Instruct", {"num_hidden_layers": 27}))
    assert whole.total - fewer.total == whole.layer


@pytest.mark.parametrize(
    "override", [{"mlp_only_layers": [0]}, {"decoder_sparse_step": 2}, {"architectures": ["OtherForCausalLM"]}]
)
def test_an_unknown_shape_is_not_guessed(override: dict[str, object]) -> None:
    with pytest.raises(UnknownError):
        parameters.count(Model("Qwen/Qwen3-30B-A3B", override))
