"""An API server without objects: lists are empty, watches are silent, Leases can be acquired."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

#: Seconds that a watch stays open; the client opens it again.
_WATCH = 300.0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    #: As in API servers: an answer is sent at once, not when the client has acknowledged its first half.
    disable_nagle_algorithm = True
    #: Path of a Lease to its body; of one cluster, and a run of the scheduler releases it at its end.
    leases: dict[str, dict[str, Any]] = {}  # noqa: RUF012

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if "/leases/" in url.path:
            lease = self.leases.get(url.path)
            self._answer(404, _NOT_FOUND) if lease is None else self._answer(200, lease)
        elif "watch" in parse_qs(url.query):
            self._watch()
        else:
            self._answer(200, {"metadata": {"resourceVersion": "1"}, "items": []})

    def do_POST(self) -> None:
        body = self._body()
        self._keep(f"{urlsplit(self.path).path}/{body['metadata']['name']}", body)

    def do_PUT(self) -> None:
        self._keep(urlsplit(self.path).path, self._body())

    def _keep(self, path: str, body: dict[str, Any]) -> None:
        body["metadata"]["resourceVersion"] = "1"
        if "/leases/" in path:
            self.leases[path] = body
        self._answer(200, body)

    def _body(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return read

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _watch(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        threading.Event().wait(_WATCH)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""


_NOT_FOUND = {
    "kind": "Status",
    "status": "Failure",
    "reason": "NotFound",
    "message": "not found",
    "code": 404,
}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    #: A scheduler opens a connection for every kind of object at once. With the usual 5 some wait a second.
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that ends breaks its connections."""


def serve() -> None:
    """Serve until the process is ended; the port is printed first."""
    server = _Server(("127.0.0.1", 0), _Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
