"""Rack affinity (part R): blocks inside SuperPoDs, and groups of pods inside one rack each."""
