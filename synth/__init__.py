"""Writes environments: workflows, records, oracles, checks; certifies them."""
