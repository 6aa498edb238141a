# Built from chapters/ch10_choosing_a_strategy/labs/model_modules.py by `make build`.
"""A model's shape from the model itself, whose blocks are found and whose numbers are counted.

python labs/model_modules.py
"""

import re
from dataclasses import dataclass, replace

import torch
from language_model import Transformer
from model_shapes import Shape
from torch import nn

# ---- Blocks ---------------------------------------------------------------------------------

CONTAINERS = nn.ModuleList, nn.Sequential, nn.ModuleDict
ATTENTION = re.compile("attn|attention|^att|_att", re.IGNORECASE)  # in a name, or a class's name


def is_row_of_equals(module) -> bool:
    """Return whether a module is a container of modules of one class, which have matrices."""
    kinds = {type(child) for child in module.children()}
    return isinstance(module, CONTAINERS) and len(kinds) == 1 and has_matrices(module)


def has_matrices(module) -> bool:
    return any(p.dim() > 1 for p in module.parameters())


def rows_of_equals(module) -> list:
    """List a module's containers of equals, but none inside another one: [(name, container)]."""
    found = []
    for name, inner in module.named_modules():
        if not any(name.startswith(f"{outer}.") for outer, _ in found) and is_row_of_equals(inner):
            found.append((name, inner))
    return found


def members(row) -> list:
    """List a container's modules, each as often as it is there."""
    return list(row.values() if isinstance(row, nn.ModuleDict) else row)


def find_blocks(model) -> list:
    """Return a model's blocks: the longest row of modules of one class.

    Raises  ValueError if there is none
    """
    rows = [members(row) for _, row in rows_of_equals(model)]
    if not rows:
        raise ValueError(
            f"{type(model).__name__} has no ModuleList or Sequential of equal blocks, which a "
            "decoder has"
        )
    return max(rows, key=len)


@dataclass(frozen=True)
class Counts:
    """The numbers in one block, in its matrices unless the name says vectors.

    dense    of what is neither attention, nor experts, nor their router
    inside   width inside the MLP that `dense` is, as far as it is one
    experts  how many; expert: of one of them; expert_inside: the width inside it
    """

    attention: int
    dense: int
    inside: int
    vectors: int
    experts: int = 0
    expert: int = 0
    expert_inside: int = 0
    expert_vectors: int = 0


def find_attention(block) -> tuple[str, ...]:
    """Return what the names of attention's parameters in a block begin with.

    Raises  ValueError if there are none
    """
    found = tuple(
        f"{name}."
        for name, module in block.named_modules()
        if name and has_matrices(module) and
        (ATTENTION.search(name.rpartition(".")[2]) or ATTENTION.search(type(module).__name__))
    )  # fmt: skip
    if not found:
        raise ValueError(
            f"{type(block).__name__} has no attention that can be found: name it, as in "
            "self.attention"
        )
    return found


def find_experts(block, attention) -> tuple[str, int]:
    """Return what the names of experts' parameters begin with, and their number: ("", 0) if none.

    They are modules in a list, or the first dimension of parameters with three: whatever are most.
    """
    found = [("", 0)]
    for name, row in rows_of_equals(block):
        one, *others = members(row)
        matrices = sum(p.dim() > 1 for p in one.parameters())  # one: a row of linear layers
        if others and matrices > 1 and not f"{name}.".startswith(attention):
            found.append((f"{name}.", 1 + len(others)))
    for name, p in block.named_parameters():
        if p.dim() == 3 and len(p) > 1 and not name.startswith(attention):
            found.append((f"{name.rpartition('.')[0]}.", len(p)))
    return max(found, key=lambda one: one[1])


def width_inside(shapes, width) -> int:
    """Return the width inside an MLP whose matrices have these shapes; 0 if it has none.

    If one matrix computes gate and values together, another one is half as wide.
    """
    others = [max(1, a * b // width) for a, b in shapes if width in (a, b)]
    widest = max(others, default=0)
    return widest // 2 if widest / 2 in others else widest


def count_block(block, width) -> Counts:
    """Count the numbers in one block."""
    attention_names = find_attention(block)
    where, experts = find_experts(block, attention_names)
    attention = vectors = dense = expert = expert_vectors = 0
    shapes, expert_shapes = [], []
    for name, p in block.named_parameters():
        size, shape = p.numel(), tuple(p.shape)
        inner = name.removeprefix(where) if experts else name
        listed = inner[0].isdigit()  # an expert of a list; else all of them are in one parameter
        if inner != name and (listed or "." not in inner):
            if p.dim() - (not listed) > 1:
                expert += size
                expert_shapes.append(shape if listed else shape[1:])
            else:
                expert_vectors += size
        elif p.dim() < 2:
            vectors += size
        elif name.startswith(attention_names):
            attention += size
        else:
            dense += size
            shapes.append(shape[-2:])
    router = width * experts  # its matrix is among the others
    return Counts(
        attention, dense - router, width_inside(shapes, width), vectors, experts,
        expert // max(experts, 1), width_inside(expert_shapes, width),
        expert_vectors // max(experts, 1),
    )  # fmt: skip


# ---- What a count does not tell -------------------------------------------------------------

HEADS = "num_heads", "n_heads", "num_attention_heads", "heads", "n_head", "nhead", "num_q_heads"
KV_HEADS = "num_key_value_heads", "n_kv_heads", "num_kv_heads", "kv_heads", "n_kv_head"
SIZES = "head_dim", "head_size", "head_width", "d_head", "size"
CHOSEN = "num_experts_per_tok", "top_k", "topk", "k", "chosen", "num_chosen"
CONTEXTS = "max_position_embeddings", "block_size", "max_seq_len", "context_length", "context"
SETTINGS = "config", "args", "params", "cfg"  # where models keep the numbers they were made of


def find_number(names, places) -> int:
    """Return the first attribute of these names that is a number, or 0."""
    for place in places:
        for settings in (place, *(getattr(place, name, None) for name in SETTINGS)):
            for name in names:
                value = getattr(settings, name, None)
                if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                    return value
    return 0


def find_heads(places, width, attention) -> dict:
    """Return the fields of a Shape that say what attention is like; raise ValueError if unsure."""
    heads, size = find_number(HEADS, places), find_number(SIZES, places)
    values = find_number(("v_head_dim",), places)
    if values:  # multi-head latent attention, whose keys are wider than its values
        size = (find_number(("qk_head_dim",), places) + values) / 2
    heads = heads or (width // size if size and width % size == 0 else 0)
    if not heads:
        raise ValueError(
            f"the number of heads is unknown: give the attention an attribute {HEADS[0]}"
        )
    size = size or width // heads
    said, counted = find_number(KV_HEADS, places) or heads, attention / (2 * width * size) - heads
    is_usual = counted in range(1, heads + 1) and heads % counted == 0 and not values
    kv_heads = int(counted) if is_usual else said
    return {
        "heads": heads, "kv_heads": 0 if kv_heads == heads else kv_heads,
        "head_width": 0 if size * heads == width else size,
        "attention_parameters": 0 if is_usual else attention,
    }  # fmt: skip


def fields_of_mlps(counts, width, places) -> tuple[dict, int]:
    """Return the fields of a Shape that say what its MLPs and experts are like.

    Returns  also the numbers in a block's matrices that belong to none of them
    """
    dense, sparse = (next((c for c in counts if bool(c.experts) is x), None) for x in (False, True))
    one = dense.dense / (width * max(dense.inside, 1)) if dense else 0
    each = sparse.expert / (width * max(sparse.expert_inside, 1)) if sparse else one
    if sparse and each not in (2, 3):
        raise ValueError(f"an expert has {sparse.expert:,} numbers, which are not 2 or 3 matrices")
    matrices = 3 if each >= 3 else 2
    fields, rest = {"is_gated": matrices == 3}, set()
    if dense and dense.dense and not 0 < matrices * width * dense.inside <= dense.dense:
        raise ValueError(
            f"a block has {dense.dense:,} numbers in matrices next to attention, which form no MLP "
            f"of a model that is as wide as its embedding, {width}"
        )
    if dense:
        fields["mlp"] = dense.inside
        rest.add(dense.dense - matrices * width * dense.inside)
    if sparse:
        shared, left = divmod(sparse.dense, matrices * width)
        chosen = find_number(CHOSEN, places)
        if not chosen:
            raise ValueError(
                f"{sparse.experts} experts, and how many of them a token gets is unknown: give the "
                f"router or the model an attribute {CHOSEN[1]}"
            )
        fields |= {
            "mlp": fields.get("mlp", 0), "experts": sparse.experts, "chosen": chosen,
            "expert_mlp": sparse.expert_inside, "shared_mlp": shared,
            "expert_vectors": sparse.expert_vectors,
            "dense_layers": sum(not c.experts for c in counts),
        }  # fmt: skip
        rest.add(left)
    return fields, same(rest, "other matrices")


def same(numbers, what) -> int:
    """Return the number of which all are; raise ValueError if they differ."""
    if len(set(numbers)) > 1:
        raise ValueError(
            f"blocks differ in {what}: {sorted(set(numbers))} numbers; the cost model needs equal "
            "blocks, but for experts"
        )
    return next(iter(numbers))


# ---- Shapes ---------------------------------------------------------------------------------


def shape_of_module(model: nn.Module, context=None) -> Shape:
    """Return the shape of a decoder with equal blocks, which may be on the device "meta".

    Its parameters are exact; weights that two modules share count once. Blocks may differ in that
    some have one MLP and others have experts; the biases that only some have count as end_vectors.

    context  tokens in a training sample; by default as many as the model says it is made for
    Raises   ValueError, in one sentence, if something cannot be found
    """
    blocks = find_blocks(model)
    inside = {id(p) for block in blocks for p in block.parameters()}
    outside = [p for p in model.parameters() if id(p) not in inside]
    tables = [m.weight for m in model.modules() if isinstance(m, nn.Embedding)]
    tables = [table for table in tables if id(table) not in inside]
    if not tables:
        raise ValueError(f"{type(model).__name__} has no nn.Embedding, whose width is the model's")
    vocabulary, width = max(tables, key=len).shape
    places = [m for block in (blocks[0], blocks[-1]) for m in block.modules()] + [model]
    counts = [count_block(block, width) for block in blocks]
    fields, others = fields_of_mlps(counts, width, places)
    attention = same([c.attention for c in counts], "attention") + others
    positions = sum(len(t) for t in tables if t.shape[1] == width) - vocabulary
    ends = sum(p.shape in ((vocabulary, width), (width, vocabulary)) for p in outside)
    shape = Shape(
        layers=len(blocks), width=width, vocabulary=vocabulary, positions=positions,
        context=context or find_number(CONTEXTS, [model]) or positions,
        is_tied=ends < 2, vectors=min(c.vectors for c in counts),
        source=type(model).__name__, **find_heads(places, width, attention), **fields,
    )  # fmt: skip
    if not shape.context:
        raise ValueError("how many tokens a sample has is unknown: say so, as in context=4096")
    rest = sum(p.numel() for p in model.parameters()) - int(shape.parameters)
    if rest < 0:
        raise ValueError("blocks share weights, and the cost model needs blocks with their own")
    return replace(shape, end_vectors=rest)


def main():
    with torch.device("meta"):
        shape = shape_of_module(Transformer(width=4096, layers=32, heads=32), context=2048)
    print(f"{shape.layers} blocks of {int(shape.layer_parameters):,} numbers in matrices and "
          f"{shape.vectors:,} others; {int(shape.parameters):,} parameters")  # fmt: skip


if __name__ == "__main__":
    main()
