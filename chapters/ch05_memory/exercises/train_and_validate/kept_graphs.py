"""Diagnoses of the graphs that a training run with validation keeps alive."""


def why_graphs(base, more_steps, more_batches) -> str:
    over_rounds = more_steps.graphs > base.graphs + 0.5
    in_a_round = more_batches.graphs > base.graphs + 0.5
    all_needs = (base, more_steps, more_batches)
    without_graphs = all(need.in_graphs <= need.graph for need in all_needs)
    sentences = {
        "no graph is too many; something else is as large. Do all validation batches go through "
        "the model together? One at a time needs less": without_graphs and in_a_round,
        "no graph is too many; something else is kept that training alone does not need: a copy "
        "of the model, or gradients of zeros?": without_graphs,
        "it grows with the number of steps, and also with the number of validation batches. So "
        "there are two lists to look at: what do they hold, and how long?":
            over_rounds and in_a_round,
        "with more steps more is kept: what is appended to `means` still has its graph, and holds "
        "it to the end. A float holds nothing": over_rounds,
        "with more validation batches more is kept: the graphs of all batches of a round are alive "
        "at once. A loss that has a graph holds all of it; nobody goes back through it here, so "
        "let autograd record none": in_a_round,
        "it is about one graph too many, whatever the number of batches: a name still holds the "
        "graph of one batch while the next forward makes its own. Validation needs no graph at "
        "all": base.graphs > 0.5,
    }  # fmt: skip
    return next((why for why, is_so in sentences.items() if is_so), "")
