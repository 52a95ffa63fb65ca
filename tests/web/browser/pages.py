"""Every page of the dashboard on one lab: layout checks, axe and the reference pictures use the same list."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from tests.builders.objects import usage_limit
from tests.checkout import ROOT
from tests.lab.rig import job, queue
from tests.web.browser.rig import DashboardLab, View

#: Reference pictures, and how the panels of each page are arranged: `make pictures` writes both.
PICTURES = ROOT / "docs" / "pictures"
ARRANGEMENTS = PICTURES / "arrangements.json"
LAB_OPTIONS = ("--nodes", "96", "--leaf-size", "16")
#: Width and theme of the two pictures of a page, and how their files end.
SIZES = {"": (1280, "light"), "-narrow": (420, "dark")}
_LIMIT = usage_limit("research", {"queue": "research"}, hard={"requests.huawei.com/Ascend910": 320})


class Page(NamedTuple):
    path: tuple[str, ...]
    settings: str = ""
    #: What a reader does before there is something to see.
    prepare: Callable[[View], None] = lambda view: None

    def open(self, view: View) -> View:
        if self.path == ("over-time",):
            view.page.route("**/api/v1/series", lambda route: route.fulfill(json=_SERIES))
        view.open(*self.path, settings=self.settings)
        self.prepare(view)
        view.complete()
        return view


def _ask(view: View) -> None:
    view.page.locator("textarea").fill("---\n".join([job("next", 2, 8), job("huge", 90, 8)]))
    view.page.get_by_role("button", name="Where would it go?").click()
    view.see("2 jobs:")


def _wait_for_starts(view: View) -> None:
    """Expected starts are found beside the thread that decides, and come later."""
    view.row("lab/llama-70b", "Jobs").get_by_text("in 1h5m").wait_for()


def _show_keys(view: View) -> None:
    view.page.keyboard.press("?")
    view.page.get_by_role("dialog").wait_for()


PAGES = {
    "problems": Page(("problems",)),
    "map": Page(("map",)),
    "map-fragmentation": Page(("map",), "color=fragmentation"),
    "map-node": Page(("map",), "node=node-40&color=health"),
    "jobs": Page(("jobs",), prepare=_wait_for_starts),
    "job-pending": Page(("jobs", "lab", "llama-70b")),
    "job-running": Page(("jobs", "lab", "vision")),
    "job-refused": Page(("jobs", "lab", "odd")),
    "job-not-found": Page(("jobs", "lab", "nothing")),
    "nodes": Page(("nodes",)),
    "nodes-by-switch": Page(("nodes",), "rows=switch"),
    "node": Page(("nodes", "node-40")),
    "queues": Page(("queues",)),
    **{
        tab: Page(("operations",), f"tab={tab}")
        for tab in ("reservations", "isolations", "limits", "moves", "hypernodes")
    },
    "what-if": Page(("what-if",), prepare=_ask),
    "over-time": Page(("over-time",)),
    "accounting": Page(("accounting",)),
    "keys": Page(("jobs",), prepare=_show_keys),
    "accounting-by-job": Page(("accounting",), "by=job"),
}


def _ask_nonsense(view: View) -> None:
    view.page.locator("textarea").fill(job("next", 1, 8).replace("replicas: 1", "replicas: many"))
    view.page.get_by_role("button", name="Where would it go?").click()
    view.see("must be a whole number")


def _show_plan(view: View) -> None:
    _ask(view)
    view.page.get_by_role("link", name="Show on the map").click()
    view.see("Highlighted: the chips that the what-if would take")


#: The same pages with other contents. They have no pictures.
STATES = {
    **{f"map by {color}": Page(("map",), f"color={color}") for color in ("queue", "free", "health")},
    "map of a job": Page(("map",), "job=lab/vision"),
    "map of a plan": Page(("what-if",), prepare=_show_plan),
    "jobs of a queue": Page(("jobs",), "queue=production&state=running"),
    "no jobs found": Page(("jobs",), "text=nothing"),
    "bad nodes": Page(("nodes",), "show=bad"),
    "node not found": Page(("nodes", "nothing")),
    "wrong manifest": Page(("what-if",), prepare=_ask_nonsense),
    "accounting by user": Page(("accounting",), "by=user&days=366"),
}

#: A lab remembers a sample for every five seconds of the wall clock: it has none yet.
_SERIES = {
    "interval_seconds": 10,
    "times": [1_800_000_000 + 10 * i for i in range(60)],
    "resources": {
        "huawei.com/Ascend910": {
            "used": [400 + 4 * i for i in range(60)],
            "free": [368 - 4 * i for i in range(60)],
            "fragmentation": [0.05 + i % 9 / 100 for i in range(60)],
        }
    },
    "pending": [i // 8 % 5 for i in range(60)],
    "rejected": [0] * 60,
    "decisions": [float(i % 7) for i in range(60)],
}


def _hyper_node(name: str, tier: int, kind: str, pattern: str) -> str:
    member = f"{{type: {kind}, selector: {{regexMatch: {{pattern: '{pattern}'}}}}}}"
    if kind == "HyperNode":
        member = f"{{type: {kind}, selector: {{exactMatch: {{name: {pattern}}}}}}}"
    return f"""apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {{name: {name}}}
spec: {{tier: {tier}, tierName: {("leaf", "spine")[tier - 1]}, members: [{member}]}}
"""


def fill(lab: DashboardLab) -> None:
    """Jobs of several sizes and queues that run, wait and are refused; faults in free and in used chips."""
    jobs = [queue("research", 2), json.dumps(_LIMIT) + "\n", queue("production", 3), queue("batch", chips=64)]
    for number, (name, pods) in enumerate(
        [("llama-65b", 24), ("vision", 12), ("speech", 8), ("ranking", 6), ("search", 5), ("ocr", 4)]
    ):
        jobs.append(job(name, pods, 8, queue=("research", "production")[number % 2], minutes=90))
    jobs += [job(f"notebook-{i}", 1, (1, 2, 4)[i % 3]) for i in range(22)]
    jobs += [job(f"eval-{i}", 1, 4, queue="research") for i in range(6)]
    jobs += [job("odd", 1, 3), job("pretraining-of-the-second-large-language-model", 2, 8, queue="batch")]
    lab.terminal.submit(*jobs)
    lab.terminal.ok("advance 20m")
    for chip in ("node-40 3", "node-71 0", "node-90 5"):
        lab.terminal.ok(f"fault inject chip {chip}")
    lab.terminal.ok("cordon node-88")
    lab.terminal.ok(f"isolate node-92 --lab {lab.folder} --reason 'replace a fan'")
    lab.terminal.ok("drain node-85 --at 3h")
    lab.terminal.ok("reserve node-88 node-92 --for production --from 5h --to 29h --name nightly -y")
    lab.terminal.submit(
        *(_hyper_node(f"leaf-{at}", 1, "Node", f"^node-{at}[0-9]$") for at in range(1, 9)),
        _hyper_node("spine-1", 2, "HyperNode", "leaf-1"),
        _hyper_node("spine-2", 2, "HyperNode", "leaf-99"),
    )
    lab.terminal.submit(job("llama-70b", 40, 8, queue="production"), job("later", 12, 8, queue="batch"))
    lab.terminal.ok("advance 5m")


LARGE_OPTIONS = ("--nodes", "5000", "--leaf-size", "50")
#: Pages of a lab of that size that have pictures, too.
LARGE_PAGES = {"large-map": Page(("map",)), "large-problems": Page(("problems",))}


def fill_large(lab: DashboardLab) -> None:
    """A cluster that is nearly full, with faults of all kinds and jobs that have been pending for long."""
    lab.terminal.submit(*(job(f"train-{at}", 8 << at % 5, 8) for at in range(230)))
    lab.terminal.submit(*(job(f"odd-{at}", 1, 3) for at in range(12)))
    lab.terminal.ok("advance 11m")
    for at in range(12):
        lab.terminal.ok(f"fault inject chip node-{at * 397} {at % 8}")
    lab.terminal.ok("fault inject node node-77")
    lab.terminal.ok("fault inject switch node-1234")
    lab.terminal.ok("cordon node-2500")
    lab.terminal.ok("advance 1m")


#: Labs with their pages that have pictures.
PICTURED = ((LAB_OPTIONS, fill, PAGES), (LARGE_OPTIONS, fill_large, LARGE_PAGES))


def picture(page: str, ending: str) -> str:
    return f"{page}{ending}.png"


def written_arrangements() -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = json.loads(ARRANGEMENTS.read_text())
    return found
