"""The scales to which misconceptions lead in exercise LossScaler."""

FINITE = ".H"  # letters of steps whose gradients are finite


def guesses_at(steps, window) -> dict[str, int]:
    """Return {sentence: the doublings minus the halvings to which a misconception leads}."""
    rows = [len(row) for row in "".join("." if s in FINITE else "x" for s in steps).split("x")]
    refused = len(rows) - 1
    doubled = sum(row // window for row in rows)
    return {
        "a refused step has to halve the scale, or the next one overflows as well": doubled,
        "it is halved once for each gradient that is not finite. A step is refused once, however "
        "many there are": doubled - refused - steps.count("B"),
        "a refused step ends the row: counting begins anew": sum(rows) // window - refused,
        "a refused step is no step of a row: only steps that are taken count":
            sum(s in FINITE for s in steps[window - 1 :: window]) - refused,
        "it is doubled after each step; it takes `window` in a row": sum(rows) - refused,
        "after it has been doubled a new row begins: counting begins anew":
            sum(max(0, row - window + 1) for row in rows) - refused,
        "it is doubled only once in a row of steps: after that a new row begins":
            sum(min(1, row // window) for row in rows) - refused,
        "it is doubled one step too late: after the step that makes `window` in a row":
            sum(row // (window + 1) for row in rows) - refused,
        "it is divided by 4 where a step is refused: half of it is asked": doubled - 2 * refused,
        "it is never doubled: a factor that was too large once need not be too large for ever":
            -refused,
    }  # fmt: skip
