"""`python -m pedagogy_lib plan`: the planner of chapter 10 on the command line."""

import contextlib
import io
import sys

from ..basics.tables import Table
from .labs import lab


def show_plans(arguments) -> int:
    """Print the fastest plans, what they cost, and why the others are none."""
    with contextlib.redirect_stdout(io.StringIO()):  # whose functions these are
        planner = lab("planner")
    try:
        planned = planner.plan(arguments.model, arguments.gpus, arguments.batch, arguments.context)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    best, shape = planned.best(arguments.top), planned.job.shape
    print(
        f"{arguments.model} with {float(shape.parameters) / 1e9:.1f} billion parameters, on "
        f"{planned.gpus} GPUs; a step has {planned.job.batch} samples of {shape.context:,} tokens"
    )
    print(Table(planner.HEADS, [planner.row_of(choice) for choice in best]))
    print("These are estimates, for software that uses its GPUs well; nothing was run.")
    if arguments.tokens:
        print(planner.of_all(best[0], arguments.tokens))
    print(f"{int(planned.fits.sum()):,} of {len(planned.impossible):,} plans fit. The others:")
    for reason, count in planned.rejected().most_common():
        print(f"  {count:,}: {reason}")
    return 0
