"""The right results for split_layers.py, and the results of known mistakes."""

from functools import cache, partial
from math import prod
from types import SimpleNamespace

from coursekit.kit import Holds, RankExercise, World, complains, never
from coursekit.kit.forward_backward import ALL_KNOWN, right, ring_bytes
from coursekit.kit.message_costs import SendLimit

from .split_layers import Layer, layer_on_rank, parts

# The dim along which each tensor is cut; None if every rank has all of it.
COLUMNS = {"x": None, "y": -1, "weight": 0, "bias": 0}

ROWS = {"x": -1, "y": None, "weight": 1, "bias": None}

NOT_ALIKE = (
    "x comes as it is needed, nothing is to be cut: a row layer gets this rank's inputs already, "
    "and a column layer takes all inputs. The weight is as nn.Linear stores it, (outputs, inputs), "
    "which is how F.linear takes it"
)

KEPT = (
    "the whole layer is kept as well: no memory is gained. Keep this rank's part alone, as "
    "self.weight and self.bias"
)

NO_FIT = (
    "the bias does not fit to the output: a column layer's is cut as its rows are, a row layer's "
    "is whole"
)


@cache
def run_whole_layer(case, dims) -> tuple[dict, dict]:
    """Return the whole layer's inputs and parameters, and its y and gradients.

    dims  (name, dim) pairs
    """
    layer, x, slope = case.whole(dict(dims))
    y = layer(x.requires_grad_())
    (y * slope).sum().backward()
    parameters = dict(layer.named_parameters())
    has = {name: p.detach() for name, p in parameters.items()}
    gradients = {"x": x.grad} | {name: p.grad for name, p in parameters.items()}
    return {"x": x.detach(), "y": slope} | has, {"y": y.detach()} | gradients


def has_of(dims, trial, place) -> SimpleNamespace:
    """Return a rank's parts of x, of the slope of y, and of the parameters."""
    has, _ = run_whole_layer(trial.case, tuple(dims.items()))
    return SimpleNamespace(
        **{"bias": 0} | parts(dims, place, trial.n, has, trial.case.together)
    )  # fmt: skip


def need_names(dims, trial):
    wanted = names_of(dims, trial.case)
    for place, (got, tensors) in enumerate(trial.collect_values("names")):
        if set(got) != set(wanted):
            what = f"its parameters are {', '.join(got) or 'none'}; expected {', '.join(wanted)}"
            yield f"{trial.name_of_rank(place)}: {what}", why_names(got, wanted, tensors)


def names_of(dims, case) -> list[str]:
    return [name for name in dims if name not in "xy" and (name != "bias" or case.has_bias)]


def why_names(got, wanted, tensors) -> str:
    if tensors - set(got):
        return "a plain tensor is not trained: it is to be a nn.Parameter. part_of makes one"
    if any("." in name for name in got):
        return KEPT
    if "bias" in set(wanted) - set(got):
        return "every rank has a parameter for the bias: without it there is nothing to train"
    return "they are called as in nn.Linear: self.weight, and self.bias, which may be None"


def parameters_of(dims, trial, place):
    n, together = trial.n, trial.case.together
    whole = run_whole_layer(trial.case, tuple(dims.items()))[0]
    whole = {name: whole[name] for name in names_of(dims, trial.case)}
    part, torn = (parts(dims, place, n, whole, k) for k in (together, 1))
    bias = whole.get("bias")
    of_bias = {} if bias is None or dims["bias"] == 0 else {
        "1/n of the bias on every rank gives the right sum, but this is no longer the layer's "
        "bias: it would be trained n times too slowly, and be wrong in a checkpoint": bias / n,
        "it is zero: the bias would be on one rank alone, and all others would train another one. "
        "Every rank has all of it, and adds it after the sum": bias * (place == 0),
        "a row layer's bias is whole: it is added to the output, after the sum, and that is the "
        "same on all ranks": bias.tensor_split(n)[place],
    }  # fmt: skip
    return part, {
        "this is all of it: each rank is to have its part alone": whole,
        "`together` is not handed on: what belongs together is torn apart": torn,
        "this is cut along the other dim. nn.Linear stores A transposed, (outputs, inputs): A's "
        "columns are its rows, dim 0, and A's rows its columns, dim 1":
            part | {"weight": whole["weight"].tensor_split(n, 1 - dims["weight"])[place]},
        "transposed: the weight stays as nn.Linear stores it, (outputs, inputs)":
            part | {"weight": part["weight"].T},
    } | {why: part | {"bias": wrong} for why, wrong in of_bias.items()}  # fmt: skip


def split_layer(name, dims, mistakes, **others) -> RankExercise:
    """Return the exercise to write ColumnLinear or RowLinear.

    mistakes  takes a trial, a place, the parts of all ranks, and the right y and gradients;
              returns a table of mistakes for y and one for gradients
    """
    way, sums, what = "enter", "backward", "x"
    if dims["y"] is None:
        way, sums, what = "leave", "forward", "y"
    quiet = "forward" if sums == "backward" else "backward"
    lone = f"self.{way} is all that sends, and only in the {sums}"

    def select_table(number):
        def table(trial, place):
            _, found = run_whole_layer(trial.case, tuple(dims.items()))
            gradients = parts(dims, place, trial.n, found, trial.case.together)
            right = (gradients.pop("y"), gradients)
            all_of = [has_of(dims, trial, k) for k in range(trial.n)]
            return right[number], mistakes(trial, place, all_of, *right)[number]

        return table

    return RankExercise(
        name, lab="tensor_parallel",
        cases=[
            Layer(World(3), what=", equal parts", length=6, own=False),
            Layer(World(3), what=", no bias, x of one dim", has_bias=False, leading=()),
            Layer(World(3), what=", groups of 2", length=8, together=2),
            Layer(World(3), what=", frozen weight", frozen=("weight",)),
            Layer(World(2), what=", frozen bias", frozen=("bias",)),
            Layer(World(3, (1, 2))),
        ],
        work=partial(layer_on_rank, dims),
        facts=[
            complains(partial(need_names, dims)),
            right("parameters", partial(parameters_of, dims), called="its part",
                  otherwise="see whether these are another rank's numbers, or in another order: a "
                  "parameter is cut once"),
            never("is_kept", "the whole weight is still there", KEPT),
            never("unlike", "{0[0]}",
                  "what is made of a frozen parameter is frozen, and of any other it is not. A new "
                  "nn.Parameter requires a gradient unless it is told otherwise; for what is cut "
                  "part_of sees to it"),
            never("uncut", "{0[0]}", "part_of notes how the whole was cut: without that, whole() "
                  "takes a part for all of it. A bias that is whole has no such note"),
            never("views", "{0[0]}",
                  "all of the whole keeps its memory. cut(), which part_of calls, copies the part"),
            never("constant", "the output does not require a gradient",
                  "there is no way back from the output to x: was something detached, or computed "
                  "under no_grad?"),
            right("y", select_table(0), called="the output"),
            right("gradients", select_table(1), called="the gradient"),
            ALL_KNOWN,
            Holds("ways", lambda calls: calls == 1,
                  f"self.{way} was called {{}} times, expected once",
                  f"the caller may bring another way: call self.{way}(…, self.group)"),
            SendLimit(lambda trial: ring_bytes(40 * prod(trial.case.leading), trial.n),
                    f"an all-reduce of {what} sends", lone, sums),
            SendLimit(lambda trial: 0, f"a {quiet} sends", lone, quiet),
        ],
        right="output and gradients of nn.Linear",
        errors=dict.fromkeys(
            ("cannot be cut into", "shapes cannot be multiplied", "size mismatch"), NOT_ALIKE
        ) | dict.fromkeys(("The expanded size of the tensor", "must match the size"), NO_FIT)
        | {"'NoneType'": "a layer may have no bias: linear.bias is None then"},
        on_hang="every rank of the group makes the same calls, with tensors of the same size",
        **others,
    )  # fmt: skip
