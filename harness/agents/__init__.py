"""Agents: what acts in an episode. The seam is ``harness.agents.base``; one module per kind."""
