"""Parameters of two bytes per number with float32 master weights.

The gradients are given, not computed, so that the right values are known. The truth is an ordinary
training run in float32. All numbers are sums of few powers of 2, so that only the parameters' own
dtype rounds them.
"""

from coursekit.kit import Equals, Holds, never
from coursekit.kit.single_rank import Alone, WarmExercise, run_alone

from .cases import STEPS_ON, TRIALS, count_bytes, train
from .truth import NO_PAIR, compute_known_values, describe_result, mistakes

EXERCISE = WarmExercise(
    "MixedPrecision",
    lab="memory",
    cases=[
        *(Alone(name, train, trial) for name, trial in TRIALS.items()),
        Alone("bytes of a number", count_bytes),
    ],
    work=run_alone,
    known=compute_known_values,
    found=lambda case: ("value_after",) if case.work is train else ("more", "in_step"),
    facts=[
        Holds("masters", bool, "there is no optimizer",
              "__init__ ends with make_optimizer(self.masters)"),
        Holds("masters", lambda faults: not any(faults),
              lambda faults: f"the optimizer steps on {max(faults)}",
              lambda trial, place: STEPS_ON[max(trial[place].masters)]),
        never("no_parameters", "after __init__ there are no parameters in self.parameters",
              "what is given may be a generator, as of model.parameters(): it can be gone through "
              "once. Make a list of it first"),
        Holds("steps", lambda steps: steps == list(range(1, len(steps) + 1)),
              "the optimizer has stepped {} times in 1, 2, 3, … calls of step()",
              lambda trial, place: "one call of step() is one step of the optimizer, after all "
              "masters have gradients" if any(trial[place].steps) else
              "step() has to call self.optimizer.step()"),
        never("made_again", "make_optimizer is called {} times more after the first",
              "a new optimizer has none of the state of the steps before, such as momentum: make "
              "it once, in __init__"),
        never("left", "after step() a parameter still has a gradient; expected None",
              "the next backward adds to it. And it is memory: set p.grad to None when the master "
              "has got it"),
        never("in_masters", "after step() a master still has a gradient; expected None",
              "a master's gradient is needed during the step alone: after it, it is 4 bytes a "
              "parameter for nothing, and a parameter that has no gradient next time would step "
              "with this one: self.optimizer.zero_grad()"),
        never("zeros", "after step() there are gradients of zeros; expected None",
              "zeros are a gradient, and take as many bytes: None is meant (set_to_none=True, "
              "which is usual)"),
        never("dtypes", lambda dtypes: f"a parameter is {dtypes[0]} now",
              "the model is no longer one of two bytes a number: round into the parameter's own "
              "dtype, which may be bfloat16 or float16 (copy_ does; .to(p.dtype), too)"),
        Equals("value_after", lambda trial, place: trial[place].ordinary, mistakes),
        Holds("more", lambda each: each < 0.5,
              "between steps there are {:.1f} bytes a number that nobody has asked for",
              "a step leaves something behind besides the parameters, the masters, and what the "
              "optimizer keeps: gradients, or copies?"),
        Holds("in_step", lambda each: each < 22.5,  # 20, and a margin for one parameter
              "during a step there are up to {:.1f} bytes a number, expected 20",
              "that is one more float32 copy of everything: 2 for a parameter, 2 for its gradient, "
              "4 for its master, 8 for Adam, and 4 for the gradient in float32 are enough"),
    ],
    right=describe_result,
    errors={
        "'NoneType' object has no attribute 'grad'": "each parameter has a master, a frozen one as "
        "well: it stays without a gradient, and an optimizer passes over it",
        "'NoneType' object": "a parameter may have no gradient: then p.grad is None. Its master's "
        "is None, too, and the optimizer passes over it",
        "assign a gradient with dtype": "the gradient has two bytes a number, and its master four: "
        "p.grad.float()",
        "a leaf Variable that requires grad": "autograd watches over parameters: write into them "
        "under torch.no_grad(), as the decorator of step() does",
        "non-leaf": "a master is a leaf of its own, not the outcome of an operation on the "
        "parameter: p.detach().float(), and nn.Parameter around it",
        "has no attribute 'masters'": "__init__ makes self.masters, a list of float32 copies; then "
        "the optimizer steps on them",
        "must match the size": NO_PAIR,
        "assign a gradient of size": NO_PAIR,
    },
    hints=(
        "What has to be float32 for a small step not to be lost: what a step is added to. "
        "Which tensors does the optimizer step on, then?",
        "__init__: for each parameter a copy in float32, p.detach().float(), as an "
        "nn.Parameter: a list, in the same order. It is made once.",
        "step, in this order: each gradient to its master, in float32 (None stays None); the "
        "optimizer's step; each master into its parameter. p.copy_(master) rounds.",
        "And no gradient is left: p.grad = None for the parameters, "
        "self.optimizer.zero_grad() for the masters.",
    ),
)  # fmt: skip
