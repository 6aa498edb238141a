"""Replicas that start equal."""

import contextlib
from functools import cache
from types import SimpleNamespace
from unittest import mock

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ...basics.closeness import close, close_in_float32
from ...basics.errors import HangError
from ...basics.torch_private import WaitsNoticed
from ...course.checking import Wrong
from ..kit import GROUP, At, Equals, RankExercise, Refused, World, first_true, never
from ..kit.costs import TOLERANCE, megabytes, near, tree_rounds
from ..kit.groups import noting_passed
from ..kit.models import EveryKind, loss_of, state_of, tensors_of
from ..kit.requests import NOT_WAITED
from ..kit.trials import numbers
from ..kit.worlds import TOO_LONG
from .large_models import Travels, cost_of_large, in_short, right_if_large
from .left_alone import LeftAlone, leaves_alone

LAST_WORLD = World(4)
LARGE = {"words": 5001, "width": 203}  # where bytes are compared with a formula


# ---- On a rank ---


def start_on_rank(answer, group, case):
    """What a model has after it; for the bytes, the same with a large one."""
    model = fill(EveryKind(), dist.get_rank(group))
    objects, names, alone = parameters_of(model), list(tensors_of(model)), LeftAlone(model)
    with mock.patch.object(DistributedDataParallel, "__init__", by_hand), asynchronous() as begun:
        answer(model, group)
    now, after = parameters_of(model), state_of(model)
    found = {
        "after": {name: after.get(name) for name in names},
        "replaced": [name for name in objects if objects[name] is not now.get(name)],
        "switched": [n for n in objects if n in now and now[n].requires_grad == ("frozen" in n)],
        "waiting": len(begun),
        "touched": alone.changed(),
    }
    with noting_passed() as passed, contextlib.suppress(RuntimeError):
        loss_of(model, 0, slice(None), 1.0).backward()
    found["passed"] = passed
    return found | (cost_of_start(answer, group) if case.world == LAST_WORLD else {})


@contextlib.contextmanager
def asynchronous():
    """Gives a list of the requests of dist.broadcast that nobody has waited for."""
    begun, broadcast = [], dist.broadcast

    def noting(*args, **kwargs):
        request = broadcast(*args, **kwargs)
        begun.extend([request] * (request is not None))
        return request

    def done(request):
        begun[:] = [other for other in begun if other is not request]

    with WaitsNoticed(done), mock.patch.object(dist, "broadcast", noting):
        yield begun


def by_hand(*args, **kwargs):
    raise Refused(
        "it makes a DistributedDataParallel", "that starts equal by itself. Here it is to be "
        "written by hand: which tensors have to travel, and from whom?",
    )  # fmt: skip


def cost_of_start(answer, group):
    large = fill(EveryKind(**LARGE).float(), dist.get_rank(group))
    return cost_of_large(lambda: answer(large, group), lambda: state_of(large), group)


# ---- What is known of it ---


@cache
def start_of(case, place) -> dict:
    """What a rank begins with; of a large model, what rank 0 does."""
    model = fill(EveryKind(), place)
    found = {"before": state_of(model), "kinds": kinds_of(model)}
    if case.world != LAST_WORLD:
        return found
    sizes = sizes_of(EveryKind(**LARGE).float())
    large = fill(EveryKind(**LARGE).float(), 0)
    return found | {"sizes": sizes, "large_own": in_short(state_of(large))}


def found_on(case):
    return ("after", "large") if case.world == LAST_WORLD else ("after",)


def copies_of_model(trial, place):
    """The least that ranks send: all but rank 0 need a copy."""
    sizes = trial.of("sizes")
    return sizes and (trial.n - 1) / trial.n * sizes[place].model


def fill(model, place):
    """Other numbers at each place, in all parameters and buffers, and no float32 holds them."""
    for salt, tensor in enumerate([*model.parameters(), *model.buffers()]):
        values = numbers(place, tensor.shape, tensor.dtype, salt) + 8 * place
        tensor.detach().copy_(values / 3 if tensor.is_floating_point() else values)
    return model


def parameters_of(model):
    """By all names, so that a tied one is there twice."""
    return dict(model.named_parameters(remove_duplicate=False))


def kinds_of(model):
    """{name: "parameter", "frozen", "buffer" or "transient", which state_dict() leaves out}."""
    kinds = {n: "parameter" if p.requires_grad else "frozen" for n, p in model.named_parameters()}
    kinds |= {name: "buffer" for name, _ in model.named_buffers()}
    return kinds | dict.fromkeys(kinds.keys() - model.state_dict().keys(), "transient")


def sizes_of(model) -> SimpleNamespace:
    """Bytes of a model, and of parts of it; how many parameters have a gradient; all tensors."""
    trainable = [p.nbytes for p in model.parameters() if p.requires_grad]
    return SimpleNamespace(
        model=sum(tensor.nbytes for tensor in tensors_of(model).values()),
        tied=model.embedding.weight.nbytes,
        frozen=sum(p.nbytes for p in model.frozen.parameters()),
        gradients=sum(trainable),
        count=len(trainable),
        tensors=len(tensors_of(model)),
    )


# ---- What is right, and what is not ---


def of_first(trial, place):
    return trial[0].before


def mistakes(trial, place):
    if trial.case.is_group:
        return {}
    own, right, kinds = trial[place].before, of_first(trial, place), trial[place].kinds

    def left_out(*some):
        return {name: own[name] if kinds[name] in some else right[name] for name in right}

    sums = {name: sum(of.before[name] for of in trial) for name in right}
    return {
        "a buffer registered with persistent=False is missing in state_dict(); model.buffers() has "
        "all of them": left_out("transient"),
        "buffers of whole numbers are each rank's own, such as a counter of batches: they are to "
        "be equal as well as those of floating-point numbers":
            {name: right[name] if own[name].is_floating_point() else own[name] for name in right},
        "the buffers are each rank's own: running averages and counters are in model.buffers(), "
        "not in model.parameters()": left_out("buffer", "transient"),
        "the frozen parameters are each rank's own. They differ between ranks as much as the "
        "others, and no training will ever make them equal": left_out("frozen"),
        "these parameters are each rank's own: go through all of them":
            left_out("parameter", "frozen"),
        "nothing has changed on any rank. Were the values written into a copy, or was a new tensor "
        "only given a name? model.parameters() and model.buffers() give the tensors themselves":
            own,
        "this is the mean of all ranks' weights. It is equal everywhere, but nobody asked for it: "
        "everybody gets what rank 0 has": {name: s / trial.n for name, s in sums.items()},
        "this is the sum of all ranks' weights; everybody gets what rank 0 has": sums,
        "everybody has what the last rank had; asked is rank 0's, the group's first":
            trial[trial.n - 1].before,
    }  # fmt: skip


def remark(trial) -> str:
    """Torch warns of an answer that is right, in every backward to come."""
    return REMARK if trial.case.world == LAST_WORLD and any(trial.of("passed")) else ""


REMARK = (
    "a remark: autograd has seen how the values were written into the parameters, and each "
    "backward will warn of that. Under torch.no_grad(), or into tensor.detach(), it does not see it"
)


def why_all_agree(trial) -> str:
    kinds = trial[0].kinds
    weights = [name for name, kind in kinds.items() if kind in ("parameter", "frozen")]
    first, *others = ([of.after[name] for name in weights] for of in trial)
    is_rounded = close_in_float32(first, [trial[0].before[name] for name in weights])
    if is_rounded or not all(close(mine, first) for mine in others):
        return ""
    return (
        "all ranks are equal now, but they do not have what rank 0 had: rank 0 has changed, too. "
        "With the same seed everybody draws the same new weights; those that rank 0 has, perhaps "
        "read from a file, are lost"
    )


def need_one_broadcast(trial) -> str:
    """n-1 copies of the model in all, and from no rank more than a tree takes."""
    if trial.of("sizes") is None:
        return ""
    case, n, sizes, sent = f"cost, {trial.case}", trial.n, trial[0].sizes, trial.sent_bytes
    copies, size = sum(sent) / sizes.model, megabytes(sizes.model)
    tied = sizes.tied / sizes.model
    broadcasts = sum("broadcast" in call.name for call in trial.calls[0])
    if copies > (n - 1) * (1 + TOLERANCE):
        why = first_true({
            "a tied parameter travels twice, once under each of its names: state_dict() has both, "
            "model.parameters() has it once": near(copies, (n - 1) * (1 + tied)),
            "everybody's weights travel to everybody, though only rank 0's are needed: a broadcast "
            "is enough": near(copies, n * (n - 1)),
            "each tensor travels in a dtype of twice the bytes: what is float32 is sent as float32":
                broadcasts == len(trial.calls[0]) and near(copies, 2 * (n - 1)),
            "an all-reduce sends everything twice, there and back; rank 0 has it all, so a "
            "broadcast is enough": near(copies, 2 * (n - 1)),
            f"{broadcasts} broadcasts send {sizes.tensors} tensors: some of them travel several "
            "times. A module's parameters() and buffers() are those of all modules inside it, too; "
            "each tensor is to travel once": broadcasts > sizes.tensors,
            "more is sent than everybody else once needs": True,
        })  # fmt: skip
        raise Wrong(case, f"{copies:.2f} copies of {size} are sent in all; {n - 1} are enough", why)
    if max(sent) > tree_rounds(n) * sizes.model * (1 + TOLERANCE):
        raise Wrong(
            case, f"{trial.who(sent.index(max(sent)))} sends {max(sent) / sizes.model:.0f} copies",
            "this is a star: one rank sends to all others, one after another. In a broadcast's "
            "tree those who have it help",
        )  # fmt: skip
    return f"{case}: {size} travel {n - 1} times"


def is_too_long(case, error) -> str:
    """In the last world a large model comes, too; what fails then was right with fewer ranks."""
    is_lost = isinstance(error, HangError) or "gloo" in str(error)
    return TOO_LONG if is_lost and case.world == LAST_WORLD else ""


EXERCISE = RankExercise(
    "3.2",
    "start_equal",
    lab="simple_ddp",
    cases=[At(World(2)), At(World(1)), At(World(3)), At(LAST_WORLD), At(GROUP)],
    work=start_on_rank,
    known=start_of,
    found=found_on,
    facts=[
        never("waiting", "nobody waits for {} of the broadcasts", NOT_WAITED),
        Equals("after", of_first, mistakes, "the value", why_all_agree),
        never("replaced", lambda names: f"the values are right, but {names[0]} is a new object",
              "an optimizer made before, or a tied layer, still holds the parameter that was "
              "there: write the values into it, and leave the object in its place"),
        never("switched",
              lambda names: f"the values are right, but of {names[0]} requires_grad has changed",
              "a frozen parameter stays frozen, and the others stay trainable: only values are "
              "given"),
        leaves_alone,
        right_if_large(lambda trial, place: trial[0].large_own, "the value"),
        Travels(copies_of_model),
        need_one_broadcast,
        remark,
    ],
    told="parameters and buffers are rank 0's",
    errors={
        "not part of group": "rank 0 of the world need not be in a group. The group's first member "
        "is meant, whatever its rank in the world: group_src=0",
        "leaf Variable": "autograd watches over parameters: write into tensor.detach(), which "
        "shares their memory, or under torch.no_grad()",
        "NoneType": "there are no gradients yet, `.grad` is None: the weights themselves are to be "
        "equal",
        "to the desired output type Long": "buffers may hold whole numbers, of which there is no "
        "mean. Nothing is to be averaged: everybody gets what rank 0 has",
    },
    explain=is_too_long,
    lost="not all ranks make the same calls, with the same source. The source is one rank for all, "
    "not each rank itself; and whoever only receives makes the call, too",
    hints=(
        "What does a model hold besides its parameters? And does it matter here whether a "
        "parameter is trained?",
        "model.parameters() and model.buffers() give the tensors themselves, each once. "
        "dist.broadcast writes into the tensor that it is given, on all ranks but the source.",
        "For each of them: dist.broadcast(tensor.detach(), group_src=0, group=group). "
        "`group_src` is a rank within the group; `src` would be one of the world.",
    ),
)  # fmt: skip
