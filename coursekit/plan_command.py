"""`python -m pedagogy_lib plan`: the planner of chapter 10 on the command line."""

import contextlib
import io
import json
import sys
from dataclasses import asdict
from textwrap import fill

from pedagogy_lib.basics.tables import Table
from pedagogy_lib.basics.text_wrap import COLUMNS

from .labs import lab

MOST_TRIED = 10_000  # plans, until an engine can express one


def quietly(name):
    """Return a lab without printing whose functions it has."""
    with contextlib.redirect_stdout(io.StringIO()):
        return lab(name)


def show_plans(arguments) -> int:
    """Print the fastest plans, their costs, and why the others do not fit."""
    planner = quietly("planner")
    try:
        for name, number in {"--top": arguments.top, "--tokens": arguments.tokens}.items():
            if number is not None and number <= 0:
                raise ValueError(f"{name} is a number above 0, not {number:g}")
        planned = planner.plan(
            arguments.model, arguments.gpus, arguments.batch, arguments.context,
            arguments.software, arguments.precision, arguments.cluster,
        )  # fmt: skip
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    best = planned.best(max(arguments.top, planned.trust.first))
    if arguments.format == "json":
        print(json.dumps(describe_as_data(planned, best[: arguments.top]), indent=2))
        return 0
    shape, job = planned.job.shape, planned.job
    print(
        f"{arguments.model} with {float(shape.parameters) / 1e9:.1f} billion parameters, on "
        f"{planned.gpus} GPUs; a step has {job.batch} samples of {shape.context:,} tokens"
    )
    print(Table(planner.HEADS, [planner.row_of(choice) for choice in best[: arguments.top]]))
    print(describe_trust(planned, best, arguments.software))
    if arguments.tokens:
        print(planner.describe_training_cost(best[0], arguments.tokens))
    rejected, fit = planned.count_rejections(), planned.fits.sum()
    print(f"{fit:,} of {fit + rejected.total():,} plans fit. The others:")
    for reason, count in rejected.most_common():
        print(f"  {count:,}: {reason}")
    if arguments.answering:
        print(plan_serving(planned))
    return write(planned, arguments.write) if arguments.write else 0


def describe_as_data(planned, best) -> dict:
    """Return the fastest plans as what JSON can say; seconds and bytes by their causes."""
    return {
        "parameters": int(planned.job.shape.parameters),
        "batch": planned.job.batch,
        "context": planned.job.shape.context,
        "plans": [
            asdict(choice.plan)
            | {"seconds": choice.seconds, "interval": choice.interval, "memory": choice.memory}
            for choice in best
        ],
    }


def describe_trust(planned, best, software) -> str:
    """Describe how far off such predictions are, and how many of the plans to run."""
    trust, fastest = planned.trust, best[0].seconds["total"]
    near = sum(choice.seconds["total"] < trust.apart * fastest for choice in best)
    runs, unseen = f"{trust.runs:,} published runs", "whose model"
    told = f"Nothing was run. {runs} calibrated the engine of {software}."
    if software == "any":
        unseen = "whose software"
        told = (
            f"Nothing was run. The engine has the mean numbers of three programs, calibrated on "
            f"{runs}: name yours with --software."
        )
    told += (
        f" Of runs {unseen} it had not seen, 80 % took between the seconds in the second column."
    )
    if near > 1:
        told += (
            f" {'All of these plans' if near == len(best) else f'The first {near}'} cannot be told "
            "apart: 90 % of the pairs are in the right order only from a ratio of "
            f"{trust.apart:.2f} on."
        )
    if trust.first:
        told += f" In 90 % of the published jobs, the best plan was among the first {trust.first}."
    plan = best[0].plan
    untested = [f"{axis} {n}" for axis in ("cp", "ep", "chunks") if (n := getattr(plan, axis)) > 1]
    if untested:
        told += f" None of them had anything like the first plan's {' and '.join(untested)}."
    return fill(told, COLUMNS)


def plan_serving(planned) -> Table | str:
    """Return a table of servers with one user and with as many as fit, by tp; or why none fits."""
    serving = quietly("serving")
    rows = []
    for tp in (1, 2, 4, 8):
        try:
            for users in (1, None):
                server = serving.make_server(planned.job.shape, planned.job.gpu, tp, users)
                rows.append([tp, *serving.row_of(server)])
        except ValueError as error:
            why = str(error)
    title = "Answering, prompts of 2,048 tokens and answers of 512, by the cost model"
    return Table(["tp", *serving.HEADS], rows, title=title) if rows else why


def write(planned, engine) -> int:
    """Print the fastest plan that an engine can express: in words, and as its configuration."""
    writers = quietly("more_configurations").WRITERS
    named = {name.lower(): name for name in writers}
    if engine.lower() not in named:
        print(f"no engine is called {engine!r}; known are {', '.join(writers)}", file=sys.stderr)
        return 2
    why = ""
    for place, choice in enumerate(map(planned.choice, planned.ranking[:MOST_TRIED]), 1):
        try:
            told = writers[named[engine.lower()]](choice.plan, planned.job)
        except ValueError as error:
            why = why or str(error)
            continue
        words = quietly("planner").describe_plan(choice.plan, micro_batch=True)
        print(f"\nNumber {place} of the plans, for {named[engine.lower()]}: {words}\n{told.text}")
        if told.program:
            rest = ", ".join(f"{name}={value}" for name, value in told.program.items())
            print(f"Your program has to say the rest: {rest}")
        return 0
    print(f"none of the {MOST_TRIED} fastest plans can be expressed. {why}", file=sys.stderr)
    return 2
