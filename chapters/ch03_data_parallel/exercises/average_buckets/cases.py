"""The buckets of the cases."""


def buckets_of(model):
    """Return the trainable parameters, last first, in buckets of 2, 3, 1, 2 and all others."""
    p = [parameter for parameter in reversed(list(model.parameters())) if parameter.requires_grad]
    return [p[:2], p[2:5], p[5:6], p[6:8], p[8:]]
