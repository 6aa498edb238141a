"""The highest number of micro-batches that a rank keeps at a time."""

from coursekit.kit import Formula

from ..shared.actions import actions_of
from ..shared.actions_truth import format_row
from .truth import MISTAKES, most

ROWS = {
    "1F1B, rank 1 of 4": "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5",
    "GPipe, 4 micro-batches": "F0 F1 F2 F3 B0 B1 B2 B3",
    "a row that keeps most in its middle": "F0 B0 F1 F2 B1 F3 F4 B2 B3 B4",
    "two chunks": "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3",
    "backwards in two halves": "F0 I0 W0 F1 F2 I1 F3 W1 I2 W2 I3 W3",
    "whole backwards and halves": "F0 F1 B0 F2 I1 F3 W1 B2 B3",
    "forwards alone": "F0 F1 F2",
    "nothing to do": "",
}

EXERCISE = Formula(
    "most_kept",
    cases={case: [(actions_of(text),)] for case, text in ROWS.items()},
    truth=most,
    differs=lambda call, wanted, got: f"expected {wanted}, got {got:g}\n{format_row(call[0])}",
    shape="asked is one number, the highest of all",
    errors={"empty": "an empty row keeps nothing: 0. max() of nothing needs default=0",
            "index out of range": "an empty row keeps nothing: 0"},
    mistakes=MISTAKES,
    hints=(
        "Go through the row with a counter. Which kinds of action count up, which count down?",
        "F keeps one, B frees one; I frees nothing, W frees what I has left. What is the "
        "highest that the counter gets?",
        "For each action: kept += 1 if its kind is F, kept -= 1 if it is B or W; then "
        "most = max(most, kept), which begins at 0.",
    ),
)  # fmt: skip
