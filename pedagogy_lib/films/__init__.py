"""Films of a training step, frame by frame, and the pictures of their frames."""
