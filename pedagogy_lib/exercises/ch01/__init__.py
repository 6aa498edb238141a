"""Exercises of chapter 01."""
