"""A loss whose logits are computed one chunk at a time.

The truth comes from all logits at once: minus the log-softmax at each target.
"""

from coursekit.kit import Equals, Holds, never
from coursekit.kit.single_rank import Alone, WarmExercise, run_alone

from .cases import CHUNKS, TRIALS, compare, measure_chunks
from .truth import KEPT, compute_known_values, make_mistake_lookup, why_no_loss, why_other_rows

EXERCISE = WarmExercise(
    "backward_in_chunks",
    lab="large_vocabulary",
    cases=[
        *(Alone(name, compare, trial) for name, trial in TRIALS.items()),
        Alone(f"memory, {CHUNKS} chunks", measure_chunks),
    ],
    work=run_alone,
    known=compute_known_values,
    found=lambda case: ("loss", "gradients") if case.work is compare else ("at_most",),
    facts=[
        never("changed", lambda names: f"{names[0]} has changed",
              "`hidden`, `weight` and `targets` belong to the caller: only gradients change"),
        Equals("loss", lambda trial, place: trial[place].right["loss"], make_mistake_lookup("loss"),
               "the loss", why_no_loss),
        never("keeps_graph", "the loss that is returned has a graph",
              "the backward is over, and the graph with what it keeps can go: return "
              "loss.detach(), or a sum of such"),
        Equals("gradients", lambda trial, place: trial[place].right["gradients"],
               make_mistake_lookup("gradients"), ".grad"),
        Holds("times_back", lambda times: times == 1,
              "the numbers are right, but the backward goes through the layers before `hidden` "
              "{} times",
              "collect the gradient of `hidden` first. These layers may be a whole model: their "
              "backward runs once"),
        Holds("rows", lambda rows: rows[0] == rows[1],
              lambda rows: "logits of {} positions are made at a time, expected {}".format(*rows),
              why_other_rows),
        Holds("at_most", lambda times: times < 6.5,
              f"beside gradients there is {{:.1f}} times as much as the logits of one chunk; "
              f"all logits would be {CHUNKS} times", KEPT),
    ],
    right=lambda trial: (
        f"at most {trial[0].at_most:.1f} times the logits of one chunk, beside gradients"
        if trial.collect_values("at_most") else "loss and gradients are those of all logits at once"
    ),
    errors={
        "through the graph a second time": "each chunk's backward goes on into the layers before "
        "`hidden`, whose graph can be used only once. Cut `hidden` off from it with detach(), "
        "collect its gradient, and go on into these layers once, in the end",
        "only for scalar outputs": "`hidden` has many numbers, so its backward has to be told the "
        "gradient of each: hidden.backward(gradient)",
        "does not require grad": "what the logits are computed from has no gradient: after "
        "detach() it needs requires_grad_()",
        "NoneType": "a chunk that is cut out of a tensor which requires a gradient is no leaf, and "
        "its .grad stays None. Look at the .grad of the tensor that requires_grad_() was said to",
        "Mismatch in shape": "the gradient of `hidden` has its shape, (positions, width). The last "
        "chunk may be shorter, and belongs to it",
        "size mismatch": "logits are (positions, width) times the transpose of `weight`, which is "
        "(vocabulary, width)",
        "cannot be multiplied": "logits are (positions, width) times the transpose of `weight`, "
        "which is (vocabulary, width)",
        "leaf Variable that requires grad": "the total is computed in place on a tensor of the "
        "graph: add up losses that are detached",
    },
    hints=(
        "Cut `hidden` off from its graph: hidden.detach(). Each chunk of it gets requires_grad_(), "
        "and then its own logits, loss and backward().",
        'F.cross_entropy(…, reduction="sum") / len(targets): then all chunks together give the '
        "mean. Each backward adds to weight.grad by itself.",
        "The chunks' gradients, one after another, are the gradient of `hidden`: "
        "hidden.backward(torch.cat(gradients)). That goes back through the layers before, once.",
    ),
)  # fmt: skip
