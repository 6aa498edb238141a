"""Machines on one computer: separate networks, with cards whose speed the kernel limits."""
