"""The bytes of a model's states in the middle of a training run."""

from coursekit.kit import Equals, Holds, never
from coursekit.kit.results import NO_RETURN
from coursekit.kit.single_rank import Alone, WarmExercise, run_alone

from .cases import KINDS, STATES, look
from .truth import THREE_KINDS, compute_known_values

EXERCISE = WarmExercise(
    "bytes_by_kind",
    cases=[Alone(", ".join(state), look, state) for state in STATES],
    work=run_alone,
    known=compute_known_values,
    facts=[
        Holds("bytes", lambda got: isinstance(got, dict), "it returned {}",
              lambda trial, place: NO_RETURN if trial[place].bytes is None else THREE_KINDS),
        Holds("bytes", lambda got: set(got) == set(KINDS),
              lambda got: f"the keys are {', '.join(got) or 'none'}", THREE_KINDS),
        never("changed", lambda kinds: f"afterwards the {kinds[0]} are not as they were",
              "only look: the function is to leave the model and its optimizer as they are"),
        Equals("bytes", lambda trial, place: trial[place].truth,
               lambda trial, place: trial[place].mistakes, "the number of bytes"),
    ],
    right=lambda trial: f"{' + '.join(f'{n:,}' for n in trial[0].truth.values())} bytes",
    errors={
        "'NoneType' object": "a `.grad` is None where no gradient has come yet, or where none "
        "will: it takes no bytes, so pass over it",
        "KeyError": "the optimizer has no such entry: before its first step there may be none, a "
        "parameter without a gradient has none, and each kind of optimizer keeps other things. Go "
        "through what there is: optimizer.state.values(), and the values of each of these",
        "'dict' object has no attribute": "optimizer.state has a dict for each parameter: {name: "
        "tensor}. Go through the values of each of them",
    },
    hints=(
        "Every tensor knows its bytes: x.nbytes. Of which tensors does each kind consist?",
        "model.parameters() has each parameter once, also a tied one. Its gradient is "
        "parameter.grad, or None.",
        "optimizer.state has a dict for each parameter that has been stepped: exp_avg and so "
        "on. Some optimizers keep other things there than tensors.",
        "for kept in optimizer.state.values(): for x in kept.values(): count x.nbytes, if "
        "torch.is_tensor(x).",
    ),
)  # fmt: skip
