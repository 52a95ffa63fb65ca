"""Compare what two revisions of Ringwise decide on random clusters.

    python -m tools.compare_decisions BASE [--clusters N] [--seed S] [--text]

BASE is checked out beside the working tree. Both run the same steps on embedded clusters in virtual time
(`tools/random_clusters.py`, `tools/play_clusters.py`): jobs arrive and end, chips and nodes fail, nodes are
drained, isolated and reserved, jobs are suspended, moved and deleted, the scheduler restarts. The
commands and, after every step, the list of jobs and `why` of every pending job are compared: identifiers and
numbers, with --text also sentences. The leader record is left out: its format may change, and what it is
for is compared after the restarts. Exit code 1 if there is a difference, named by the seed that repeats it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.random_clusters import random_cluster

from tests.tools.documents import decisions, first_difference

ROOT = Path(__file__).resolve().parents[1]
PLAYER = Path("tools", "play_clusters.py")
UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")
#: How the names of the ConfigMaps of the leader record begin.
RECORD = "ringwise-rescheduling"


class Revision:
    """A process that plays clusters with the sources of one checkout."""

    def __init__(self, checkout: Path) -> None:
        player = checkout / PLAYER
        self._process = subprocess.Popen(
            [sys.executable, str(player if player.exists() else ROOT / PLAYER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(checkout / "src"), "PYTHONHASHSEED": "0"},
        )

    def send(self, cluster: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(cluster + "\n")
        self._process.stdin.flush()

    def receive(self) -> list[Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the player ended with exit code {self._process.wait()}")
        played: list[Any] = json.loads(line)
        return played

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """A folder with the files of a revision, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="ringwise-compare-") as folder:
        path = Path(folder, "base")
        git = ("git", "-C", str(ROOT), "worktree")
        if subprocess.run([*git, "add", "--quiet", "--detach", str(path), revision], check=False).returncode:
            # git has said why.
            raise SystemExit(2)
        try:
            yield path
        finally:
            subprocess.run([*git, "remove", "--force", str(path)], check=True)


def difference(before: list[Any], after: list[Any], steps: list[Any], *, text: bool) -> str | None:
    """Return the first step whose outcome differs, and where."""
    before, after = map(without_record, (before, after))
    for number, (old, new, step) in enumerate(zip(before, after, steps, strict=True)):
        found = first_difference(old, new) if text else first_difference(decisions(old), decisions(new))
        if found is not None:
            return f"step {number} ({json.dumps(step)[:100]}): {found}"
    return None


def without_record(played: list[Any]) -> list[Any]:
    """Leave out the commands that write the leader record, and turns with no others, and number uids."""
    found = []
    for step in played:
        turns = [[now, [one for one in commands if not is_record(one)]] for now, commands in step["turns"]]
        found.append({**step, "turns": [turn for turn in turns if turn[1]]})
    # A uid depends on how many objects were written before, those of the record among them.
    uids: dict[str, str] = {}
    text = UID.sub(lambda uid: uids.setdefault(uid[0], f"uid-{len(uids)}"), json.dumps(found))
    numbered: list[Any] = json.loads(text)
    return numbered


def is_record(command: dict[str, Any]) -> bool:
    return command["type"] == "Publish" and str(command["name"]).startswith(RECORD)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("base", metavar="BASE", help="the revision to compare the working tree with")
    parser.add_argument("--clusters", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first cluster")
    parser.add_argument("--text", action="store_true", help="compare sentences, too")
    options = parser.parse_args()
    began = time.monotonic()
    differing = 0
    seen: Counter[str] = Counter()
    with checkout(options.base) as path:
        base, tree = Revision(path), Revision(ROOT)
        try:
            for seed in range(options.seed, options.seed + options.clusters):
                cluster = random_cluster(seed)
                for revision in (base, tree):
                    revision.send(json.dumps(cluster))
                before, after = base.receive(), tree.receive()
                found = difference(before, after, cluster["steps"], text=options.text)
                if found is not None:
                    differing += 1
                    print(f"seed {seed} differs: {found}", flush=True)
                for step in after:
                    seen.update(command["type"] for _, turn in step["turns"] for command in turn)
                    seen.update(why["reason"]["code"] for why in step["why"].values() if why.get("reason"))
        finally:
            base.end()
            tree.end()
    print("reached: " + ", ".join(f"{name} {count}" for name, count in sorted(seen.items())))
    print(f"{options.clusters} clusters, {differing} differ, {time.monotonic() - began:.0f} s")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
