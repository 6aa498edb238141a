"""Starting ranks: launch(), what travels to them and back, and what goes wrong."""
