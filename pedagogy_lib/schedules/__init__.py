"""Pipelines' schedules: when each action would happen, and when it did."""
