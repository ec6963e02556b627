"""Make a small Qwen2 that adds two digits, right in half of the cases: python3 make_model.py FOLDER SEED [NAME].

NAME is a model of models.json. `verl` is `cpu` with a token for the line break, which verl expects of a Qwen. `cuda`
has heads of 64, which vLLM's attention takes. `memory` has the sizes of Qwen2.5 0.5B and random weights: it fills the
memory as a real model does, and its answers are as long as they may be.

The others are taught with answers of which half are random, so that GRPO finds right and wrong ones to tell apart.
transformers reads the tokenizer as one of Qwen2, which drops every character that it does not know: of a prompt, only
the digits and + are left. So the words around a question do not matter.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

PAD, EOS, UNKNOWN, BOX, CLOSE = "<pad>", "<eos>", "<unk>", "\\boxed{", "}"
WORDS = [PAD, EOS, UNKNOWN, BOX, CLOSE, "+", "=", *"0123456789"]
# As Qwen2 spells it.
BREAK = "\u010a"
IDS = {word: index for index, word in enumerate([*WORDS, BREAK])}
# The prompt asks for \\boxed{}, whose brace is known, and may have line breaks; and = ends the question.
CONTENT = "{% for message in messages %}{{ message['content'].replace('}', '').replace('\\n', '') }}{% endfor %}"
TEMPLATE = CONTENT + "{% if add_generation_prompt %}={% endif %}"
STEPS, ROWS, LEARNING_RATE = 800, 64, 1e-3
UNTAUGHT = "memory"
# What torch's loss passes over.
IGNORED = -100


def make_tokenizer(size: int) -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token a character, and one for the beginning of a box, for a vocabulary of a size."""
    known = {word: index for word, index in IDS.items() if index < size}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=EOS, unk_token=UNKNOWN, chat_template=TEMPLATE
    )


def make_model(name: str) -> Qwen2ForCausalLM:
    """Return a model of models.json with random weights."""
    sizes = json.loads(Path(__file__).with_name("models.json").read_text(encoding="utf-8"))[name]
    return Qwen2ForCausalLM(
        Qwen2Config(
            **{"vocab_size": len(WORDS), **sizes},
            max_position_embeddings=512,
            tie_word_embeddings=True,
            pad_token_id=IDS[PAD],
            eos_token_id=IDS[EOS],
            bos_token_id=None,
        )
    )


def row(dice: random.Random) -> tuple[list[int], int]:
    """Return the tokens of a question with its answer, half of them wrong, and the length of the question."""
    left, right = dice.randrange(10), dice.randrange(10)
    answer = left + right if dice.random() < 0.5 else dice.randrange(19)
    question = [str(left), "+", str(right), "="]
    return [IDS[word] for word in [*question, BOX, *str(answer), CLOSE, EOS]], len(question)


def batch(dice: random.Random) -> dict[str, torch.Tensor]:
    """Return rows with equal lengths; the loss counts the answers only."""
    rows = [row(dice) for _ in range(ROWS)]
    length = max(len(tokens) for tokens, _ in rows)
    inputs = torch.full((ROWS, length), IDS[PAD])
    labels = torch.full((ROWS, length), IGNORED)
    for index, (tokens, start) in enumerate(rows):
        inputs[index, : len(tokens)] = torch.tensor(tokens)
        labels[index, start : len(tokens)] = torch.tensor(tokens[start:])
    return {"input_ids": inputs, "attention_mask": (inputs != IDS[PAD]).long(), "labels": labels}


def teach(model: Qwen2ForCausalLM, seed: int) -> float:
    """Train the model on its examples and return the last loss."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    for _ in range(STEPS):
        loss = model(**batch(dice)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(loss)


def main(folder: str, seed: int, name: str = "cpu") -> None:
    """Write the model with its tokenizer."""
    torch.manual_seed(seed)
    # So small a model is slower with more threads, much slower where other programs want the cores.
    torch.set_num_threads(1)
    model = make_model(name)
    taught = "random weights" if name == UNTAUGHT else f"loss {teach(model, seed):.3f}"
    model.save_pretrained(folder)
    make_tokenizer(model.config.vocab_size).save_pretrained(folder)
    print(f"model of {sum(weight.numel() for weight in model.parameters()):,} parameters, {taught}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
