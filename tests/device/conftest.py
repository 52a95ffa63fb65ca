"""The driver's libraries, compiled from small C files with the same symbols."""

from __future__ import annotations

import ctypes
import io
import shutil
import subprocess
from pathlib import Path

import pytest

from ringwise.device.drivers import dcmi
from ringwise.log import ERROR, WARNING, Logger

SOURCES = Path(__file__).with_name("dcmi")
COMPILER = shutil.which("gcc") or shutil.which("cc")


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all libraries."""
    if COMPILER is None:
        pytest.skip("no C compiler on the path: the bindings need one for their libraries")
    folder = tmp_path_factory.mktemp("libraries")
    for source in SOURCES.glob("*.c"):
        target = folder / f"{source.stem}.so"
        subprocess.run(
            [COMPILER, "-shared", "-fPIC", "-Wl,-Bsymbolic", "-o", str(target), str(source)], check=True
        )
    return folder


@pytest.fixture
def library(libraries: Path, tmp_path: Path) -> ctypes.CDLL:
    """A copy for each test: a library is loaded once for each file and keeps its state."""
    return dcmi.load_library(Path(shutil.copy(libraries / "libdcmi.so", tmp_path)))


@pytest.fixture
def lingqu_library(libraries: Path, tmp_path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(shutil.copy(libraries / "liblingqu-dcmi.so", tmp_path)))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Warnings and errors of this test."""
    stream = io.StringIO()
    monkeypatch.setattr(Logger, "_stream", stream)
    monkeypatch.setattr(Logger, "_written", frozenset({WARNING, ERROR}))
    return stream
