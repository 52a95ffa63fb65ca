"""`reserve`, `unreserve` and `get reservations` in a lab."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ringwise.durations import time_text
from tests.lab.rig import Terminal, job, nodes, running

HOUR = 3600 * 10**9
QUEUE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: research}
spec: {weight: 1}
"""


def words(terminal: Terminal, command: str) -> str:
    return " ".join(terminal.ok(command).split())


def of_research(document: str) -> str:
    assert "queue: default" in document
    return document.replace("queue: default", "queue: research")


def test_only_the_jobs_of_the_queue_use_the_nodes_until_it_is_over(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(2)) as server:
        terminal.submit(QUEUE)
        now = server.live.now
        said = terminal.ok("reserve node-0 --for research --from 1h --to 3h --name night --yes")
        times = f"from {time_text(now + HOUR)} to {time_text(now + 3 * HOUR)}"
        assert f"reservation night: 1 node for queue research {times}" in said
        assert "ringwise unreserve night" in said
        terminal.submit(job("short", 1, 8, minutes=50), job("long", 1, 8, minutes=900))
        terminal.submit(job("silent", 1, 8))
        terminal.ok("advance 1m")
        seats = {name.partition("/")[2]: node for name, (node, _) in terminal.seats().items()}
        assert seats == {"short-worker-0": "node-0", "long-worker-0": "node-1"}
        terminal.ok("advance 61m")
        assert "lab/silent-worker-0" not in terminal.seats()
        (sums,) = terminal.json("top --once")["status"]["resources"].values()
        assert (sums["reserved"], sums["free"]) == (8, 0)
        assert f"reserved for queue research until {time_text(now + 3 * HOUR)} (night)" in words(
            terminal, "get nodes"
        )
        terminal.submit(of_research(job("theirs", 1, 4)))
        terminal.ok("advance 1m")
        assert terminal.seats()["lab/theirs-worker-0"][0] == "node-0"
        terminal.ok("delete job theirs")
        terminal.ok("advance 2h")
        assert terminal.json("get reservations")["reservations"] == []
        assert terminal.seats()["lab/silent-worker-0"][0] == "node-0"


def test_a_question_names_the_nodes_and_the_jobs_that_stay(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(2)):
        terminal.submit(job("old", 1, 8), job("ends", 1, 8, minutes=30))
        terminal.ok("advance 1m")
        command = "reserve node-0 node-1 --for namespace=ann --from 1h --to 3h --name night"
        asked = terminal.run(command, stdin="n\n")
        assert asked.exit_code == 1
        assert "1 job of others may still be running then; no pod is evicted:" in asked.output
        assert "lab/old: 1 pod there; it has no expected duration" in asked.output
        assert "lab/ends" not in asked.output
        assert "nothing was changed" in asked.output
        assert terminal.json("get reservations")["reservations"] == []
        plan = terminal.json(f"{command} --plan")["reservation"]
        assert [one["job"] for one in plan["running"]] == ["lab/old"]
        assert terminal.run(command, stdin="y\n").exit_code == 0
        terminal.ok("advance 2h")
        # Nobody was evicted, and the list still says who is there.
        assert "lab/old-worker-0" in terminal.seats()
        assert "night: jobs of others still on its nodes: lab/old" in words(terminal, "get reservations")


def test_a_number_of_nodes_takes_those_that_are_free_soonest(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(5)):
        jobs = [job("never", 1, 8), job("late", 1, 8, minutes=90), job("soon", 1, 8, minutes=10)]
        terminal.submit(*jobs)
        terminal.ok("advance 1m")
        seat = {
            name.partition("-")[0].removeprefix("lab/"): node for name, (node, _) in terminal.seats().items()
        }
        free = sorted({f"node-{number}" for number in range(5)} - set(seat.values()))
        terminal.ok(f"cordon {free[0]}")

        def chosen(count: int) -> list[str]:
            found = terminal.json(f"reserve {count} --for default --from 2h --to 3h --plan")
            return list(found["reservation"]["nodes"])

        assert chosen(1) == [free[1]]
        assert chosen(2) == sorted([free[1], seat["soon"]])
        assert chosen(3) == sorted([free[1], seat["soon"], seat["late"]])
        assert chosen(4) == sorted([free[1], *seat.values()])
        said = terminal.refused("reserve 5 --for default --from 2h --to 3h --plan")
        assert "4 nodes can be reserved" in said
        assert "5 are requested" in said


REFUSED = {
    "reserve node-0 --for nobody --to 1h": 'queue "nobody" not found, and namespace "nobody" has no jobs',
    "reserve node-0 --for both --to 1h": "both is both a queue and a namespace: use queue=both or",
    "reserve node-0 --for queue=nobody --to 1h": 'queue "nobody" not found',
    "reserve node-0 --for team=x --to 1h": '"team=x" is neither a queue nor a namespace: expected',
    "reserve node-0 --for namespace=A_b --to 1h": 'invalid namespace name "A_b"',
    "reserve node-0 --for default --from 2h --to 1h": "; +1h is that long after it",
    "reserve node-0 --for default --to 2020-01-01T00:00:00Z": "is in the past",
    "reserve node-0 --for default --to 10000h": "spec.endTime: must be at most 366 days later than startTime",
    "reserve node-0 --for default --from 10000h --to 10001h": "more than a year ahead",
    "reserve node-0 --for default --to soon": 'invalid time "soon": expected a time such as 2026-01-31',
    "reserve node-0 --for default --to 1h --from ++2h": 'invalid time "++2h"',
    "reserve node-0 --for default --to +90": 'invalid time "+90"',
    "reserve node-7 --for default --to 1h": 'node "node-7" not found',
    "reserve 0 --for default --to 1h": "at least 1 node",
    "reserve 999999999999 --for default --to 1h": "are requested",
    "reserve node-0 --board 910-x8 --for default --to 1h": "--board requires a number of nodes",
    "reserve 1 --board 310p --for default --to 1h": "no node has the board 310p",
    "reserve node-1 --for default --from 30m --to 2h": "node-1 is reserved for queue default from",
    "reserve node-0 --for default --to 2h --name taken": "reservation taken already exists",
    "reserve node-0 --for default --to 2h --name 'a b'": (
        'metadata.name: Invalid value: "a b": must have at most 63 lower-case'
    ),
    "unreserve takn": 'reservation "takn" not found; must be one of taken; did you mean "taken"?',
    "unreserve zzz": 'reservation "zzz" not found; must be one of taken',
}


@pytest.fixture(scope="module")
def reserved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    folder = tmp_path_factory.mktemp("reserved")
    terminal = Terminal(folder)
    with running(folder, nodes(2)):
        terminal.submit(QUEUE.replace("research", "both"))
        terminal.submit(job("one", 1, 1).replace("namespace: lab", "namespace: both"))
        terminal.ok("reserve node-1 --for default --from 1h --to 3h --name taken --yes")
        yield terminal


@pytest.mark.parametrize("command", REFUSED)
def test_what_cannot_be_reserved_is_one_clear_line(reserved: Terminal, command: str) -> None:
    more = " --yes" if command.startswith("reserve") else ""
    assert REFUSED[command] in reserved.refused(command + more)


def test_why_names_it_with_fixes_that_help(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(1)):
        terminal.ok("reserve node-0 --for namespace=ann --from 1h --to 3h --name night --yes")
        terminal.submit(job("train", 1, 8, minutes=120))
        terminal.ok("advance 1m")
        why = words(terminal, "why train")
        assert "node-reserved 1" in why
        assert "set ringwise.io/expected-duration to 58m or less" in why
        assert "delete reservation night (`ringwise unreserve night`)" in why
        assert "after the end of reservation night" in why
        terminal.ok("unreserve night")
        terminal.ok("advance 1m")
        assert "lab/train-worker-0" in terminal.seats()


def test_a_lab_that_starts_again_has_its_reservations_and_replays(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(1)):
        terminal.ok("reserve node-0 --for namespace=ann --to 3h --name night --yes")
        terminal.submit(job("train", 1, 8))
        terminal.ok("advance 1m")
    with running(tmp_path, nodes(1)):
        assert [one["name"] for one in terminal.json("get reservations")["reservations"]] == ["night"]
        terminal.ok("advance 1m")
        assert terminal.seats() == {}
        terminal.ok("advance 3h")
        assert "lab/train-worker-0" in terminal.seats()


def test_a_node_that_breaks_is_said_in_the_list(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(2)):
        terminal.ok("reserve node-0 node-1 --for namespace=ann --to 3h --name night --yes")
        terminal.ok("cordon node-1")
        assert "night: node-1 is cordoned" in words(terminal, "get reservations")
        (found,) = terminal.json("get reservations")["reservations"]
        assert [(one["node"], one["state"]) for one in found["problems"]] == [("node-1", "cordoned")]


def test_every_view_says_for_whom_the_nodes_are_kept(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with running(tmp_path, nodes(2, leaf_size=2)) as server:
        now = server.live.now
        begin, end = time_text(now + HOUR), time_text(now + 3 * HOUR)
        terminal.ok("reserve node-0 --for namespace=ann --from 1h --to 3h --name night --yes")
        sentence = f"reserved for namespace ann from {begin} to {end}"
        for command in ("get nodes", "describe node node-0", "topology show", "get chips --node node-0"):
            assert sentence in words(terminal, command), command
        assert "8 free only until a drain or a reservation" in words(terminal, "top --once")
        assert f"end before {begin}: node-0 is reserved then" in words(terminal, "capacity")
        terminal.ok("advance 61m")
        assert "node-0 [~~~~|~~~~]" in words(terminal, "top --once")
        assert "8 free, 8 reserved" in words(terminal, "capacity")
        assert "1 of 2 free" in words(terminal, "topology show")
