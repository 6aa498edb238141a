"""What the fork server imports before a rank needs it."""

PRELOAD = (
    "torch",
    "torch.distributed",
    "cloudpickle",
    "numpy.random",
    "faulthandler",
    "sysconfig",
    "termios",
    "pedagogy_lib.ranks.rank",
    "pedagogy_lib.exercises.kit",
)
# Imported while nobody waits: the first y.backward(gradient), or the first step of an optimizer,
# would otherwise import them in every rank.
PRELOAD_WHEN_IDLE = (
    "torch.fx.experimental.symbolic_shapes",
    "torch._dynamo",
    "torch.nn.parallel",
    "torch.distributed.tensor",
)
