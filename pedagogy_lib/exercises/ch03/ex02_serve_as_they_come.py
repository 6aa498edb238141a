"""A parameter server that takes gradients as they come."""

import itertools
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector

from ...basics.closeness import close
from ...basics.errors import HangError
from ...basics.hang_diagnosis import describe
from ...course.checking import Exercise, Wrong, try_on_ranks
from ...measuring.recorder import measure
from ..kit.outcomes import whole_numbers
from ..kit.warming import warm_up

SERVER, ENOUGH = 0, 30  # after so many pushes of one worker, nobody will tell it that it is over
OPTIMIZER = {"lr": 0.5, "momentum": 0.5}  # with whole gradients, everything is exact


@dataclass(frozen=True)
class Plan:
    """What a server is tried with.

    workers  how many
    updates  after how many it is over
    order    in which the workers push; if empty, they push when they are ready
    """

    workers: int
    updates: int
    order: tuple[int, ...] = ()

    @property
    def pushes(self) -> int:
        """The worker that ends it has been told at once; each other one pushes once more."""
        return self.updates + self.workers - 1

    def __str__(self):
        if self.workers == 1:
            return f"1 worker, over after {self.updates} updates"
        order = f"from {' '.join(map(str, self.order))}" if self.order else "in any order"
        return f"{self.workers} workers, over after {self.updates} updates, pushes {order}"


PLANS = [
    Plan(2, 5, (1, 1, 2, 1, 1, 2)),
    Plan(1, 3, (1, 1, 1)),
    Plan(3, 6, (3, 1, 1, 3, 2, 1, 3, 2)),
    Plan(3, 12),
]


def examine_server(answer):
    warm_up()
    for plan in PLANS:
        trial = try_server(answer, plan)
        judge_pushes(trial)
        judge_steps(trial)
        judge_pulls(trial)
        judge_messages(trial)
        staleness = judge_staleness(trial)
        judge_weights(trial)
        if plan.order:
            yield f"{plan}: staleness {' '.join(map(str, staleness))}"
        else:
            yield f"{plan}: weights and staleness fit"


def try_server(answer, plan) -> SimpleNamespace:
    """Run a server and its workers; raises `Wrong` if they do not all come to an end."""

    def explain(error):
        if isinstance(error, HangError):
            what = f"it hangs. Where each rank was:\n{describe(error.waits)}"
            raise Wrong(str(plan), what, why_it_hangs(error.waits))
        return next((why for words, why in RAISED.items() if words in str(error)), "")

    with tempfile.TemporaryDirectory() as folder:
        run = try_on_ranks(
            str(plan), in_rank, answer, plan, folder, world_size=plan.workers + 1, explain=explain
        )
    staleness, steps, first, last = run.values[SERVER]
    trial = SimpleNamespace(plan=plan, staleness=staleness, steps=steps, last=last)
    trial.pulled, trial.calls = run.values[1:], run["server"].calls[SERVER]
    trial.order = [push_of(step) for step in steps]  # (worker, number), or None
    trial.versions = replay(first, [push for push in trial.order if push])
    return trial


# ---- On the ranks ---


def in_rank(answer, plan, folder):
    torch.set_default_dtype(torch.float64)
    model = nn.Linear(2, 1)  # other weights on every rank: its seed differs
    if dist.get_rank() == SERVER:
        return serve(answer, model, plan)
    return run_worker(answer.lab.work, model, Turns(Path(folder), plan.order))


def serve(answer, model, plan):
    """What the answer returned, the gradient of each step, and the weights before and after."""
    optimizer = torch.optim.SGD(model.parameters(), **OPTIMIZER)
    steps, first = [], weights_of(model)
    optimizer.register_step_pre_hook(lambda *_: steps.append(gradient_in(model)))
    with measure("server"):
        staleness = answer(model, optimizer, lambda updates: updates >= plan.updates)
    return staleness, steps, first, weights_of(model)


def weights_of(model):
    return parameters_to_vector(model.parameters()).detach().clone()


def gradient_in(model):
    """All gradients as one vector; None if one is missing."""
    grads = [parameter.grad for parameter in model.parameters()]
    missing = any(grad is None for grad in grads)
    return None if missing else torch.cat([grad.flatten() for grad in grads])


def gradient_of(worker, number):
    """The gradient of a worker's push: no two are the same, nor are their halves or thirds."""
    return torch.tensor([100.0 * worker + number, 7.0, number + 1.0], dtype=torch.float64)


PUSHES = {
    tuple(gradient_of(worker, number).tolist()): (worker, number)
    for worker in range(1, 4)
    for number in range(ENOUGH)
}


def push_of(gradient) -> tuple[int, int] | None:
    return None if gradient is None else PUSHES.get(tuple(gradient.tolist()))


class Turns:
    """When a worker may push, if the order is given: each push once those before it are answered.

    An answered push leaves a file, which all ranks see. No clock decides about the order.
    """

    def __init__(self, folder, order):
        self.folder, rank = folder, dist.get_rank()
        self.mine = [turn for turn, worker in enumerate(order) if worker == rank]

    def await_turn(self, number):
        before = range(self.mine[number]) if number < len(self.mine) else ()
        while not all((self.folder / str(turn)).exists() for turn in before):
            time.sleep(0.001)

    def answered(self, numbers):
        for turn in self.mine[numbers]:
            (self.folder / str(turn)).touch()


def run_worker(work, model, turns):
    """The lab's worker, with gradients that tell who pushed them; returns the weights it pulled."""
    pulled = []

    def compute(number):
        turns.answered(slice(number))
        if number == ENOUGH:
            raise RuntimeError(f"pushed {ENOUGH} gradients, and has been told to go on each time")
        pulled.append(weights_of(model))
        turns.await_turn(number)
        gradient = gradient_of(dist.get_rank(), number)
        for parameter, part in zip(model.parameters(), gradient.split([2, 1])):
            parameter.grad = part.view_as(parameter)

    work(model, compute)
    turns.answered(slice(None))
    return pulled


# ---- What a hang or an error means ---

RAISED = {
    "told to go on": "ask is_over(…) after each update, with the number of updates so far, and "
    "send order_of(model, False) to whoever pushes when it is over.",
    "EnforceNotMet": "the two sides of a message differ in length. What a worker receives is what "
    "order_of(model, going_on) makes; what it pushes is one gradient.",
}
FROM_ANYBODY = (
    "dist.recv(gradient) without a rank receives from anybody, and returns whose gradient it was."
)


def why_it_hangs(waits) -> str:
    """What the places of the server and the workers say about the mistake."""
    server, workers = waits[SERVER], {r: place for r, place in waits.items() if r != SERVER}
    doing = {
        what: [r for r, place in workers.items() if place and place.operation in calls]
        for what, calls in {"pulls": ("recv",), "pushes": ("send",), "computes": ("",)}.items()
    }
    doing["ended"] = [rank for rank, place in workers.items() if place is None]
    if server is None:
        return why_it_left(doing)
    peer = re.search(r"(?:src|dst)=(\d+)", server.call)
    if server.operation in ("send", "isend"):
        return why_it_sends(int(peer[1]) if peer else None, doing)
    if server.operation == "recv":
        return why_it_receives(int(peer[1]) if peer else None, doing)
    if not server.operation:
        return (
            "the server is at work, in no call of torch.distributed. Does it ask again and again "
            "whether a request is_completed()? That becomes true only when somebody waits for it. "
            f"{FROM_ANYBODY}"
        )
    if server.operation == "wait":
        return (
            "the server waits for a request that its other side has not begun. A worker that "
            f"computes does not receive; one that has pushed does. {FROM_ANYBODY}"
        )
    return ""


def why_it_left(doing) -> str:
    if doing["pushes"]:
        return (
            f"the server has returned, and worker {doing['pushes'][0]} had weights to compute "
            "with: whoever was sent a 1 pushes once more, and is answered with a 0."
        )
    return (
        f"the server has returned, and worker {doing['pulls'][0]} waits for an answer. A worker "
        "ends only when it is sent a 0: answer also the one whose gradient was the last."
    )


def why_it_sends(peer, doing) -> str:
    if peer in doing["ended"]:
        return (
            f"the server sends to worker {peer}, which has been sent a 0 before, and has ended: "
            "it does not push again, and needs no answer."
        )
    if peer in doing["pushes"] + doing["computes"]:
        return (
            f"the server sends to worker {peer}, which is about to push: it has weights, and takes "
            "no others before its own gradient has been received. Answer only the one that pushed."
        )
    return "the server sends to somebody who does not receive. Answer only the one that pushed."


def why_it_receives(peer, doing) -> str:
    waiting = [rank for rank in doing["pulls"] if rank != peer]
    if peer is not None and doing["computes"] + doing["pushes"] and waiting:
        return (
            f"the server waits for worker {peer}, and worker {waiting[0]}, which has pushed, "
            "waits for the server: that is BSP, where everybody waits for the slowest. Answer each "
            f"push before you receive the next one. {FROM_ANYBODY}"
        )
    if peer is not None and doing["pushes"]:
        return (
            f"the server waits for worker {peer}, while worker {doing['pushes'][0]} wants to "
            f"push: you take the workers in turn. {FROM_ANYBODY}"
        )
    if doing["pulls"] and not any(doing[what] for what in ("computes", "pushes", "ended")):
        return (
            "the server waits for a gradient, and every worker for weights to begin with: send "
            "them to all workers at the start. (Begun with dist.isend? A request that is thrown "
            "away takes its message with it: keep it, and wait for it.)"
        )
    if doing["pulls"]:
        return (
            f"the server waits for a gradient, and worker {doing['pulls'][0]}, which has pushed, "
            "for new weights: answer each push before you receive the next one."
        )
    return (
        "the server waits for one more gradient, and every worker has ended. Keep count of the "
        "workers that have not yet been sent a 0."
    )


# ---- Judging ---


def replay(weights, order) -> list:
    """The weights at first, and after each of these pushes, in one process."""
    weights = nn.Parameter(weights.clone())
    optimizer, versions = torch.optim.SGD([weights], **OPTIMIZER), [weights.detach().clone()]
    for push in order:
        weights.grad = gradient_of(*push)
        optimizer.step()
        versions.append(weights.detach().clone())
    return versions


def judge_pushes(trial):
    """The workers have to be told that it is over: at the right time, each of them."""
    plan, pushed = trial.plan, sum(map(len, trial.pulled))
    if pushed == plan.pushes:
        return
    what = f"the workers have pushed {pushed} gradients, expected {plan.pushes}"
    why = (
        "it goes on for too long. Take the step, count it, ask is_over(updates so far), and then "
        "answer. Once it is over, everybody who pushes is sent a 0."
    )
    if pushed < plan.pushes:
        why = (
            "it is over too early: ask is_over after the step, with the number of updates so far. "
            "An update is one gradient, of one worker."
        )
    raise Wrong(str(plan), what, why)


def judge_steps(trial):
    """Each step has to be along one gradient, and each gradient has to make a step."""
    case, pushed = str(trial.plan), sum(map(len, trial.pulled))
    for number, step in enumerate(trial.steps):
        if trial.order[number] is None:
            what = f"step {number} of the optimizer is along {told(step)}, which nobody has pushed"
            raise Wrong(case, what, why_no_push(trial, number))
    if len(set(trial.order)) < len(trial.order):
        twice = next(push for push in trial.order if trial.order.count(push) > 1)
        what = f"gradient {twice[1]} of worker {twice[0]} has made two steps"
        raise Wrong(case, what, "one push, one step: recv first, then the step, and once only.")
    if len(trial.steps) != pushed:
        what = f"{pushed} gradients were pushed, and {len(trial.steps)} made a step"
        why = "each gradient makes a step, also those that are pushed when it is over already."
        if not trial.steps:
            why = "the weights move by optimizer.step(): take_step(model, optimizer, gradient)."
        raise Wrong(case, what, why)


def told(vector) -> str:
    return "no gradient" if vector is None else str([round(x, 6) for x in vector.tolist()])


def why_no_push(trial, number) -> str:
    step, plan = trial.steps[number], trial.plan
    if step is None:
        return "`.grad` of a parameter is None when the optimizer steps: see take_step."
    if push_of(step * plan.workers) or push_of(step * (plan.workers + 1)):
        return (
            "a gradient has been divided by the number of workers or ranks. Nothing is averaged "
            "here: each gradient makes a step of its own."
        )
    if push_of(-step):
        return "its sign is turned round, and the optimizer turns it once more."
    added = sum(gradient_of(*push) for push in trial.order[:number] if push)
    if number and push_of(step - added):
        return "the gradients before it are still in it: each makes a step of its own, once."
    known = [gradient_of(w, k) for w in range(1, plan.workers + 1) for k in range(plan.pushes)]
    for some in itertools.combinations(known, 2):
        if close(step, sum(some)) or close(step, sum(some) / 2):
            return "that is two gradients together: take a step along each one as it comes."
    return "receive into `gradient`, and take the step along it when recv has returned."


def judge_pulls(trial):
    """Each worker has to be sent the weights at first, then those after each of its pushes."""
    update_of = {push: number for number, push in enumerate(trial.order, 1)}
    for worker, pulled in enumerate(trial.pulled, 1):
        for number, weights in enumerate(pulled):
            wanted = update_of[worker, number - 1] if number else 0
            if not close(weights, trial.versions[wanted]):
                found = [k for k, w in enumerate(trial.versions) if close(w, weights)]
                what = (
                    f"pull {number} of worker {worker} should bring the weights after {wanted} "
                    f"updates; it brought "
                    + (f"those after {found[0]}" if found else told(weights))
                )
                raise Wrong(str(trial.plan), what, why_no_pull(trial, weights, wanted, found))


def version_text(number) -> str:
    return f"the weights after update {number}" if number else "the weights of the start"


def why_no_pull(trial, weights, wanted, found) -> str:
    if not found:
        bare = any(close(weights[:-1], version[1:]) for version in trial.versions)
        if bare:
            return "the mark is missing: order_of(model, going_on) puts a 1 or a 0 before them."
        return "send what order_of(model, going_on) makes: the mark, and then the weights."
    if all(close(pull, trial.versions[0]) for pulled in trial.pulled for pull in pulled):
        return "order_of copies the weights: call it anew for each answer, not once at the start."
    if found[0] == wanted - 1:
        return (
            "the answer was made before the step, so it holds the weights before the worker's own "
            "gradient. First the step, then order_of."
        )
    if found[0] > wanted:
        return "the answer came late, after other pushes: answer each push at once."
    return "these weights are of an earlier answer: answer only the one that pushed, once."


def judge_messages(trial):
    """A message that is too short leaves old numbers at its end, and nobody complains."""
    for call in trial.calls:
        wanted = 8 * (1 + len(trial.last))
        if call.name == "send" and call.tensor_bytes != wanted:
            what = f"a message to worker {call.peer} has {call.tensor_bytes} bytes, not {wanted}"
            raise Wrong(str(trial.plan), what, "each one is a mark and all weights: order_of.")


def judge_staleness(trial) -> list[int]:
    case, plan = str(trial.plan), trial.plan
    got = whole_numbers(
        case, "what it returned", trial.staleness, "the staleness of each gradient, in their order"
    )
    version_of, wanted, versions = {}, [], []
    for number, (worker, _) in enumerate(trial.order):
        versions.append(version_of.get(worker, 0))
        wanted.append(number - versions[-1])
        version_of[worker] = number + 1
    if got == wanted:
        return got
    guesses = wrong_staleness(trial.order, wanted, versions)
    what = f"the staleness is {got}, expected {wanted}"
    raise Wrong(case, what, recognise_list(got, guesses) or why_of_length(got, wanted, plan))


def recognise_list(got, guesses) -> str:
    return next((why for why, wrong in guesses.items() if got == wrong), "")


def wrong_staleness(order, wanted, versions):
    """{sentence: staleness of each gradient}."""
    late = [w + (v > 0) for w, v in zip(wanted, versions)]
    return {
        "0 is right if everybody waits for everybody. Here, others may have pushed while a worker "
        "was computing: its weights are old by as many updates.": [0] * len(wanted),
        "each is one too large: the update that the gradient itself makes does not count. Reckon "
        "before the step.": [w + 1 for w in wanted],
        "the version of a worker is that of the weights that it is sent, after the step; you note "
        "the one before it.": late,
        "these are the versions at which the gradients were computed. Staleness is how many "
        "updates came since.": versions,
        "all count from the start: the version of a worker changes with each answer.":
            list(range(len(wanted))),
        "these count updates from 1: staleness is the difference to the version of the weights "
        "that the worker had.": list(range(1, len(wanted) + 1)),
        "the sign is turned round: updates so far, minus the version that the worker had.":
            [-w for w in wanted],
        "these count the worker's own pushes; staleness counts the updates of all workers.":
            [number for _, number in order],
        "these count the worker's own pushes from 1; staleness counts the updates of all "
        "workers.": [number + 1 for _, number in order],
        "a worker's own earlier push would count as well: it has been sent the weights after it.":
            [int(number > 0) for _, number in order],
        "these are the right numbers, by worker; they are asked for in the order of updates.":
            [w for _, w in sorted(zip([who for who, _ in order], wanted), key=lambda x: x[0])],
        "these are the right numbers, sorted; they are asked for in the order of updates.":
            sorted(wanted),
    }  # fmt: skip


def why_of_length(got, wanted, plan) -> str:
    if len(got) == len(wanted):
        return (
            "before the step: the updates so far, minus the number of updates that there had been "
            "when this worker was sent its weights."
        )
    if len(got) == plan.updates:
        return "each gradient has a staleness, also those that come when it is over already."
    return "each gradient has one number, in the order of the updates."


def judge_weights(trial):
    if not close(trial.last, trial.versions[-1]):
        what = f"the weights end at {told(trial.last)}, expected {told(trial.versions[-1])}"
        why = "only optimizer.step() may move them: once along each gradient."
        raise Wrong(str(trial.plan), what, why)


EXERCISE = Exercise(
    "3.2", "serve_as_they_come", examine_server,
    (
        "serve_together, above, has all the pieces. What changes is who is received from, and "
        "when an answer goes out: after each single push, to the one that pushed.",
        "worker = dist.recv(gradient) receives from anybody, and says who it was. For each "
        "worker that computes, keep the number of updates that its weights had when they were "
        "sent: a dictionary.",
        "Start: order_of(model, True) to each worker, with version 0. Then, as long as one "
        "computes: receive; staleness is updates so far minus its version; step; answer.",
        "Ask is_over after the step. If it is over, the answer is order_of(model, False), and "
        "this worker leaves the dictionary; the loop ends when the dictionary is empty.",
    ),
    lab="data_parallel",
)  # fmt: skip
