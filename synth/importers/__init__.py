"""Importers of other collections of tasks."""
