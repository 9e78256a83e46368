"""The workplace: world state, clock, services and their tools, served over MCP."""
