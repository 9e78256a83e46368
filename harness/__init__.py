"""An episode: environment spec, agents, simulated people, grading, runs and results."""
