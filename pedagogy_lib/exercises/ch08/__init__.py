"""Exercises of chapter 08."""
