"""Accounting documents: their format, and adding up what the scheduler tells."""
