"""Machines on one computer: networks of their own, with cards whose speed the kernel limits."""
