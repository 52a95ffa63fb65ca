"""What developers of Ringwise need: benchmarks, a control plane for them and for tests, generators of pages.

`ringwise bench` finds the benchmarks where this package is installed.
"""
