"""The progress of a learner, and the state that keeps it."""
