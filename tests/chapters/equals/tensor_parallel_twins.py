"""The layers that chapter 07 cuts over ranks, next to the whole ones in one process."""

import torch
from helpers import load_solved_lab
from layer_conditions import LAYERS, ONCE, TWICE, Case, prepare
from torch import nn
from twins import EQUAL, Twin

PARALLEL, SEQUENCE, SHARED, MODELS = map(
    load_solved_lab,
    ("tensor_parallel", "sequence_parallel", "replicated_heads", "language_model"),
)


class Columns(Case):
    """A linear layer of which each rank has some outputs."""

    layer, outputs = PARALLEL.ColumnLinear, 7  # which neither 2, 3 nor 4 divides

    def whole(self):
        outputs = {"together": 8, "fewer than ranks": self.n - 1}.get(self.condition, self.outputs)
        return self.fill(nn.Linear(self.width, outputs, bias=self.condition != "without bias"))

    def split(self, whole):
        return self.layer(whole, self.group, self.together)

    def part_of_output(self, y):
        return self.cut(y, -1)

    def parts_of_gradients(self, gradients):
        return [self.cut(gradient, 0) for gradient in gradients]


class Overlapped(Columns):
    layer = SEQUENCE.OverlapColumnLinear


class Rows(Case):
    """A linear layer of which each rank has some inputs."""

    def __init__(self, condition):
        super().__init__(condition)
        self.width = {"together": 8, "fewer than ranks": self.n - 1}.get(condition, 7)

    def whole(self):
        return self.fill(nn.Linear(self.width, 5, bias=self.condition != "without bias"))

    def split(self, whole):
        return PARALLEL.RowLinear(whole, self.group, self.together)

    def part_of_input(self, x):
        return self.cut(x, -1)

    def parts_of_gradients(self, gradients):
        return [self.cut(gradients[0], 1), *gradients[1:]]


def tie(letters, output):
    """Make a model of an embedding, and a linear layer with the same weights."""
    output.weight = letters.weight
    return nn.Sequential(letters, output)


OPTIONS = {"padding_idx": 0, "max_norm": 1.0, "scale_grad_by_freq": True, "sparse": True}


class Vocabulary(Case):
    """An embedding of which each rank has some tokens' rows."""

    def whole(self):
        tokens = self.n - 1 if self.condition == "fewer than ranks" else 7
        options = {k: v for k, v in OPTIONS.items() if k == self.condition}
        whole = self.fill(nn.Embedding(tokens, self.width, **options))
        return (
            tie(whole, nn.Linear(self.width, 7, bias=False)) if self.condition == "tied" else whole
        )

    def split(self, whole):
        if self.condition == "tied":
            letters, output = whole
            return tie(PARALLEL.VocabularyEmbedding(letters, self.group),
                       PARALLEL.ColumnLinear(output, self.group))  # fmt: skip
        return PARALLEL.VocabularyEmbedding(whole, self.group)

    def part_of_output(self, y):
        return self.cut(y, -1) if self.condition == "tied" else y

    def input(self):
        shape = super().input()[..., 0].shape
        tokens = torch.randint(0, 7, shape, generator=self.chance)
        if self.condition == "not contiguous":
            tokens = torch.randint(0, 7, shape[::-1], generator=self.chance).T
        if self.condition == "fewer than ranks":
            tokens = torch.zeros(0, dtype=torch.int64)
        return tokens.int() if self.condition == "int32" else tokens

    def parts_of_gradients(self, gradients):
        return [self.cut(gradients[0], 0)]


class Heads(Case):
    """Attention of which each rank has some query heads, with a key-value head that it shares."""

    def __init__(self, condition):
        super().__init__(condition)
        self.heads, self.keys = 2 * self.n, self.n // 2 if self.n % 2 == 0 else 1
        if condition == "fewer than ranks":
            self.heads = self.keys = self.n + 1
        self.width = 2 * self.heads

    def whole(self):
        whole = self.fill(MODELS.Attention(self.width, self.heads, self.keys))
        if self.condition in ("frozen weight", "frozen bias"):
            kind = self.condition.split()[1]
            getattr(whole.query_key_value, kind).requires_grad_(False)
        return whole

    def input(self):
        if self.condition == "expanded":  # with equal tokens the queries' gradient is 0
            return self.draw(1, 3, self.width).expand(2, 3, self.width)
        return super().input()

    def split(self, whole):
        return SHARED.FewHeads(whole, self.group)

    def complete(self, layer):
        if isinstance(layer, SHARED.FewHeads):
            layer.sum_shared_gradients()

    def parts_of_gradients(self, gradients):
        *inner, weight, bias = gradients
        mine = [self.rows(gradient) for gradient in inner]
        ordered = [mine[0][0], mine[1][0], mine[0][1], mine[1][1]]
        return [*ordered, self.cut(weight, 1), bias]

    def rows(self, gradient):
        """Return a gradient's rows for this rank's queries, and those for its key and value."""
        if gradient is None:
            return None, None
        each = self.heads // self.n
        of_heads = gradient.unflatten(0, (self.keys, self.heads // self.keys + 2, 2))
        queries = of_heads[:, :-2].flatten(0, 1)[self.rank * each :][:each].flatten(0, 1)
        return queries, of_heads[self.rank * self.keys // self.n, -2:].flatten(0, 1)


CUT = LAYERS | {"fewer than ranks": "cannot be cut into", "infinite weight": EQUAL}
LINEAR = CUT | dict.fromkeys(
    ("without bias", "frozen weight", "frozen bias", "together", TWICE), EQUAL
)
EMBEDDING = {k: v for k, v in CUT.items() if k not in ("expanded", "frozen input")}
EMBEDDING |= dict.fromkeys(OPTIONS, "cannot have") | {"int32": EQUAL, "tied": EQUAL}
EMBEDDING |= {TWICE: ONCE}
ATTENTION = {k: v for k, v in CUT.items() if k not in ("one dimension", "several dimensions")}
ATTENTION |= {"fewer than ranks": "cannot share", "frozen weight": EQUAL, "frozen bias": EQUAL}
TWINS = [
    Twin("tensor_parallel.ColumnLinear", LINEAR, prepare(Columns)),
    Twin("tensor_parallel.RowLinear", LINEAR | {TWICE: ONCE}, prepare(Rows)),
    Twin("sequence_parallel.OverlappedProduct",
         LINEAR | {TWICE: ONCE, "changed in place": "is being modified inplace"},
         prepare(Overlapped)),
    Twin("tensor_parallel.VocabularyEmbedding", EMBEDDING, prepare(Vocabulary)),
    Twin("replicated_heads.FewHeads", ATTENTION, prepare(Heads)),
]  # fmt: skip
