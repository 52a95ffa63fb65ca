"""The files and pictures of docs/concepts/racks.md are what `ringwise place` prints."""

from __future__ import annotations

import importlib.util
import io
import re
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from ringwise.apps.place import place
from ringwise.cli.printers.superpods import print_superpods
from ringwise.manifests.bundle import read_bundle
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.scheduler.defaults import default_configuration
from ringwise.views.place import PlaceAnswer
from ringwise.views.topology import superpod_documents

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples" / "racks"
PAGE = (ROOT / "docs" / "concepts" / "racks.md").read_text()
SHOWN = re.findall(
    r"ringwise place -f examples/racks/(\S+) -f examples/racks/(\S+)\n\.\.\.\n(.*?)\.\.\.\n```", PAGE, re.S
)


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_racks", EXAMPLES / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def placed(nodes: str, job: str) -> PlaceAnswer:
    bundle = read_bundle([str(EXAMPLES / nodes), str(EXAMPLES / job)])
    assert not bundle.errors
    return place(bundle, default_configuration(), shipped_catalog())


def test_the_files_are_those_of_their_maker() -> None:
    files = maker().files()
    assert files == {name: (EXAMPLES / name).read_text() for name in files}
    assert {path.name for path in EXAMPLES.iterdir()} >= {*files, "make.py"}
    linked = set(re.findall(r"examples/racks/([\w-]+\.(?:json|yaml))", PAGE))
    assert linked == set(files)


@pytest.mark.parametrize(("nodes", "job", "picture"), SHOWN, ids=[entry[0] for entry in SHOWN])
def test_the_page_shows_what_is_drawn(nodes: str, job: str, picture: str) -> None:
    drawn = io.StringIO()
    view = placed(nodes, job).view
    print_superpods(Console(file=drawn, width=200), superpod_documents(view, view.history.now))
    assert drawn.getvalue() == picture


def test_the_page_has_a_picture_for_each_stage() -> None:
    assert len(SHOWN) == 5


def test_the_page_shows_the_reason_of_a_job_that_waits() -> None:
    reason = placed("fragments-nodes.json", "job.yaml").jobs[0].reason
    assert reason is not None
    assert "\n".join([reason["message"], reason["fixes"][0]]) in PAGE
