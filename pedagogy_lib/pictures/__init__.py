"""Pictures of what was measured, and drawings that explain."""
