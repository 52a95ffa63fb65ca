"""shuffle: evicts the running pods that plugins name."""

from __future__ import annotations

from ringwise.actions.shuffle import shuffle
from ringwise.framework.configuration import PluginOption
from ringwise.framework.extension_points import VICTIMS
from ringwise.framework.session import Session
from tests.builders.session_lab import cluster


class Names:
    """Names pods as victims, whether they run or not."""

    uids: tuple[str, ...] = ()

    def __init__(self, option: PluginOption) -> None:
        self._seen: list[str] = []

    def open(self, session: Session) -> None:
        session.register(VICTIMS, self.victims)

    def victims(self, candidates: list[str]) -> list[str]:
        assert candidates == ["runs-0", "runs-1", "more-0"]
        return list(self.uids)


class First(Names):
    uids = ("runs-1", "waits-0", "runs-1")


class Second(Names):
    uids = ("more-0",)


def shuffled(*tiers: list[str | PluginOption]) -> list[tuple[str, str]]:
    lab = cluster().node("n1", cpu=9).job("runs", pods=2, cpu=1, on="n1").job("waits", cpu=1)
    lab.job("more", cpu=1, on="n1")
    session = lab.session(*tiers, plugins={"first": First, "second": Second})
    shuffle(session)
    return [(gone.pod.uid, gone.why) for gone in session.evicted]


def test_victims_of_a_tier_are_joined_and_only_running_pods_are_evicted() -> None:
    assert shuffled(["first", "second"]) == [("runs-1", "shuffle"), ("more-0", "shuffle")]


def test_the_first_tier_that_names_any_decides() -> None:
    assert shuffled(["gang"], ["second"], ["first"]) == [("more-0", "shuffle")]


def test_without_such_a_plugin_nothing_happens() -> None:
    assert shuffled(["gang", "priority"]) == []


def test_the_flag_turns_a_plugin_off() -> None:
    assert shuffled([PluginOption.of("first", {"victim": False}), "second"]) == [("more-0", "shuffle")]
