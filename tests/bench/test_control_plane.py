"""Ports for the programs of a control plane, and requests to its API server."""

from __future__ import annotations

import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ringwise.apps.admission.certificates import make_authority, make_server
from ringwise_bench.control_plane import Api, ApiAnswer, free_port

#: Programs of one run of the stories.
COUNT = 500


def test_a_free_port_is_given_once_and_to_no_connection() -> None:
    """Systems give connections ports from 32768 on: one of these could have the port before the program."""
    ports = [free_port() for _ in range(COUNT)]
    assert len(set(ports)) == COUNT
    assert all(1024 < port < 32_768 for port in ports)


def test_a_port_is_given_to_one_process_although_nothing_listens_there_yet() -> None:
    port = free_port()
    code = f"""
from itertools import chain
from ringwise_bench import control_plane as tried
tried._next_port = chain([{port}], tried._next_port)
print(tried.free_port())
"""
    other = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert int(other.stdout) != port


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    connections: list[object]

    def setup(self) -> None:
        super().setup()
        self.connections.append(self.connection)

    def do_GET(self) -> None:
        self.send_response(404 if self.path == "/missing" else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
        # As a server does with a connection that was idle: it says nothing of it before.
        self.close_connection = self.path == "/last"

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    now = datetime.now(UTC)
    authority = make_authority("tests", now, timedelta(days=1))
    pair = make_server(authority, ["localhost"], now, timedelta(days=1))
    for name, text in (("ca", authority.certificate), ("cert", pair.certificate), ("key", pair.key)):
        (tmp_path / name).write_text(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    Handler.connections = []
    with ThreadingHTTPServer(("localhost", 0), Handler) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Api(f"https://localhost:{server.server_port}", tmp_path / "ca", "token")
        server.shutdown()
        thread.join()


def test_requests_share_a_connection_until_the_server_closes_it(api: Api) -> None:
    """A handshake costs both sides more than most requests, and stories ask ten times a second."""
    for _ in range(3):
        assert api.get("/first") == {}
    with pytest.raises(ApiAnswer, match="404"):
        api.get("/missing")
    assert len(Handler.connections) == 1
    assert api.get("/last") == {}
    assert api.get("/again") == {}
    assert len(Handler.connections) == 2
