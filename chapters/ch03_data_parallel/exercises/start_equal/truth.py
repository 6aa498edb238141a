"""The right results, and the results of known mistakes."""

from functools import cache
from types import SimpleNamespace

from coursekit.kit import Wrong, first_true
from coursekit.kit.message_costs import TOLERANCE, is_near, megabytes, tree_rounds
from coursekit.kit.rank_exercise import TOO_LONG
from coursekit.kit.reference_training import EveryKind, state_of, tensors_of
from pedagogy_lib.basics.closeness import close, close_in_float32
from pedagogy_lib.basics.errors import HangError

from ..shared.large_models import summarise_tensors
from .cases import LARGE, LAST_WORLD, fill


@cache
def start_of(case, place) -> dict:
    """Return a rank's initial state and, in the last world, that of rank 0's large model."""
    model = fill(EveryKind(), place)
    found = {"before": state_of(model), "kinds": kinds_of(model)}
    if case.world != LAST_WORLD:
        return found
    sizes = sizes_of(EveryKind(**LARGE).float())
    large = fill(EveryKind(**LARGE).float(), 0)
    return found | {"sizes": sizes, "large_own": summarise_tensors(state_of(large))}


def list_found(case):
    return ("after", "large") if case.world == LAST_WORLD else ("after",)


def copies_of_model(trial, place):
    """Return the least bytes per rank, because all ranks but rank 0 need a copy."""
    sizes = trial.collect_values("sizes")
    return sizes and (trial.n - 1) / trial.n * sizes[place].model


def kinds_of(model):
    """Return {name: "parameter", "frozen", "buffer" or "transient" (not in state_dict())}."""
    kinds = {n: "parameter" if p.requires_grad else "frozen" for n, p in model.named_parameters()}
    kinds |= {name: "buffer" for name, _ in model.named_buffers()}
    return kinds | dict.fromkeys(kinds.keys() - model.state_dict().keys(), "transient")


def sizes_of(model) -> SimpleNamespace:
    """Return the bytes of a model and its parts, and its numbers of gradients and of tensors."""
    trainable = [p.nbytes for p in model.parameters() if p.requires_grad]
    return SimpleNamespace(
        model=sum(tensor.nbytes for tensor in tensors_of(model).values()),
        tied=model.embedding.weight.nbytes,
        frozen=sum(p.nbytes for p in model.frozen.parameters()),
        gradients=sum(trainable),
        count=len(trainable),
        tensors=len(tensors_of(model)),
    )


def read_first_rank(trial, place):
    return trial[0].before


def mistakes(trial, place):
    if trial.case.is_group:
        return {}
    own, right, kinds = trial[place].before, read_first_rank(trial, place), trial[place].kinds

    def skip_kinds(*some):
        return {name: own[name] if kinds[name] in some else right[name] for name in right}

    sums = {name: sum(of.before[name] for of in trial) for name in right}
    return {
        "a buffer registered with persistent=False is missing in state_dict(); model.buffers() has "
        "all of them": skip_kinds("transient"),
        "buffers of whole numbers are each rank's own, such as a counter of batches: they are to "
        "be equal as well as those of floating-point numbers":
            {name: right[name] if own[name].is_floating_point() else own[name] for name in right},
        "the buffers are each rank's own: running averages and counters are in model.buffers(), "
        "not in model.parameters()": skip_kinds("buffer", "transient"),
        "the frozen parameters are each rank's own. They differ between ranks as much as the "
        "others, and no training will ever make them equal": skip_kinds("frozen"),
        "these parameters are each rank's own: go through all of them":
            skip_kinds("parameter", "frozen"),
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
    """Return a remark on a right answer of which torch warns in every later backward."""
    return REMARK if trial.case.world == LAST_WORLD and any(trial.collect_values("passed")) else ""


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
    """Require n-1 copies of the model in all, and from each rank at most those of a tree."""
    if trial.collect_values("sizes") is None:
        return ""
    case, n, sizes, sent = f"cost, {trial.case}", trial.n, trial[0].sizes, trial.sent_bytes
    copies, size = sum(sent) / sizes.model, megabytes(sizes.model)
    tied = sizes.tied / sizes.model
    broadcasts = sum("broadcast" in call.name for call in trial.calls[0])
    if copies > (n - 1) * (1 + TOLERANCE):
        why = first_true({
            "a tied parameter travels twice, once under each of its names: state_dict() has both, "
            "model.parameters() has it once": is_near(copies, (n - 1) * (1 + tied)),
            "everybody's weights travel to everybody, though only rank 0's are needed: a broadcast "
            "is enough": is_near(copies, n * (n - 1)),
            "each tensor travels in a dtype of twice the bytes: what is float32 is sent as float32":
                broadcasts == len(trial.calls[0]) and is_near(copies, 2 * (n - 1)),
            "an all-reduce sends everything twice, there and back; rank 0 has it all, so a "
            "broadcast is enough": is_near(copies, 2 * (n - 1)),
            f"{broadcasts} broadcasts send {sizes.tensors} tensors: some of them travel several "
            "times. A module's parameters() and buffers() are those of all modules inside it, too; "
            "each tensor is to travel once": broadcasts > sizes.tensors,
            "more is sent than everybody else once needs": True,
        })  # fmt: skip
        raise Wrong(case, f"{copies:.2f} copies of {size} are sent in all; {n - 1} are enough", why)
    if max(sent) > tree_rounds(n) * sizes.model * (1 + TOLERANCE):
        busiest = trial.name_of_rank(sent.index(max(sent)))
        raise Wrong(
            case, f"{busiest} sends {max(sent) / sizes.model:.0f} copies",
            "this is a star: one rank sends to all others, one after another. In a broadcast's "
            "tree those who have it help",
        )  # fmt: skip
    return f"{case}: {size} travel {n - 1} times"


def is_too_long(case, error) -> str:
    """Diagnose a hang in the last world, which adds a large model; fewer ranks were right."""
    is_lost = isinstance(error, HangError) or "gloo" in str(error)
    return TOO_LONG if is_lost and case.world == LAST_WORLD else ""
