"""Exercise 5.1: bytes_by_kind."""

from ...course.checking import Exercise
from .model_states import examine_bytes_by_kind

EXERCISE = Exercise(
    "5.1", "bytes_by_kind", examine_bytes_by_kind,
    (
        "Every tensor knows its bytes: x.nbytes. Of which tensors does each kind consist?",
        "model.parameters() has each parameter once, also a tied one. Its gradient is "
        "parameter.grad, or None.",
        "optimizer.state has a dict for each parameter that has been stepped: exp_avg and so "
        "on. Some optimizers keep other things there than tensors.",
        "for kept in optimizer.state.values(): for x in kept.values(): count x.nbytes, if "
        "torch.is_tensor(x).",
    ),
)  # fmt: skip
