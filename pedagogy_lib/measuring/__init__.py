"""Measuring in a rank: time, bytes on the wire, and the memory of tensors."""
