"""Pipeline schedules: their rules, simulations and measured timelines."""
