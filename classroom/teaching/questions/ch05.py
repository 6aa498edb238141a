"""Chapter 05: where memory goes, precision, recomputation."""

import torch

from ..collective_simulation import bytes_of, bytes_per_parameter, empty
from ..question import Question


def step_memory(millions):
    found = {}
    for name, optimizer_of in {
        "adam": torch.optim.Adam,
        "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    }.items():
        found[name] = sum(bytes_per_parameter(optimizer_of).values()) * millions / 1e3
    return found


def bfloat16_memory(billions):
    half = bytes_per_parameter(lambda p: torch.optim.SGD(p, lr=0.1), torch.bfloat16)
    full = bytes_per_parameter(torch.optim.Adam)
    master = full["parameters"] + full["states"]
    return {"half": billions * half["parameters"], "states": billions * master,
            "all": billions * (half["parameters"] + half["gradients"] + master)}  # fmt: skip


def add_small_updates(steps, thousandths):
    """Add small updates to a bfloat16 weight of 1, and to its master weight in float64."""
    weight, master = torch.ones(1, dtype=torch.bfloat16), torch.ones(1, dtype=torch.float64)
    for _ in range(steps):
        weight += torch.tensor([thousandths * 1e-3], dtype=torch.bfloat16)
        master += thousandths * 1e-3
    return {"weight": weight.item(), "master": master.item()}


def smallest_scale(tiny):
    found, scale = torch.tensor(tiny, dtype=torch.float64), 1
    while (found * scale).half() == 0:
        scale *= 2
    return {"scale": scale, "kept": float((found * 1024).half().double() / 1024 * 1e8)}


def scale_on_paper(tiny):
    scale = 1
    while tiny * scale <= 2**-25:  # half of float16's smallest number is rounded to 0
        scale *= 2
    return {"scale": scale, "kept": round(tiny * 1024 / 2**-24) * 2**-24 / 1024 * 1e8}


def scores(samples, heads, context):
    once, twice = (
        bytes_of([empty(samples, heads, length, length, dtype=torch.bfloat16)])
        for length in (context, 2 * context)
    )
    return {"bytes": once / 1e9, "twice": twice / once}


def logits(tokens, vocabulary, chunk):
    return {"whole": bytes_of([empty(tokens, vocabulary)]) / 1e9,
            "chunk": bytes_of([empty(tokens, vocabulary)[:chunk]]) / 1e9}  # fmt: skip


def simulate_recomputation(blocks, inside):
    """Count the work, and the live tensors as inputs of a block, in forward and backward."""
    kept, most, computed = 0, 0, 0
    for _ in range(blocks):
        kept, computed = kept + 1, computed + 1  # the input stays, and the inside is dropped
        most = max(most, kept)
    for _ in range(blocks):
        computed += 1 + 2  # the forward once more, and a backward as long as two
        most = max(most, kept + inside)
        kept -= 1
    plain = blocks * (1 + 2)
    return {"all": sum(1 + inside for _ in range(blocks)), "peak": most,
            "more": 100 * (computed / plain - 1)}  # fmt: skip


def search_batch_size(memory, fixed, each, batch):
    size = 0
    while fixed + (size + 1) * each <= memory:
        size += 1
    parts = 1
    while batch > parts * size:
        parts += 1
    return {"size": size, "parts": parts}


def eight_bits(block):
    numbers = 64 * block
    codes = [torch.empty(numbers, dtype=torch.uint8) for _ in range(2)]
    scales = [torch.empty(numbers // block) for _ in range(2)]
    each = bytes_of(codes + scales) / numbers
    whole = bytes_of([torch.empty(numbers) for _ in range(2)]) / numbers
    return {"each": each, "times": whole / each}


QUESTIONS = [
    Question(
        "5.1", "05", 1, 4,
        "A model of {millions} million parameters trains in float32. How many GB do parameters, "
        "gradients and optimizer states need together with Adam, with SGD with momentum, and with "
        "plain SGD?",
        "{adam:.4g} GB with Adam, {momentum:.4g} GB with momentum, {sgd:.4g} GB with plain SGD.",
        "4 bytes for a parameter, 4 for its gradient; and 8 more for Adam's two states, 4 for a "
        "momentum, none for plain SGD.",
        given={"millions": (500, 350, 1200)},
        solve=lambda millions: {"adam": 16 * millions / 1e3, "momentum": 12 * millions / 1e3,
                                "sgd": 8 * millions / 1e3},
        again=step_memory,
        stated={"adam": 8, "momentum": 6, "sgd": 4},
    ),
    Question(
        "5.2", "05b", 2, 4,
        "{billions} billion parameters train in mixed precision with Adam: parameters and "
        "gradients in 16 bits, a master copy and both moments in float32. How many GB have the "
        "16-bit parameters, how many the master copy with both moments, and how many all states "
        "together?",
        "{half:g} GB, {states:g} GB, and {all:g} GB together.",
        "2 + 2 + (4 + 4 + 4) = 16 bytes for each parameter. That is as much as float32 with Adam "
        "needs: only activations become smaller.",
        given={"billions": (7, 13, 30)},
        solve=lambda billions: {
            "half": 2 * billions, "states": 12 * billions, "all": 16 * billions},
        again=bfloat16_memory,
        stated={"half": 14, "states": 84, "all": 112},
    ),
    Question(
        "5.3", "05b", 2, 5,
        "A bfloat16 weight is 1.0, and {steps} updates of +{thousandths}/1000 are added to it one "
        "by one. What is it afterwards? What would a float32 master copy be, rounding aside?",
        "It is still {weight:g}. The master copy would be {master:g}.",
        "bfloat16 has 8 significant bits: after 1.0 comes 1.0078125. An update of less than half "
        "of that distance, 0.0039, is rounded away, each time anew. A master copy adds them up.",
        given={"steps": (20, 50), "thousandths": (1, 2, 3)},
        solve=lambda steps, thousandths: {
            "weight": 1.0, "master": 1.0 + steps * thousandths * 1e-3},
        again=add_small_updates,
        stated={"weight": 1, "master": 1.02},
    ),
    Question(
        "5.4", "05b", 3, 6,
        "The smallest positive number of float16 is 2^-24, about 5.96e-8; numbers are rounded to "
        "the nearest, and an exact half of it to 0. A gradient is {tiny:g}. What is the smallest "
        "power of two by which the loss has to be scaled, so that the gradient does not become 0? "
        "With a scale of 1024, what does it read after it has been divided by 1024 again, in "
        "float32?",
        "{scale:g}. With 1024 it reads {kept:.4g}e-8.",
        "The scaled gradient has to exceed 2^-25, about 2.98e-8. Below 2^-14 float16 has steps "
        "of 2^-24, so that with a scale of 1024 the gradient is known to 2^-34, about 5.8e-11.",
        given={"tiny": (2e-8, 3e-9, 5e-9)},
        solve=scale_on_paper, again=smallest_scale,
        stated={"scale": 2, "kept": 2.0023},
    ),
    Question(
        "5.5", "05d", 2, 4,
        "Plain attention keeps its scores: samples × heads × context × context numbers. How many "
        "GB are that in 16 bits for {samples} samples, {heads} heads and a context of "
        "{context:,} tokens? How many times as many with a context twice as long?",
        "{bytes:.4g} GB; {twice:g} times as many.",
        "Every token has a score with every token, for each head: the context counts squared. "
        "Fused attention never stores the scores.",
        given={"samples": (2, 4), "heads": (32, 16), "context": (4096, 8192)},
        solve=lambda samples, heads, context: {
            "bytes": 2 * samples * heads * context**2 / 1e9, "twice": 4},
        again=scores,
        stated={"bytes": 2.14748, "twice": 4},
    ),
    Question(
        "5.6", "05e", 1, 4,
        "A model with a vocabulary of {vocabulary:,} tokens computes float32 logits for "
        "{tokens:,} tokens. How many GB are these logits? How many are there at a time if the "
        "loss and its gradient are computed in chunks of {chunk:,} tokens?",
        "{whole:.3g} GB; in chunks {chunk_gb:.3g} GB at a time.",
        "{tokens:,} × {vocabulary:,} × 4 bytes. The loss is a sum over tokens, so each chunk can "
        "go forward and backward by itself.",
        given={"tokens": (8192, 16384), "vocabulary": (128000, 50000), "chunk": (1024, 512)},
        solve=lambda tokens, vocabulary, chunk: {
            "whole": 4 * tokens * vocabulary / 1e9, "chunk_gb": 4 * chunk * vocabulary / 1e9},
        again=lambda tokens, vocabulary, chunk: {
            "whole": (found := logits(tokens, vocabulary, chunk))["whole"],
            "chunk_gb": found["chunk"]},
        stated={"whole": 4.1943, "chunk_gb": 0.524288},
    ),
    Question(
        "5.7", "05f", 3, 7,
        "Each of {blocks} equal blocks keeps its input and {inside} more tensors of the same size "
        "for its backward. How many of them does the whole model keep? How many live at the peak "
        "if each block keeps its input alone and computes its inside again in the backward? "
        "Counting a backward as two forwards, how much more computing is that?",
        "{all:g} tensors; {peak:g} at the peak. {more:.3g} % more computing.",
        "With recomputation all {blocks} inputs are there when the backward begins, and in "
        "addition the inside of one block, {inside}. Each block goes forward once more: 4 in "
        "place of 3.",
        given={"blocks": (32, 24, 80), "inside": (15, 33)},
        solve=lambda blocks, inside: {
            "all": blocks * (1 + inside), "peak": blocks + inside, "more": 100 / 3},
        again=simulate_recomputation,
        stated={"all": 512, "peak": 47, "more": 33.3333},
    ),
    Question(
        "5.8", "05g", 2, 4,
        "A GPU has {memory} GB. The states of a training take {fixed} GB of it, and each sample "
        "that is in memory at the same time takes {each} GB more. How many samples fit at a time? "
        "Into how few micro-batches can a batch of {batch} samples be cut?",
        "{size:g} samples fit, so {parts:g} micro-batches.",
        "({memory} − {fixed}) / {each}, rounded down; then {batch} divided by that, rounded up.",
        given={"memory": (80, 40), "fixed": (32, 24), "each": (1.5, 2.5), "batch": (256, 100)},
        solve=lambda memory, fixed, each, batch: (lambda size: {
            "size": size, "parts": -(-batch // size)})(int((memory - fixed) // each)),
        again=search_batch_size,
        stated={"size": 32, "parts": 8},
    ),
    Question(
        "5.9", "05c", 2, 4,
        "Adam's two states are kept as 8-bit codes, with one float32 scale for each block of "
        "{block} codes. How many bytes are that for each parameter, and how many times fewer than "
        "in float32?",
        "{each:.6g} bytes, {times:.3g} times fewer.",
        "2 × (1 + 4/{block}) bytes in place of 2 × 4. The scales weigh little if the blocks are "
        "large.",
        given={"block": (256, 64, 2048)},
        solve=lambda block: {"each": 2 * (1 + 4 / block), "times": 4 / (1 + 4 / block)},
        again=eight_bits,
        stated={"each": 2.03125, "times": 3.93846},
    ),
]  # fmt: skip
