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
)
# Imported while nobody waits, or before a launch whose work names what needs them: the first
# y.backward(gradient), or the first step of an optimizer, would import them in every rank.
PRELOAD_WHEN_IDLE = (
    "torch.fx.experimental.symbolic_shapes",
    "torch._dynamo",
    "torch.nn.parallel",
    "torch.distributed.tensor",
)
MANY = 8
NEED_THEM = (b"torch.optim", b"DistributedDataParallel", b"fully_shard", b"DTensor")


def needs_them(work: bytes, ranks: int) -> bool:
    """Whether a packed function, or a lab that it brings along, names what imports them.

    One that is missed imports them itself: that costs time alone. On many ranks it would cost a
    minute, so there it is done in any case.
    """
    return ranks > MANY or any(name in work for name in NEED_THEM)
