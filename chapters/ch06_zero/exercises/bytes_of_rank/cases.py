"""What the cases and the truth share."""

KINDS = ("parameters", "gradients", "optimizer_state")
