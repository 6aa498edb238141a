"""The kinds of model states, which the check and the truth share."""

KINDS = ("parameters", "gradients", "optimizer_state")
