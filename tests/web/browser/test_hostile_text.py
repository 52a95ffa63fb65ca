"""Names, reasons, labels and annotations full of markup, script and signs of direction are shown as text."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.lab.rig import job
from tests.web.browser.conftest import Opener
from tests.web.browser.rig import DashboardLab, View

pytestmark = pytest.mark.browser

PIECES = (
    "<script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    "<svg onload=window.hit=1>",
    "\"><iframe srcdoc='<script>parent.hit=1</script>'>",
    "javascript:window.hit=1",
    "</title></textarea></style><b>bold</b>",
    "{{constructor.constructor('window.hit=1')()}}",
    "${window.hit=1}",
    "__proto__",
    "constructor",
    "../../../etc",
    "a?b=c#d/e%2Ff%",
    "&lt;b&gt;&amp;&#x202e;",
    "\u202egnp.exe",
    "\u2066\u2067isolate\u2069",
    "\u05d0\u05d1\u05d2 \u0627\u0644\u0639",
    "zero\u200bwidth\ufeff",
    "null\x00bell\x07\x1b[31m",
    "line\nfeed\r\ttab",
    "\U0001f600\U000e0041",
    "\ud800",
    "'; DROP TABLE--",
    "x" * 300,
    " ",
)
#: Half of a sign can be no part of an address.
NAMES = tuple(piece for piece in PIECES if "\ud800" not in piece)
#: Words that the page compares, and must understand.
MEANT = {
    "epoch",
    "time",
    "state",
    "chip_states",
    "schedulable",
    "health",
    "kind",
    "schema",
    "live",
    "interval_seconds",
    "group_by",
}
#: Signs that are shown as their number.
ACTING = {"\u202e": "[U+202E]", "\u200b": "[U+200B]", "\ufeff": "[U+FEFF]", "\x07": "[U+0007]"}


class Fuzz:
    """Replaces texts of documents by hostile ones; the same text always by the same one."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._known: dict[str, str] = {}

    def text(self, old: str, pieces: tuple[str, ...] = PIECES) -> str:
        if old not in self._known:
            chosen = self._random.choices(pieces, k=self._random.randint(1, 3))
            # The number keeps names of different things different.
            self._known[old] = f"{''.join(chosen)}{len(self._known)}"
        return self._known[old]

    def document(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            names = key in ("labels", "annotations", "rejected_nodes")
            return {
                (self.text(name) if names else name): self.document(one, "" if names else name)
                for name, one in value.items()
            }
        if isinstance(value, list):
            return [self.document(one, key) for one in value]
        if isinstance(value, str) and value and key not in MEANT:
            return self.text(value)
        return value


def assert_harmless(view: View) -> None:
    assert view.page.evaluate("window.hit") is None
    strangers = (
        "main :is(script, iframe, svg, object, embed, b, style, form:not(.what-if), img), [onerror], [onload]"
    )
    assert view.page.locator(strangers).count() == 0
    targets = view.page.evaluate("[...document.querySelectorAll('a')].map((one) => one.getAttribute('href'))")
    assert [one for one in targets if not one.startswith("#/") and one not in ("api/", "#view-title")] == []
    text = view.text("body")
    assert not set(text) & set(ACTING)
    assert view.page.evaluate("({}).hit") is None


@pytest.mark.parametrize("seed", range(6))
def test_any_text_in_any_document_stays_text(lab: DashboardLab, open_page: Opener, seed: int) -> None:
    lab.terminal.submit(job("runs", 2, 8), job("large", 6, 8), job("odd", 1, 3))
    lab.terminal.ok("cordon node-5")
    lab.terminal.ok("advance 5s")
    fuzz = Fuzz(seed)
    for name in ("lab", "runs", "large", "odd", "node-0"):
        fuzz.text(name, NAMES)
    view = open_page(lab.url, width=360 if seed % 2 else 1280)
    real: dict[str, str] = {}

    def answer(route: Any) -> None:
        # The hostile names lead back to the real ones.
        path = route.request.url.partition("/api/v1/")[2]
        response = route.fetch(url=f"{lab.url}api/v1/{real.get(path, path)}")
        body = json.dumps(fuzz.document(response.json()))
        route.fulfill(status=response.status, content_type="application/json", body=body)

    def job_path(name: str) -> tuple[str, str, str]:
        path = ("jobs", fuzz.text("lab"), fuzz.text(name))
        encoded = "/".join(js_encoded(part) for part in path)
        for tail in ("", "/why", "/history"):
            real[f"{encoded}{tail}"] = f"jobs/lab/{name}{tail}"
        return path

    def js_encoded(part: str) -> str:
        script = "part => import('/page/text.js').then((text) => text.encoded(part))"
        return str(view.page.evaluate(script, part))

    view.page.route(lambda url: "/api/v1/" in url and "/stream" not in url, answer)
    view.open("map", settings="color=job")
    assert_harmless(view)
    for path in (("map",), ("jobs",), ("nodes",), ("queues",), ("accounting",)):
        view.open(*path)
        view.settled()
        assert_harmless(view)
    for name in ("runs", "large", "odd"):
        view.open(*job_path(name))
        view.complete()
        assert_harmless(view)
    node = fuzz.text("node-0")
    real[f"nodes/{js_encoded(node)}"] = "nodes/node-0"
    view.open("nodes", node)
    view.page.get_by_role("table", name="Chips").wait_for()
    assert_harmless(view)
    view.open("what-if")
    view.page.get_by_label("Manifest").fill(job("asked", 1, 8))
    view.page.get_by_role("button", name="Where would it go?").click()
    view.see("1 job:")
    assert_harmless(view)


def test_what_an_annotation_says_is_shown_as_it_is(lab: DashboardLab, open_page: Opener) -> None:
    """The whole way, from a manifest through the real server."""
    hostile = "<img src=x onerror=window.hit=1>\u202egnp.exe"
    named = "metadata: {name: marked, namespace: lab"
    manifest = job("marked", 1, 8)
    assert named in manifest
    lab.terminal.submit(manifest.replace(named, f"{named}, annotations: {{sp-block: {json.dumps(hostile)}}}"))
    view = open_page(lab.url).open("jobs", "lab", "marked")
    view.page.get_by_role("table", name="Pods").wait_for()
    assert_harmless(view)
    assert "<img src=x onerror=window.hit=1>[U+202E]gnp.exe" in view.text()


def test_the_header_names_throttled_namespaces_as_text(quiet_lab: DashboardLab, open_page: Opener) -> None:
    view = open_page(quiet_lab.url).open("jobs").complete()
    script = """async (throttled) => {
      const { store } = await import("/page/main.js");
      const totals = { ...store.totals, throttled };
      // What the lab sends next does not take it back.
      Object.defineProperty(store, "totals", { get: () => totals, set: () => {} });
      store.apply({ sequence: store.sequence, time: store.time });
    }"""
    assert "throttled" not in view.text("body")
    view.page.evaluate(script, {"a": 0, PIECES[1]: 12.5, "\u202eb": 3, "c": 0, "d": 0})
    view.see_total("throttled namespaces", f"{PIECES[1]} 12.5s, [U+202E]b 3s, a and 2 more")
    assert_harmless(view)


@pytest.mark.parametrize("piece", [name for name in NAMES if name.strip()])
def test_a_hostile_name_can_be_read(quiet_lab: DashboardLab, open_page: Opener, piece: str) -> None:
    view = open_page(quiet_lab.url)
    view.open("jobs")
    shown = view.page.evaluate("piece => import('/page/text.js').then((text) => text.visible(piece))", piece)
    assert not set(shown) & set(ACTING)
    view.page.evaluate(
        """async (name) => {
          const { store } = await import("/page/main.js");
          const row = {
            id: 7, namespace: "ns", name, kind: "Pod", queue: "q", phase: "Running", state: "scheduled",
            pods: 1, running: 1, chips: 1, priority: 0, created: 0, reason_code: "", reason_message: "",
            reason_source: "", affected_by: [], moves: [], expected_start: null, user: "", expected_end: null,
          };
          store.apply({ sequence: store.sequence, time: store.time, jobs: [row] });
        }""",
        piece,
    )
    link = view.page.get_by_role("table", name="Jobs").get_by_role("link").first
    link.wait_for()
    assert link.text_content() == f"ns/{shown}"
    assert_harmless(view)
