"""The modules that the fork server imports before a rank needs them."""

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
# Imported when idle, or before a launch whose work names something that needs them. Otherwise the
# first y.backward(gradient), or an optimizer's first step, would import them in every rank.
PRELOAD_WHEN_IDLE = (
    "torch.fx.experimental.symbolic_shapes",
    "torch._dynamo",
    "torch.nn.parallel",
    "torch.distributed.tensor",
)
MANY = 8
NEED_THEM = (b"torch.optim", b"DistributedDataParallel", b"fully_shard", b"DTensor")


def needs_them(work: bytes, ranks: int) -> bool:
    """Return whether a packed function, or a lab sent with it, names what imports these modules.

    A function that is missed imports them itself, which costs only time. On more than `MANY` ranks
    that would be a minute, so the answer is then always True.
    """
    return ranks > MANY or any(name in work for name in NEED_THEM)
