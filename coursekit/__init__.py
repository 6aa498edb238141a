"""The course around the bench: labs, checks, predictions, and the build of the notebooks."""
