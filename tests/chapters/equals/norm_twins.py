"""Norms of gradients that several ranks share, next to clip_grad_norm_ in one process."""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from helpers import load_solved_lab
from layer_conditions import OF_GROUPS, lines_of_ranks, visible
from torch import nn
from torch.nn.utils import get_total_norm
from twins import EQUAL, Excluded, Twin

COMPOSING, PARALLEL, PIPELINES, DIMENSIONS, MESHES = map(
    load_solved_lab,
    ("composing", "tensor_parallel", "composed_pipelines", "three_dimensions", "meshes"),
)
HALF, WHOLE = torch.float16, torch.float32
DTYPES = {
    "float32": WHOLE,
    "bfloat16": torch.bfloat16,
    "float16": HALF,
    "huge in float16": HALF,
    "tiny in float16": HALF,
    "huge in bfloat16": torch.bfloat16,
    "tiny in bfloat16": torch.bfloat16,
    "huge in float32": WHOLE,
    "tiny in float32": WHOLE,
    "complex": torch.complex128,
}
SCALES = {
    "huge in float16": 2.0**13,
    "tiny in float16": 2.0**-22,
    "huge in bfloat16": 2.0**120,
    "tiny in bfloat16": 2.0**-120,
    "huge in float32": 2.0**120,
    "tiny in float32": 2.0**-120,
    "huge": 2.0**600,
    "tiny": 2.0**-600,
    "zeros": 0.0,
}
SPECIAL = {"infinite": torch.inf, "not a number": torch.nan}
SHAPES = (5, 3), (7,), (4, 2, 2), (6,)
NORMS = dict.fromkeys(
    ("float64", *DTYPES, "two dtypes", *SCALES, *SPECIAL, "frozen", "no gradient",
     "a rank without gradients", "without elements", "no dimension", "not contiguous",
     "with a history", "no_grad", "the limit itself", "a limit of zero", "an infinite limit",
     *OF_GROUPS), EQUAL
)  # fmt: skip
LIMITS = {"the limit itself": 1.0, "a limit of zero": 0.0, "an infinite limit": torch.inf}


def make_gradients(condition, chance) -> list:
    """Return the whole model's gradients, the same on all ranks of a group; some may be None."""
    dtype = DTYPES.get(condition, torch.float64)
    shapes = [*SHAPES, {"without elements": (0,), "no dimension": ()}.get(condition, (3,))]
    gradients = []
    for k, shape in enumerate(shapes):
        drawn = torch.complex128 if dtype.is_complex else torch.float64
        x = torch.randn(shape, generator=chance, dtype=drawn) * SCALES.get(condition, 1)
        mixed = condition == "two dtypes" and k % 2
        gradients.append(x.to(torch.bfloat16 if mixed else dtype))
    if condition in SPECIAL:
        gradients[1][2] = SPECIAL[condition]
    if condition == "not contiguous":
        gradients[0] = gradients[0].T.contiguous().T
    if condition == "frozen":
        gradients[1] = None
    return [None] * len(gradients) if condition == "no gradient" else gradients


class Setting:
    """This rank's group under a condition, the whole model's gradients, and the limit."""

    adds = 1e-6  # to the norm before it divides the limit

    def __init__(self, condition):
        self.condition, lines = condition, lines_of_ranks(condition)
        groups = [dist.new_group(line) for line in lines]
        mine = next(k for k, group in enumerate(groups) if dist.get_rank(group) >= 0)
        self.group = groups[mine]
        self.rank, self.n = dist.get_rank(self.group), dist.get_world_size(self.group)
        self.gradients = make_gradients(condition, torch.Generator().manual_seed(mine))
        self.givers = max(1, self.n - (condition == "a rank without gradients"))
        self.limit = LIMITS.get(condition, (SCALES.get(condition) or 1) / 2)
        if condition == "the limit itself":
            self.limit = self.norm().item()

    def norm(self):
        wide = [widen(x) for x in self.gradients if x is not None]
        return get_total_norm(wide).double()

    def factor(self):
        """Return what gradients are multiplied by, or 1.0."""
        return (self.limit / (self.norm() + self.adds)).clamp(max=1.0)

    def is_cut(self, k):
        """Return whether each rank has a part of a parameter, and not all of it."""
        return self.gradients[k] is None or self.gradients[k].dim() > 1

    def mine(self, k, x):
        """Return what this rank has of a tensor, which belongs to parameter k; or None."""
        if x is None or not self.is_cut(k):
            return x
        return x.tensor_split(self.givers)[self.rank] if self.rank < self.givers else None

    def parameters(self):
        """Return this rank's parameters, with their gradients."""
        parameters, dtype = nn.ParameterList(), DTYPES.get(self.condition, torch.float64)
        for k, gradient in enumerate(self.gradients):
            gradient = self.mine(k, gradient)
            like = torch.zeros(3, dtype=dtype) if gradient is None else gradient
            p = nn.Parameter(torch.zeros_like(like))
            if gradient is not None:
                p.grad = gradient.clone()
                p.grad.requires_grad_(self.condition == "with a history")
            if self.is_cut(k):
                p.cut_dim = 0
            parameters.append(p)
        return parameters

    def ours(self) -> list:
        """Return the norm, and perhaps this rank's gradients."""
        raise NotImplementedError

    def theirs(self) -> list:
        return [self.norm(), *self.clipped()]

    def clipped(self) -> list:
        """Return this rank's parts of the clipped gradients."""
        wide = [x if x is None else (widen(x) * self.factor()).to(x.dtype) for x in self.gradients]
        return [self.mine(k, x) for k, x in enumerate(wide)]


def widen(x, least=torch.float64):
    return x.detach().to(torch.promote_types(x.dtype, least))


class Shards(Setting):
    """ZeRO's shards: every parameter is cut, and one without dimensions is on rank 0 alone."""

    adds = 0.0

    def is_cut(self, k):
        return True

    def mine(self, k, x):
        if x is not None and x.dim() == 0:
            return None if self.rank else x
        return super().mine(k, x)

    def ours(self):
        shards = self.parameters()
        norm = COMPOSING.clip_shards(shards, self.limit, self.group)
        return [torch.tensor(norm, dtype=torch.float64), *(p.grad for p in shards)]


class TensorParallel(Setting):
    """Squares in float32 for numbers of 16 and 32 bits, as in torch's own norm of float32."""

    def ours(self):
        return [self.as_exact_as_squares(PARALLEL.gradient_norm(self.parameters(), self.group))]

    def theirs(self):
        norm = get_total_norm([widen(x, torch.float32) for x in self.gradients if x is not None])
        return [self.as_exact_as_squares(widen(norm, self.parameters()[0].dtype))]

    def as_exact_as_squares(self, norm):
        return norm.float() if self.condition == "two dtypes" else norm


class Stages(Setting):
    """Parts that count in full, and copies that count in part: once as a number, once for each."""

    def is_cut(self, k):
        return self.condition == "a rank without gradients" or super().is_cut(k)

    def ours(self):
        gradients = [p.grad for p in self.parameters()]
        parts = []
        for k, x in enumerate(gradients):
            if x is not None:
                share = 1.0 if self.is_cut(k) else 1 / self.n
                share_of_each = torch.full(x.shape, share, dtype=torch.float64)
                parts.append((x, share_of_each if k % 2 else share))
        norm = PIPELINES.clip(parts, self.limit, self.groups())
        return [torch.tensor(norm, dtype=torch.float64), *gradients]

    def groups(self):
        if dist.get_world_size() != 4 or self.n != 4:
            return [self.group]
        mesh = MESHES.Mesh({"rows": 2, "columns": 2})
        return [mesh["rows"], mesh["columns"]]


MESHES_OF = {1: (1, 1, 1), 2: (1, 1, 2), 3: (1, 3, 1), 4: (1, 2, 2)}  # dp, pp and tp of n ranks


class OnMesh(Setting):
    """Stages and tensor parallelism. Stage 0 has the first parameters, and each has some."""

    def __init__(self, condition):
        super().__init__(condition)
        shape = (self.n, 1, 1) if condition == "copies" else MESHES_OF[self.n]
        sizes = dict(zip(("dp", "pp", "tp"), shape))
        self.mesh = MESHES.Mesh(sizes, joint=[("pp", "tp")])
        self.rank, self.givers = self.mesh.at["tp"], sizes["tp"]
        if condition == "a rank without gradients" and sizes["tp"] > 1:
            self.givers -= 1

    def ours(self):
        every, stages = self.parameters(), self.mesh.sizes["pp"]
        stage = self.mesh.at["pp"]
        own = [p for k, p in enumerate(every) if k % stages == stage]
        elsewhere = []
        if self.condition == "tied" and stage != 0:
            own, elsewhere = [*own, every[0]], [every[0]]
        return [DIMENSIONS.global_norm(own, self.mesh, elsewhere)]

    def theirs(self):
        return [self.norm()]


def prepare(kind):
    def prepare(condition):
        setting = kind(condition)

        def ours():
            with torch.no_grad() if condition == "no_grad" else nullcontext():
                return visible(setting.ours())

        return ours, lambda: visible(setting.theirs())

    return prepare


NOT_FINITE = "the norm of all gradients is"
CLIP = NORMS | dict.fromkeys(("huge", *SPECIAL), NOT_FINITE)
REAL = {"complex": Excluded("real gradients")}
MESH = {k: v for k, v in NORMS.items() if k not in OF_GROUPS} | {"copies": EQUAL, "tied": EQUAL}
TWINS = [
    Twin("composing.clip_shards",
         NORMS | {"complex": "dtype should be complex",
                  "not a number": Excluded("if the norm is nan, nothing changes")},
         prepare(Shards)),
    Twin("tensor_parallel.gradient_norm", NORMS | REAL, prepare(TensorParallel)),
    Twin("composed_pipelines.clip", CLIP | REAL, prepare(Stages)),
    Twin("three_dimensions.global_norm", MESH | REAL, prepare(OnMesh)),
]  # fmt: skip
