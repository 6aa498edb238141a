"""The exercises of each chapter: what `check` tries and `hint` says."""
