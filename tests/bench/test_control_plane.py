"""Ports for the programs of a control plane."""

from __future__ import annotations

from ringwise_bench.control_plane import free_port

#: Programs of one run of the stories.
COUNT = 500


def test_a_free_port_is_given_once_and_to_no_connection() -> None:
    """Systems give connections ports from 32768 on: one of these could have the port before the program."""
    ports = [free_port() for _ in range(COUNT)]
    assert len(set(ports)) == COUNT
    assert all(1024 < port < 32_768 for port in ports)
