"""Trajectories in, better students out: chat format, token ledger, engines, optimisation."""
