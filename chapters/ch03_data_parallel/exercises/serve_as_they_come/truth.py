"""The right results, and the results of known mistakes."""

import re
from itertools import combinations

from coursekit.kit import Wrong, complains, first_true
from pedagogy_lib.basics.closeness import close
from pedagogy_lib.basics.errors import HangError
from pedagogy_lib.basics.hang_diagnosis import describe

from .workers_in_turn import SERVER, gradient_of
from .workers_in_turn_truth import order_of, version_wanted, versions_of, versions_of_pushes


def why_it_hangs(plan, error) -> str:
    """Diagnose a hang by where server and workers wait; a worker may just wait for its turn."""
    if not isinstance(error, HangError):
        return ""
    server = error.waits[SERVER]
    doing = {"pulls": [], "pushes": [], "computes": [], "ended": []}
    names = {"recv": "pulls", "send": "pushes"}
    for rank in plan.ranks[1:]:
        place = error.waits[rank]
        doing[names.get(place.operation, "computes") if place else "ended"].append(rank)
    peer = re.search(r"(?:src|dst)=(\d+)", server.call if server else "")
    why = why_the_server_waits(server, int(peer[1]) if peer else None, **doing)
    raise Wrong(str(plan), f"it hangs. Where each rank was:\n{describe(error.waits)}", why)


def why_the_server_waits(server, peer, pulls, pushes, computes, ended) -> str:
    operation = server.operation if server else "returned"
    sends, others = operation in ("send", "isend"), [rank for rank in pulls if rank != peer]
    first = lambda ranks: next(iter(ranks), None)  # noqa: E731
    anybody = "dist.recv without a rank receives from anybody, and returns whose gradient it was."
    return first_true({
        "": operation not in ("returned", "send", "isend", "recv", "wait", "")
        or (operation == "returned" and not pulls + pushes),
        f"the server has returned, and worker {first(pushes)} had weights to compute with: whoever "
        "was sent a 1 pushes once more, and is answered with a 0.":
            operation == "returned" and pushes,
        f"the server has returned, and worker {first(pulls)} waits for an answer. A worker ends "
        "only when it is sent a 0: answer also the one whose gradient was the last.":
            operation == "returned",
        f"the server sends to worker {peer}, which has been sent a 0 before, and has ended: it "
        "does not push again, and needs no answer.": sends and peer in ended,
        f"the server sends to worker {peer}, which is about to push: it has weights, and takes no "
        "others before its own gradient has been received. Answer only the one that pushed.": sends,
        "the server is at work, in no call of torch.distributed. Does it ask again and again "
        "whether a request is_completed()? That becomes true only when somebody waits for it. "
        f"{anybody}": not operation,
        "the server waits for a request that its other side has not begun. A worker that computes "
        f"does not receive; one that has pushed does. {anybody}": operation == "wait",
        f"the server waits for worker {peer}, and worker {first(others)}, which has pushed, waits "
        "for the server: that is BSP, where everybody waits for the slowest. Answer each push "
        f"before you receive the next one. {anybody}":
            peer is not None and computes + pushes and others,
        f"the server waits for worker {peer}, while worker {first(pushes)} wants to push: you take "
        f"the workers in turn. {anybody}": peer is not None and pushes,
        "the server waits for a gradient, and every worker for weights to begin with: send them to "
        "all workers at the start. (Begun with dist.isend? A request that is thrown away takes its "
        "message with it: keep it, and wait for it.)": pulls and not computes + pushes + ended,
        f"the server waits for a gradient, and worker {first(pulls)}, which has pushed, for new "
        "weights: answer each push before you receive the next one.": pulls,
        "the server waits for one more gradient, and every worker has ended. Keep count of the "
        "workers that have not yet been sent a 0.": operation == "recv",
    })  # fmt: skip


@complains
def pushes_make_steps(trial):
    """Complain unless each gradient makes one step, and workers learn in time that it is over."""
    plan, order, pushed = trial.case, order_of(trial), sum(len(of.pulled) for of in trial)
    wanted = plan.updates + plan.workers - 1  # the worker that ends it is told so at once
    if pushed != wanted:
        yield f"the workers have pushed {pushed} gradients, expected {wanted}", first_true({
            "it goes on for too long. Take the step, count it, ask is_over(updates so far), and "
            "then answer. Once it is over, everybody who pushes is sent a 0.": pushed > wanted,
            "it is over too early: ask is_over after the step, with the number of updates so far. "
            "An update is one gradient, of one worker.": True,
        })  # fmt: skip
    if None in order:
        step = order.index(None)
        what = (
            f"step {step} of the optimizer is along {format_vector(trial[0].steps[step])}, "
            "which nobody "
        )
        yield what + "has pushed", why_no_push(trial, order, step)
    for worker, number in (push for push in order if order.count(push) > 1):
        what = f"gradient {number} of worker {worker} has made two steps"
        yield what, "one push, one step: recv first, then the step, and once only."
    if len(order) != pushed:
        yield f"{pushed} gradients were pushed, and {len(order)} made a step", first_true({
            "each gradient makes a step, also those that are pushed when it is over already.":
                order,
            "the weights move by optimizer.step(), which take_step calls.": True,
        })  # fmt: skip


def format_vector(vector) -> str:
    return "no gradient" if vector is None else str([round(x, 6) for x in vector.tolist()])


def why_no_push(trial, order, number) -> str:
    step, workers = trial[0].steps[number], trial.case.workers
    everything = [gradient_of(w, k) for w in trial.case.ranks[1:] for k in range(len(order))]
    before = sum(gradient_of(*push) for push in order[:number])
    sums = [a + b for a, b in combinations(everything, 2)]

    def is_one_of(guesses) -> bool:
        return step is not None and any(close(step, guess) for guess in guesses)

    return first_true({
        "`.grad` of a parameter is None when the optimizer steps: see take_step.": step is None,
        "a gradient has been divided by the number of workers, of ranks, or of updates since. "
        "Nothing is averaged or damped here: each gradient makes a step of its own, as it is.":
            is_one_of(x / n for x in everything for n in (workers, workers + 1)),
        "its sign is turned round, and the optimizer turns it once more.":
            is_one_of(-x for x in everything),
        "the gradients before it are still in it: each makes a step of its own, once.":
            is_one_of(x + before for x in everything),
        "that is two gradients together: take a step along each one as it comes.":
            is_one_of(sums + [total / 2 for total in sums]),
        "receive into `gradient`, and take the step along it when recv has returned.": True,
    })  # fmt: skip


@complains
def newest_weights(trial):
    """Complain unless a worker gets the first weights, then those after each of its pushes."""
    versions, order = versions_of(trial), order_of(trial)
    for worker in trial.case.ranks[1:]:
        for number, weights in enumerate(trial[worker].pulled):
            wanted = version_wanted(order, worker, number)
            found = [k for k, version in enumerate(versions) if close(version, weights)]
            brought = f"those after {found[0]}" if found else format_vector(weights)
            if wanted not in found:
                what = f"pull {number} of worker {worker} should bring the weights after {wanted} "
                what += f"updates; it brought {brought}"
                yield what, why_no_pull(trial, weights, wanted, found)


def why_no_pull(trial, weights, wanted, found) -> str:
    versions = versions_of(trial)
    return first_true({
        "the mark is missing: order_of(model, going_on) puts a 1 or a 0 before them.":
            not found and any(close(weights[:-1], version[1:]) for version in versions),
        "send what order_of(model, going_on) makes: the mark, and then the weights.": not found,
        "order_of copies the weights: call it anew for each answer, not once at the start.":
            all(close(pull, versions[0]) for of in trial for pull in of.pulled),
        "the answer was made before the step, so it holds the weights before the worker's own "
        "gradient. First the step, then order_of.": wanted - 1 in found,
        "the answer came late, after other pushes: answer each push at once.":
            any(version > wanted for version in found),
        "these weights are of an earlier answer: answer only the one that pushed, once.": True,
    })  # fmt: skip


@complains
def whole_messages(trial):
    """Complain of short messages, which silently leave old numbers at the end of the tensor."""
    wanted = 8 * (1 + len(trial[SERVER].last))
    for call in trial.calls[SERVER]:
        if call.name == "send" and call.tensor_bytes != wanted:
            what = f"a message to worker {call.peer} has {call.tensor_bytes} bytes, not {wanted}"
            yield what, "each one is a mark and all weights: order_of."


def staleness_of(trial, place) -> list[int]:
    versions = versions_of_pushes(trial) if place == SERVER else []
    return [number - version for number, version in enumerate(versions)]


def wrong_staleness(trial, place):
    if place != SERVER:
        return {}
    order, right, versions = order_of(trial), staleness_of(trial, SERVER), versions_of_pushes(trial)
    return {
        "0 is right if everybody waits for everybody. Here, others may have pushed while a worker "
        "was computing: its weights are old by as many updates.": [0] * len(right),
        "each is one too large: the update that the gradient itself makes does not count. Reckon "
        "before the step.": [age + 1 for age in right],
        "the version of a worker is that of the weights that it is sent, after the step; you note "
        "the one before it.": [age + (version > 0) for age, version in zip(right, versions)],
        "these are the versions at which the gradients were computed. Staleness is how many "
        "updates came since.": versions,
        "all count from the start: the version of a worker changes with each answer.":
            list(range(len(right))),
        "these count updates from 1: staleness is the difference to the version of the weights "
        "that the worker had.": list(range(1, len(right) + 1)),
        "the sign is turned round: updates so far, minus the version that the worker had.":
            [-age for age in right],
        "these count the worker's own pushes; staleness counts the updates of all workers.":
            [number for _, number in order],
        "these count the worker's own pushes from 1; staleness counts the updates of all "
        "workers.": [number + 1 for _, number in order],
        "a worker's own earlier push would count as well: it has been sent the weights after it.":
            [int(number > 0) for _, number in order],
        "these are the right numbers, by worker; they are asked for in the order of updates.":
            [age for _, age in sorted(zip(order, right), key=lambda pair: pair[0][0])],
        "these are the right numbers, sorted; they are asked for in the order of updates.":
            sorted(right),
        "each gradient has a staleness, also those that come when it is over already.":
            right[: trial.case.updates],
    }  # fmt: skip


def why_other_ages(trial) -> str:
    if len(trial[SERVER].staleness) == len(order_of(trial)):
        return (
            "before the step: the updates so far, minus the number of updates that there had been "
            "when this worker was sent its weights."
        )
    return "each gradient has one number, in the order of the updates."


def describe_ages(trial) -> str:
    ages = " ".join(map(str, trial[SERVER].staleness))
    return f"staleness {ages}" if trial.case.order else "weights and staleness fit"
