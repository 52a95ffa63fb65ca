"""Ringwise: chip-aware gang scheduling for clusters of Ascend NPUs."""

__version__ = "0.1.0"
