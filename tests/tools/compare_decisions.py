"""Compares what two checkouts of Ringwise decide on random clusters.

    python -m tests.tools.compare_decisions OLD_CHECKOUT [--scenarios N] [--lives N] [--seed S]

Each scenario is decided by both checkouts with `ringwise place --scores --all -o json`; the answers of `why`,
`capacity`, `doctor` and `topology show` are compared, too. A life is a lab in virtual time in which jobs come
and end and chips break: both checkouts run it, what they show is compared after every step, and the new
checkout replays the journal of the old one. The wording of sentences is not compared.

Exit code 1 when there is a difference; the inputs of each are kept in a folder that is named.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.tools.checkouts import Checkout, Ran
from tests.tools.documents import decisions, first_difference
from tests.tools.scenarios import Scenario, scenario

ROOT = Path(__file__).resolve().parents[2]
#: Steps of one life.
STEPS = 14
_ACTIONS = ("submit", "submit", "submit", "time", "time", "break", "heal", "delete", "drain", "open")


class Comparison:
    """Two checkouts, and how often they differed."""

    def __init__(self, old: Checkout, new: Checkout, folder: Path) -> None:
        self.old = old
        self.new = new
        self.folder = folder
        self.differences = 0
        self.questions = 0
        #: How the jobs of all scenarios came out, so that a run that decides nothing is seen.
        self.outcomes: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()

    def ask(self, what: str, *arguments: str) -> Any:
        """Ask both the same; returns the new answer, or None where it is no document."""
        return self.ask_each(what, arguments, arguments)

    def ask_each(self, what: str, old: tuple[str, ...], new: tuple[str, ...]) -> Any:
        self.questions += 1
        self.old.send(*old)
        self.new.send(*new)
        before, after = self.old.receive(), self.new.receive()
        found = _difference(before, after)
        if found is not None:
            self.report(what, found)
        return None if after.code else json.loads(after.out)

    def report(self, what: str, found: str) -> None:
        self.differences += 1
        print(f"different: {what}: {found}", flush=True)

    def count(self, answer: Any) -> None:
        for job in answer["jobs"]:
            self.outcomes[job["outcome"]] += 1
            if job["reason"] is not None:
                self.codes[job["reason"]["code"]] += 1

    # -- one cycle -------------------------------------------------------------------------------

    def scenario(self, made: Scenario) -> None:
        before = self.differences
        inputs = self.folder / made.name
        inputs.mkdir()
        manifest, configuration = inputs / "objects.json", inputs / "volcano-scheduler.conf"
        manifest.write_text(made.manifest())
        configuration.write_text(made.configuration)
        source = ("-f", str(manifest), "--config", str(configuration), "-o", "json")
        answer = self.ask(f"{made.name} place", "place", *source, "--scores", "--all")
        waiting: list[str] = []
        if answer is not None:
            self.count(answer)
            waiting = [
                f"{job['namespace']}/{job['name']}" for job in answer["jobs"] if job["outcome"] != "running"
            ]
        for name in waiting[:1]:
            self.ask(f"{made.name} why {name}", "why", name, *source)
        for question in (("capacity",), ("doctor",), ("topology", "show")):
            self.ask(f"{made.name} {' '.join(question)}", *question, *source)
        if self.differences == before:
            shutil.rmtree(inputs)

    # -- a lab's life ------------------------------------------------------------------------------

    def life(self, seed: int) -> None:
        before = self.differences
        made = scenario(seed)
        inputs = self.folder / f"life-{made.name}"
        inputs.mkdir()
        configuration = inputs / "volcano-scheduler.conf"
        configuration.write_text(made.configuration)
        options = ("--nodes", "0", "--config", str(configuration), "--duration", "7m")
        old, new = inputs / "old", inputs / "new"
        with self.old.lab(old, *options), self.new.lab(new, *options):
            for number, arguments in enumerate(_steps(made, inputs, random.Random(seed))):
                what = f"life {made.name} step {number} {' '.join(arguments[:3])}"
                self.ask_each(what, (*arguments, "--lab", str(old)), (*arguments, "--lab", str(new)))
                for kind in ("pods", "jobs", "nodes", "queues"):
                    show = ("get", kind, "-o", "json", "--lab")
                    self.ask_each(f"{what}, get {kind}", (*show, str(old)), (*show, str(new)))
                if self.differences > before:
                    # What follows from a difference says nothing new.
                    break
            self.count(self.new.run("get", "jobs", "-o", "json", "--lab", str(new)).document())
        for journal in sorted(old.glob("journal*.jsonl")):
            self.questions += 1
            ran = self.new.run("replay", str(journal), "-o", "json")
            if ran.code:
                self.report(f"life {made.name} replay of {journal.name}", (ran.out or ran.err)[:300])
        if self.differences == before:
            shutil.rmtree(inputs)


def _difference(before: Ran, after: Ran) -> str | None:
    if before.code != after.code:
        return f"exit code {before.code}, {after.code}: {after.err.strip()[:300] or before.err.strip()[:300]}"
    if before.code:
        return None
    return first_difference(decisions(json.loads(before.out)), decisions(json.loads(after.out)))


def _steps(made: Scenario, inputs: Path, rng: random.Random) -> Iterator[tuple[str, ...]]:
    """What is done to a lab: first its cluster, then jobs that come and go, faults and time."""

    def submit(number: int, objects: list[dict[str, Any]]) -> tuple[str, ...]:
        path = inputs / f"submit-{number}.json"
        path.write_text(made.manifest(objects))
        return ("submit", str(path), "--keep-going", "-o", "json")

    yield submit(0, made.cluster)
    nodes = [one["metadata"]["name"] for one in made.cluster if one["kind"] == "Node"]
    coming = list(enumerate(made.jobs, 1))
    here: list[str] = []
    broken: list[tuple[str, str, str]] = []
    closed: list[str] = []

    def next_job() -> tuple[str, ...]:
        number, objects = coming.pop(0)
        here.append(objects[0]["metadata"]["name"])
        return submit(number, objects)

    for _ in range(STEPS):
        action = rng.choice(
            ("submit", "submit", "submit", "time", "time", "break", "heal", "delete", "drain", "open")
        )
        if action == "submit" and coming:
            yield next_job()
        elif action == "break":
            kind = "network" if rng.random() < 0.3 else "chip"
            broken.append((kind, rng.choice(nodes), str(rng.randrange(4))))
            yield ("fault", "inject", *broken[-1], "-o", "json")
        elif action == "heal" and broken:
            yield ("fault", "clear", *broken.pop(), "-o", "json")
        elif action == "delete" and here:
            yield ("delete", "job", here.pop(rng.randrange(len(here))), "-o", "json")
        elif action == "drain":
            closed.append(rng.choice(nodes))
            yield ("drain", closed[-1], "-o", "json")
        elif action == "open" and closed:
            yield ("uncordon", closed.pop(), "-o", "json")
        else:
            yield ("advance", rng.choice(("3s", "40s", "3m", "8m")), "-o", "json")
    while coming:
        yield next_job()
    for node in closed:
        yield ("uncordon", node, "-o", "json")
    yield ("advance", "4m", "-o", "json")
    yield ("advance", "30m", "-o", "json")


def _progress(what: str, done: int, total: int, comparison: Comparison) -> None:
    end = "\r" if sys.stderr.isatty() and done < total else "\n"
    if end == "\r" or done % 50 == 0 or done == total:
        text = f"{what} {done} of {total}, {comparison.differences} differences"
        print(text, end=end, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", type=Path, help="the checkout to compare with")
    parser.add_argument("--new", type=Path, default=ROOT, help="the checkout that is compared (this one)")
    parser.add_argument("--scenarios", type=int, default=500)
    parser.add_argument("--lives", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="the first scenario's")
    parser.add_argument("--stop-after", type=int, default=20, help="differences")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ringwise-compare-"))
    began = time.monotonic()
    with closing(Checkout(options.old)) as old, closing(Checkout(options.new)) as new:
        comparison = Comparison(old, new, folder)
        for seed in range(options.seed, options.seed + options.scenarios):
            comparison.scenario(scenario(seed))
            _progress("scenario", seed - options.seed + 1, options.scenarios, comparison)
            if comparison.differences >= options.stop_after:
                break
        for seed in range(options.seed, options.seed + options.lives):
            if comparison.differences >= options.stop_after:
                break
            comparison.life(seed)
            _progress("life", seed - options.seed + 1, options.lives, comparison)
    seconds = time.monotonic() - began
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(comparison.outcomes.items()))
    print(f"jobs: {outcomes or 'none'}; {len(comparison.codes)} reason codes")
    print(
        f"{options.scenarios} scenarios, {options.lives} lives, {comparison.questions} questions, "
        f"{comparison.differences} differences, {seconds:.0f} s"
    )
    if comparison.differences:
        print(f"inputs: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
