"""Measure the GPU memory that `grpo plan` has to predict, on a CPU and without data.

Every tensor is a fake tensor (`FakeTensorMode`): shapes, types and storage lifetimes are
real, contents are not. Memory is the sum of the storages that are alive, so allocator
slack, CUDA context, NCCL buffers and scratch space inside kernels are *not* included.

Models are the transformers classes, built from the geometry in models.json. Attention is
a stand-in for flash attention: it keeps query, key, value, output and one float32
log-sum-exp per head and token, and never the scores or a mask.

Parts, one YAML row per number (unit: bytes):

1. `parameters`: exact counts (the unit here is parameters, not bytes).
2. `activations_layer`, `activations_stack`: what stays alive after the forward pass of one
   decoder layer (difference of a three- and a two-layer model) and of all layers without
   logits (including embedding and final norm), bf16 weights, no sharding. `saved` is the
   same counted with saved-tensor hooks instead of storage lifetimes; checkpoint wrappers
   keep keyword arguments alive without saving them, so it can be lower.
3. `forward_end`, `train_step`, `train_step_layers`, `optimizer_step`, `logprob_step`: one
   rank of FSDP2 (`fully_shard` per layer and root, root kept gathered, float32 master
   weights, bf16 compute, float32 reduction, AdamW) under torch's `FSDPMemTracker` with a
   fake process group. Adam state and gradients exist before the step, as in any
   micro-batch after the first. `train_step` is the peak of forward, loss and backward;
   `train_step_layers` the peak of the backward pass once no logits are alive;
   `forward_end` is the state between forward and loss.
   - `nemo_rl`: `output_dtype=float32` for each unit, logits float32, log_softmax, gather.
   - `verl`: no output type, bf16 logits, flash-attention cross entropy (in-place backward).
   Checkpointing: `none`; `submodule` (NeMo RL DTensor v1); `layer` (FSDP hooks outside the
   checkpoint, transformers >= 5.2x); `layer_call` (hooks inside, transformers <= 5.6: the
   checkpoint then keeps the layer input before FSDP casts it to bf16).
   `gathered` = unsharded parameters, all-gather and reduce-scatter buffers, and unsharded
   gradients that FSDP already owns, plus vocabulary-sized weight gradients.
   `temporary` = the other tensors made in the backward pass.
4. `logits_*`: peak bytes per (token x vocabulary) element of each path from logits to
   token log-probabilities, and `optimizer_extra`: bytes per parameter that foreach AdamW
   needs on top of weight, gradient and two moments.

Run: python measure.py > measured.yaml (minutes, one core).
"""

from __future__ import annotations

import gc
import json
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

os.environ["USE_HUB_KERNELS"] = "NO"

import torch
import torch.distributed as dist
import transformers
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker, _FSDPRefType
from torch.distributed._tools.mem_tracker import _RefType, _State
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.weak import WeakIdKeyDictionary
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

GEOMETRY = Path(__file__).parents[2] / "schemas/generated/models.json"
MODELS = ("meta-llama/Llama-3.2-1B-Instruct", "Qwen/Qwen3-0.6B", "google/gemma-3-1b-it")
UNTIED = " (untied)"
STEP_TOKENS = (512, 2048, 4096, 16384)
ACTIVATION_SHAPES = ((1, 512), (1, 1024), (1, 2048), (2, 1024))
STEP_CASES = (
    ("nemo_rl", "none"),
    ("nemo_rl", "submodule"),
    ("nemo_rl", "layer"),
    ("nemo_rl", "layer_call"),
    ("verl", "none"),
    ("verl", "layer"),
)
LOGIT_TOKENS, LOGIT_VOCABULARY, LOGIT_CHUNK = 1024, 131072, 128
ATTENTION = "lean_attention"


# --------------------------------------------------------------------- output


def write_row(what: str, numbers: Mapping[str, float], **labels: Any) -> None:
    """Print one row as a YAML flow mapping."""
    order = ("model", "what", "framework", "mode", "world", "batch", "tokens")
    row: dict[str, Any] = {"what": what, **labels}
    head = {key: row[key] for key in order if key in row}
    tail: dict[str, Any] = {"bytes": numbers, **({"note": row["note"]} if "note" in row else {})}
    print(f"- {json.dumps(head | tail)}", flush=True)


# ------------------------------------------------------------------- attention


class LeanAttention(torch.autograd.Function):
    """Allocate what flash attention allocates, and compute nothing."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Keep the inputs, the output and one float32 per head and token."""
        output = torch.empty_like(query)
        log_sum = query.new_empty(query.shape[:3], dtype=torch.float32)
        ctx.save_for_backward(query, key, value, output, log_sum)
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return one gradient for each input."""
        query, key, value, _, _ = ctx.saved_tensors
        return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def lean_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any
) -> tuple[Tensor, None]:
    """Serve as a transformers attention function."""
    return LeanAttention.apply(query, key, value).transpose(1, 2).contiguous(), None


ALL_ATTENTION_FUNCTIONS.register(ATTENTION, lean_attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(ATTENTION, lambda *args, **kwargs: None)


# ---------------------------------------------------------------------- models


def build_model(name: str, dtype: torch.dtype, layers: int | None = None) -> PreTrainedModel:
    """Build a model from its geometry, with fewer layers where asked."""
    geometry = dict(json.loads(GEOMETRY.read_text())[name.removesuffix(UNTIED)])
    for key in ("source", "architectures"):
        geometry.pop(key)
    if name.endswith(UNTIED):
        geometry["tie_word_embeddings"] = False
    config = AutoConfig.for_model(geometry.pop("model_type"), **geometry)
    if layers:
        config.num_hidden_layers = layers
        config.layer_types = (getattr(config, "layer_types", None) or [])[:layers] or None
    config.use_cache = False
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=ATTENTION)
    return model.train()


def add_checkpointing(model: PreTrainedModel, mode: str) -> None:
    """Add the checkpoints that sit inside the FSDP units."""
    if mode == "layer":
        options = {"use_reentrant": False, "preserve_rng_state": False}
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
    if mode == "submodule":
        for layer in model.model.layers:
            for part in ("mlp", "self_attn", "input_layernorm", "post_attention_layernorm"):
                wrapped = checkpoint_wrapper(getattr(layer, part), preserve_rng_state=False)
                setattr(layer, part, wrapped)


def shard(model: PreTrainedModel, mesh: DeviceMesh, framework: str, mode: str) -> None:
    """Apply FSDP2 to each layer and the root (verl: also to an untied embedding and head)."""
    output = torch.float32 if framework == "nemo_rl" else None
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, output)
    layers = model.model.layers
    for index in range(len(layers)):
        fully_shard(layers[index], mesh=mesh, mp_policy=policy)
        if mode == "layer_call":
            layers[index] = checkpoint_wrapper(layers[index], preserve_rng_state=False)
    if framework == "verl" and not model.config.tie_word_embeddings:
        for part in (model.model.embed_tokens, model.lm_head):
            fully_shard(part, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)


# ---------------------------------------------------------------- live storages


class LiveMemory(TorchDispatchMode):
    """Add up the storages that operations create and that are still alive."""

    def __init__(self, skip: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self.current = 0
        self.peak = 0
        self.seen: WeakIdKeyDictionary = WeakIdKeyDictionary()
        for tensor in skip:
            self.seen[tensor.untyped_storage()] = 0

    def add(self, tensor: Tensor) -> None:
        """Count a storage once, until it dies."""
        storage = tensor.untyped_storage()
        if storage in self.seen:
            return
        size = storage.nbytes()
        self.seen[storage] = size
        self.current += size
        self.peak = max(self.peak, self.current)
        weakref.finalize(storage, self.remove, size)

    def remove(self, size: int) -> None:
        """Forget a storage that died."""
        self.current -= size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Run an operation and count its results."""
        result = func(*args, **(kwargs or {}))
        tree_map_only(Tensor, self.add, result)
        return result


@contextmanager
def count_saved(skip: set[int], total: list[int]) -> Iterator[None]:
    """Add up the storages that autograd saves, without those in `skip`."""
    seen = set(skip)
    keep: list[torch.UntypedStorage] = []

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if id(storage) not in seen:
            seen.add(id(storage))
            keep.append(storage)
            total[0] += storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield
    keep.clear()


# ------------------------------------------------------- 1 and 2: plain modules


def measure_parameters(name: str) -> None:
    """Write exact parameter counts."""
    with FakeTensorMode():
        model = build_model(name, torch.bfloat16)
        counts: dict[str, float] = {
            "total": sum(p.numel() for p in model.parameters()),
            "embedding": model.model.embed_tokens.weight.numel(),
            "layer": sum(p.numel() for p in model.model.layers[0].parameters()),
            "final_norm": sum(p.numel() for p in model.model.norm.parameters()),
        }
    write_row("parameters", counts, model=name, note="parameters, not bytes; embedding is tied")


def stack_activations(name: str, mode: str, layers: int | None, batch: int, length: int) -> tuple[int, int]:
    """Return live and saved bytes after a forward pass without logits."""
    with FakeTensorMode():
        model = build_model(name, torch.bfloat16, layers)
        add_checkpointing(model, mode)
        ids = torch.zeros(batch, length, dtype=torch.long)
        given = [*model.parameters(), *model.buffers(), ids]
        saved = [0]
        live = LiveMemory(given)
        with live, count_saved({id(t.untyped_storage()) for t in given}, saved):
            output = model.model(input_ids=ids).last_hidden_state
        held = live.current
        del output
    return held, saved[0]


def measure_activations(name: str, mode: str) -> None:
    """Write activation bytes of one layer and of the stack, with their slopes."""
    shapes: dict[tuple[int, int], dict[str, int]] = {shape: {} for shape in ACTIVATION_SHAPES}
    for batch, length in ACTIVATION_SHAPES:
        three = stack_activations(name, mode, 3, batch, length)
        two = stack_activations(name, mode, 2, batch, length)
        whole = stack_activations(name, mode, None, batch, length)
        layer = (three[0] - two[0], three[1] - two[1])
        for what, (held, saved) in (("layer", layer), ("stack", whole)):
            shapes[batch, length][what] = held
            per_token = held / (batch * length)
            numbers = {"activations": held, "saved": saved, "per_token": per_token}
            labels = {"model": name, "mode": mode, "batch": batch, "tokens": batch * length}
            write_row(f"activations_{what}", numbers, **labels)
    for what in ("layer", "stack"):
        slope = (shapes[1, 2048][what] - shapes[1, 512][what]) / 1536
        label = f"activations_{what}_slope"
        write_row(label, {"per_token": slope}, model=name, mode=mode, note="512 to 2048 tokens")


# ------------------------------------------------------------- 3: sharded steps


class StepTracker(FSDPMemTracker):
    """Track FSDP memory, tell logits apart and keep the peak of each phase."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, width: int) -> None:
        super().__init__(model, optimizer)
        self.width = width
        self.backward = False
        self.kinds: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self.peaks: dict[str, dict[str, int]] = {}

    def _track(self, reftype: _RefType, t: Tensor) -> None:
        """Label new storages by their shape."""
        storage = t.untyped_storage()
        is_new = storage not in self._WINFO
        super()._track(reftype, t)
        if is_new and t.dim() >= 2 and self.width in (t.shape[-1], t.shape[0]):
            self.kinds[storage] = "logits" if t.shape[-1] == self.width else "gathered"

    def _update_peak_stats(self, peak_state: _State) -> None:
        """Keep a snapshot where the current total is the highest of its phase."""
        has_logits = "logits" in self.kinds.values()
        phase = "logits" if has_logits else "backward" if self.backward else "forward"
        total = sum(values["Total"] for values in self._curr_mem_snap.values())
        if total > self.peaks.get(phase, {"peak": -1})["peak"]:
            self.peaks[phase] = self.snapshot()

    def snapshot(self) -> dict[str, int]:
        """Return the bytes of each kind that are alive now."""
        now: dict[Any, int] = {}
        for values in self._curr_mem_snap.values():
            now = {key: now.get(key, 0) + value for key, value in values.items()}
        ref = _FSDPRefType
        gathered = (ref.UNSHARDED_PARAM, ref.UNSHARDED_GRAD, ref.ALL_GATHER, ref.REDUCE_SCATTER)
        result = {
            "parameters": now.get(ref.SHARDED_PARAM, 0),
            "gradients": now.get(ref.SHARDED_GRAD, 0),
            "optimizer": now.get(ref.OPT, 0),
            "gathered": sum(now.get(kind, 0) for kind in gathered),
            "activations": sum(now.get(kind, 0) for kind in (ref.ACT, ref.BUFFER, ref.INP)),
            "logits": 0,
            "temporary": now.get(ref.TEMP, 0),
            "peak": now.get("Total", 0),
        }
        self.move_labelled(result)
        return result

    def move_labelled(self, result: dict[str, int]) -> None:
        """Move labelled storages out of activations and temporaries."""
        sources = {_FSDPRefType.ACT: "activations", _FSDPRefType.TEMP: "temporary"}
        for storage, kind in list(self.kinds.items()):
            info = self._WINFO[storage][0]
            if info.reftype in sources:
                result[sources[info.reftype]] -= info.mem_consumed
                result[kind] += info.mem_consumed


class FlashCrossEntropy(torch.autograd.Function):
    """Allocate like flash-attention's cross entropy."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, in_place: bool) -> Tensor:
        """Keep the logits and one log-sum-exp per token."""
        ctx.in_place = in_place
        log_sum = logits.new_empty(labels.shape, dtype=torch.float32)
        ctx.save_for_backward(logits, log_sum, labels)
        return torch.empty_like(log_sum)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """Overwrite the logits with their gradient where that is allowed."""
        logits: Tensor = ctx.saved_tensors[0]
        return logits.detach() if ctx.in_place else torch.empty_like(logits), None, None


def nemo_rl_logprobs(logits: Tensor, ids: Tensor) -> Tensor:
    """Follow `get_next_token_logprobs_from_logits` without tensor parallelism."""
    shifted = logits.to(torch.float32)[:, :-1].contiguous()  # CUDA's log_softmax copies too
    logprobs = torch.nn.functional.log_softmax(shifted, dim=-1)
    del shifted
    return logprobs.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)


def verl_logprobs(logits: Tensor, ids: Tensor, in_place: bool = True) -> Tensor:
    """Follow `logprobs_from_logits_flash_attn` at temperature 1 without entropy."""
    flat = logits.reshape(-1, logits.shape[-1])
    return FlashCrossEntropy.apply(flat, ids.reshape(-1), in_place)


def forward_backward(model: nn.Module, ids: Tensor, framework: str, tracker: StepTracker) -> dict[str, int]:
    """Run one micro-batch and return the memory between forward and loss."""
    logprobs_of = nemo_rl_logprobs if framework == "nemo_rl" else verl_logprobs
    with torch.autocast("cpu", torch.bfloat16):
        output = model(input_ids=ids, use_cache=False)
        logits = output.logits
        del output
        after_forward = tracker.snapshot()
        logprobs = logprobs_of(logits, ids)
        del logits
        loss = logprobs.sum()
        tracker.backward = True
        loss.backward()
    return after_forward


def no_grad_logprobs(model: nn.Module, ids: Tensor, framework: str) -> None:
    """Run the log-probability pass as the framework does."""
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        logits = model(input_ids=ids, use_cache=False).logits
        path = nemo_rl_logprobs_no_grad if framework == "nemo_rl" else verl_logprobs
        path(logits, ids)


def nemo_rl_logprobs_no_grad(logits: Tensor, ids: Tensor) -> Tensor:
    """Follow DTensor `get_logprobs` without tensor parallelism and chunks."""
    logprobs = torch.nn.functional.log_softmax(logits.to(torch.float32), dim=-1)
    return logprobs[:, :-1].gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)


def prepare_step(
    name: str, framework: str, mode: str, mesh: DeviceMesh
) -> tuple[PreTrainedModel, torch.optim.Optimizer]:
    """Build a sharded model with Adam state and gradients in place."""
    model = build_model(name, torch.float32)
    add_checkpointing(model, mode)
    shard(model, mesh, framework, mode)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, foreach=True)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    return model, optimizer


def measure_train_step(name: str, framework: str, mode: str, tokens: int, mesh: DeviceMesh) -> None:
    """Write the peaks of forward, backward and optimizer step on one rank."""
    labels: dict[str, Any] = {"model": name, "framework": framework, "mode": mode}
    labels |= {"world": mesh.size(), "batch": 1, "tokens": tokens}
    with FakeTensorMode():
        model, optimizer = prepare_step(name, framework, mode, mesh)
        tracker = StepTracker(model, optimizer, model.config.vocab_size)
        ids = torch.zeros(1, tokens, dtype=torch.long)
        with tracker:
            after_forward = forward_backward(model, ids, framework, tracker)
        phase = max(tracker.peaks, key=lambda key: tracker.peaks[key]["peak"])
        write_row("forward_end", after_forward, **labels)
        write_row("train_step", tracker.peaks[phase], **labels, note=f"peak in phase: {phase}")
        write_row("train_step_layers", tracker.peaks["backward"], **labels)
        if tokens == STEP_TOKENS[0]:
            measure_optimizer_step(model, optimizer, labels)


def measure_optimizer_step(model: PreTrainedModel, optimizer: torch.optim.Optimizer, labels: dict[str, Any]) -> None:
    """Write the peak of one optimizer step, its extra lists as temporary."""
    tracker = StepTracker(model, optimizer, model.config.vocab_size)
    with tracker:
        optimizer.step()
    peak = max(tracker.peaks.values(), key=lambda snapshot: snapshot["peak"])
    peak["temporary"] += peak["optimizer"] - 2 * peak["parameters"]
    peak["optimizer"] = 2 * peak["parameters"]
    write_row("optimizer_step", peak, **labels)


def measure_logprob_step(name: str, framework: str, tokens: int, mesh: DeviceMesh) -> None:
    """Write the peak of a log-probability pass; optimizer and gradients are absent."""
    with FakeTensorMode():
        model = build_model(name, torch.float32).eval()
        shard(model, mesh, framework, "none")
        unused = torch.optim.AdamW(model.parameters())
        tracker = StepTracker(model, unused, model.config.vocab_size)
        ids = torch.zeros(1, tokens, dtype=torch.long)
        with tracker:
            no_grad_logprobs(model, ids, framework)
        peak = max(tracker.peaks.values(), key=lambda snapshot: snapshot["peak"])
    labels = {"model": name, "framework": framework, "mode": "none"}
    write_row("logprob_step", peak, **labels, world=mesh.size(), batch=1, tokens=tokens)


# --------------------------------------------------- 4: logit paths and optimizer


class DistributedLogprob(torch.autograd.Function):
    """Follow NeMo RL's function of this name (model_utils.py:120), one vocabulary shard."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, grad: bool) -> Tensor:
        """Compute log-probabilities of a shard and keep its softmax."""
        logits = logits.to(torch.float32)
        log_probs = distributed_log_softmax(logits)
        softmax = log_probs.exp()
        log_probs = torch.gather(log_probs, -1, target.unsqueeze(-1)).squeeze(-1)
        if grad:
            ctx.save_for_backward(softmax, target)
        return log_probs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """Negate and scale the softmax, then add the chosen entries."""
        softmax, target = ctx.saved_tensors
        grad_input = softmax.neg().mul_(grads[0].unsqueeze(-1))
        grad_input.view(-1).scatter_add_(0, target.reshape(-1), grads[0].reshape(-1))
        return grad_input, None, None


@torch.no_grad()
def distributed_log_softmax(logits: Tensor) -> Tensor:
    """Follow `_compute_distributed_log_softmax`; the reductions need no large buffer."""
    logits = logits - torch.amax(logits, dim=-1, keepdim=True)
    sum_exp = logits.exp().sum(-1, keepdim=True).float()
    return logits - sum_exp.log()


def tensor_parallel_logprobs(logits: Tensor, ids: Tensor, grad: bool) -> Tensor:
    """Take the path of vocabulary-sharded logits."""
    return DistributedLogprob.apply(logits, ids.roll(-1, -1), grad)[:, :-1]


def chunked_logprobs_no_grad(logits: Tensor, ids: Tensor) -> Tensor:
    """Follow DTensor `get_logprobs` with `logprob_chunk_size` without tensor parallelism."""
    chunks = [
        torch.nn.functional.log_softmax(part.to(torch.float32), dim=-1) for part in logits.split(LOGIT_CHUNK, dim=1)
    ]
    logprobs = torch.cat(chunks, dim=1)
    del chunks
    return logprobs[:, :-1].gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)


def entropy(logits: Tensor) -> Tensor:
    """Follow verl's `entropy_from_logits` in eager mode under CUDA autocast."""
    probabilities = torch.softmax(logits.float(), dim=-1)
    return torch.logsumexp(logits, dim=-1) - torch.sum(probabilities * logits, dim=-1)


def verl_entropy_logprobs(logits: Tensor, ids: Tensor) -> Tensor:
    """Add the entropy to verl's log-probabilities, as for old log-probabilities."""
    return entropy(logits).reshape(-1) + verl_logprobs(logits, ids, in_place=False)


def verl_scaled_logprobs(logits: Tensor, ids: Tensor) -> Tensor:
    """Divide by a temperature other than 1 first; the caller keeps the unscaled logits."""
    temperature = logits.new_ones(logits.shape[1], 1)
    return verl_logprobs(logits / temperature, ids)


def logit_peak(path: Callable[[Tensor, Tensor], Tensor], cast: bool, grad: bool, batch: int) -> float:
    """Return the peak bytes per (token x vocabulary) element of one path."""
    shape = (batch, LOGIT_TOKENS // batch)
    with FakeTensorMode(), torch.set_grad_enabled(grad):
        hidden = torch.zeros(*shape, 1, dtype=torch.bfloat16, requires_grad=True)
        head = nn.Linear(1, LOGIT_VOCABULARY, bias=False, dtype=torch.bfloat16)
        ids = torch.zeros(shape, dtype=torch.long)
        live = LiveMemory()
        with live:
            logits = head(hidden)
            logits = logits.float() if cast else logits
            logprobs = path(logits, ids)
            del logits
            if grad:
                logprobs.sum().backward()
        del logprobs
    return round(live.peak / (LOGIT_TOKENS * LOGIT_VOCABULARY), 2)


def measure_logits() -> None:
    """Write the peak of each logit path."""
    shard_train = partial(tensor_parallel_logprobs, grad=True)
    shard_logprob = partial(tensor_parallel_logprobs, grad=False)
    cases: tuple[tuple[str, str, Any, bool, bool], ...] = (
        ("nemo_rl", "train, tp 1", nemo_rl_logprobs, True, True),
        ("nemo_rl", "train, tp > 1 (per shard)", shard_train, True, True),
        ("nemo_rl", "logprobs, tp 1", nemo_rl_logprobs_no_grad, True, False),
        ("nemo_rl", "logprobs, tp 1, chunks", chunked_logprobs_no_grad, True, False),
        ("nemo_rl", "logprobs, tp > 1 (per shard)", shard_logprob, True, False),
        ("verl", "train, flash cross entropy", verl_logprobs, False, True),
        ("verl", "train, temperature not 1", verl_scaled_logprobs, False, True),
        ("verl", "train, eager entropy", verl_entropy_logprobs, False, True),
        ("verl", "logprobs, flash cross entropy", verl_logprobs, False, False),
        ("verl", "logprobs, eager entropy", verl_entropy_logprobs, False, False),
    )
    for framework, mode, path, cast, grad in cases:
        for batch in (1, 2):
            numbers = {"per_element": logit_peak(path, cast, grad, batch)}
            what = "logits_train" if grad else "logits_logprob"
            write_row(what, numbers, framework=framework, mode=mode, batch=batch)


def measure_optimizer_extra(foreach: bool, count: int = 64, size: int = 1 << 20) -> None:
    """Write the bytes that an AdamW step adds, per parameter."""
    with FakeTensorMode():
        parameters = [nn.Parameter(torch.zeros(size)) for _ in range(count)]
        for parameter in parameters:
            parameter.grad = torch.zeros(size)
        optimizer = torch.optim.AdamW(parameters, foreach=foreach)
        optimizer.step()
        state = [t for values in optimizer.state.values() for t in values.values()]
        grads = [p.grad for p in parameters if p.grad is not None]
        live = LiveMemory([*parameters, *grads, *state])
        with live:
            optimizer.step()
    basis = count * size if foreach else size
    note = "per parameter of all tensors" if foreach else "per parameter of the largest tensor"
    labels = {"mode": f"foreach={foreach}", "note": f"float32, second step; {note}"}
    write_row("optimizer_extra", {"per_parameter": live.peak / basis}, **labels)


# ------------------------------------------------------------------------- main


@contextmanager
def fake_world(size: int) -> Iterator[DeviceMesh]:
    """Start a process group that exchanges nothing."""
    dist.init_process_group("fake", rank=0, world_size=size, store=FakeStore())
    yield init_device_mesh("cpu", (size,))
    dist.destroy_process_group()


def measure_steps(names: tuple[str, ...], mesh: DeviceMesh, lengths: tuple[int, ...]) -> None:
    """Write all sharded steps of some models at one world size."""
    for name in names:
        for tokens in lengths:
            for framework, mode in STEP_CASES:
                measure_train_step(name, framework, mode, tokens, mesh)
                gc.collect()
            for framework in ("nemo_rl", "verl"):
                measure_logprob_step(name, framework, tokens, mesh)


def main() -> None:
    """Write the table."""
    print(__doc__.split("\n")[0].join(("# ", " See measure.py.")))
    print("versions:")
    print(f"  python: {sys.version.split()[0]}\n  torch: {torch.__version__}")
    print(f"  transformers: {transformers.__version__}\nunit: bytes\nrows:")
    for name in MODELS:
        measure_parameters(name)
    for name in MODELS:
        for mode in ("none", "submodule", "layer"):
            measure_activations(name, mode)
    measure_logits()
    for foreach in (True, False):
        measure_optimizer_extra(foreach)
    with fake_world(8) as mesh:
        measure_steps(MODELS, mesh, STEP_TOKENS)
        measure_steps((MODELS[0] + UNTIED,), mesh, (512, 4096))
    with fake_world(16) as mesh:
        measure_steps(MODELS, mesh, (2048,))


if __name__ == "__main__":
    main()
