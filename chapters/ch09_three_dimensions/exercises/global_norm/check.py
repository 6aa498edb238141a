"""The norm of the gradient of a model that is cut, divided into stages, and copied."""

from coursekit.kit import Equals, RankCase, RankExercise, World, never
from pedagogy_lib.basics.closeness import close_in_float32

from ..shared.meshes import describe_mesh
from .cases import measure_norm
from .truth import length, mistakes, needs_few_bytes

EXERCISE = RankExercise(
    "global_norm",
    lab="three_dimensions",
    cases=[
        RankCase(World(n), (sizes, False, 1.0), f", {describe_mesh(sizes)}")
        for n, sizes in [
            (2, {"dp": 1, "pp": 1, "tp": 2}),
            (2, {"dp": 1, "pp": 2, "tp": 1}),
            (4, {"dp": 1, "pp": 2, "tp": 2}),
            (4, {"dp": 2, "pp": 1, "tp": 2}),
            (3, {"dp": 1, "pp": 3, "tp": 1}),
            (3, {"dp": 1, "pp": 1, "tp": 3}),
        ]
    ] + [
        RankCase(World(2), ({"dp": 1, "pp": 1, "tp": 2}, True, 1.0), ", tp 2, and nothing is cut"),
        RankCase(World(1), ({"dp": 1, "pp": 1, "tp": 1}, False, 1e-9), ", tiny gradients"),
    ],
    work=measure_norm,
    facts=[
        never("changed", lambda names: f"the gradient of {names[0]} has changed",
              "it is only to be measured: the optimizer steps with it afterwards"),
        Equals("length", length, mistakes, "the length", same=close_in_float32),
        needs_few_bytes,
    ],
    right=lambda trial: f"the length is {trial[0].length:.6g} on every rank, as in one process",
    errors={
        "'NoneType'": "a parameter without part in the loss has None for a gradient: it counts as "
        "zeros",
        "has no attribute 'cut_dim'": "a parameter that is not cut has no such attribute: hasattr",
        **dict.fromkeys(
            ("Boolean value of Tensor", "at non-singleton dimension"),
            "`in` compares tensors number by number. Compare which object it is: any(p is q for q "
            "in …), or id(p)",
        ),
        "EnforceNotMet": "what this rank brings differs in length from what the others bring: a "
        "tensor of its own, such as torch.zeros(()), is of float32 unless told otherwise",
        "got <class 'int'>": "this rank has nothing to count, and sum() of nothing is the number "
        "0: an all-reduce takes a tensor",
        "'int' object has no attribute": "sum() of nothing is the number 0, not a tensor",
        "'float' object has no attribute": "an all-reduce takes a tensor, not a number",
    },
    on_hang="all ranks of mesh[\"pp\", \"tp\"] make the same call",
    hints=(
        "Each number of the whole gradient has to be counted once. Which ranks have the same "
        "number? Let only one of them count it.",
        'Cut parameters count on every rank; others where mesh.at["tp"] is 0. Those in '
        "counted_elsewhere do not count here.",
        'One number, the sum of this rank\'s squares, goes into an all-reduce over mesh["pp", '
        '"tp"]. The root comes last.',
    ),
)  # fmt: skip
