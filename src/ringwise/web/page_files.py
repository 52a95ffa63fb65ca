"""The files of the page: read once, served from memory. A path that is not one of them does not exist."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable

from ringwise.records import dataclass

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
_OTHER = "application/octet-stream"
INDEX = "index.html"


@dataclass(frozen=True, slots=True)
class PageFile:
    body: bytes
    packed: bytes
    content_type: str
    etag: str


def page_files() -> Mapping[str, PageFile]:
    """All files of the page, by their path below its folder."""
    return {path: _page_file(path, file.read_bytes()) for path, file in _walk(files(__package__) / "page")}


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    if not folder.is_dir():
        return
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry


def _page_file(path: str, body: bytes) -> PageFile:
    suffix = path[path.rfind(".") :] if "." in path else ""
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return PageFile(body, gzip.compress(body, 9, mtime=0), _TYPES.get(suffix, _OTHER), etag)
