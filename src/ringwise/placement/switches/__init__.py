"""Leaf-switch affinity: which nodes, and in which rank order, a switch-aware job gets (rules S1 to S11)."""
