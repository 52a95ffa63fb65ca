"""The kubelet device plugin: discovery, health, allocation and reporting of the chips of one node."""

from __future__ import annotations

import os

# gRPC's own handlers would run in a lab that forks to answer a question, and end the copy. No copy uses gRPC.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
# What gRPC writes by itself is not a line of our log: the code that used a connection logs its end.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
