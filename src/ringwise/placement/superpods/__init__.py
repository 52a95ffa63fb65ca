"""Logical SuperPoD affinity: jobs cut into blocks, every block inside one physical SuperPoD."""
