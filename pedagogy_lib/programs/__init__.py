"""A user's own program under the bench: torchrun starts it, and each rank watches itself."""
