"""Tools for all packages: errors, numbers as text, tables and the one comparison of numbers."""
