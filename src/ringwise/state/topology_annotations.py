"""The network topology of pods whose PodGroup the controller makes: their annotations, as in Volcano.

What cannot be read counts as in Volcano, and is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ringwise.grammar import quoted
from ringwise.state.model import NetworkTopology
from ringwise.topology.nearest import did_you_mean
from ringwise.topology.numbers import INT32, whole_number
from ringwise.wellknown import NETWORK_TOPOLOGY_HIGHEST_TIER, NETWORK_TOPOLOGY_MODE

KEYS = (NETWORK_TOPOLOGY_MODE, NETWORK_TOPOLOGY_HIGHEST_TIER)
_MODES = ("hard", "soft")
#: Characters of a value in a sentence.
_LONGEST = 40


def asks_by_annotations(annotations: Mapping[str, str]) -> bool:
    return any(key in annotations for key in KEYS)


def annotated_topology(annotations: Mapping[str, str]) -> NetworkTopology | None:
    """Any mode but soft is hard. A tier that is not a number is ignored, and then hard restricts nothing."""
    if not asks_by_annotations(annotations):
        return None
    return NetworkTopology(
        soft=_mode(annotations) == "soft",
        highest_tier=whole_number(annotations.get(NETWORK_TOPOLOGY_HIGHEST_TIER, ""), 0, INT32),
    )


def annotation_problems(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Keys of annotations that cannot be read, each with what is allowed and how it counts."""
    mode = _mode(annotations)
    if NETWORK_TOPOLOGY_MODE in annotations and mode not in _MODES:
        near = did_you_mean(mode[:_LONGEST], _MODES)
        yield (
            NETWORK_TOPOLOGY_MODE,
            f"must be {' or '.join(_MODES)}, got {_shown(annotations[NETWORK_TOPOLOGY_MODE])}; hard "
            f"is used{near}",
        )
    tier = annotations.get(NETWORK_TOPOLOGY_HIGHEST_TIER)
    if tier is not None and whole_number(tier, 0, INT32) is None:
        # Soft mode has no limit in any case.
        effect = "" if mode == "soft" else ", and hard mode without a tier restricts nothing"
        yield (
            NETWORK_TOPOLOGY_HIGHEST_TIER,
            f"must be a whole number from 0 to {INT32}, got {_shown(tier)}; it counts as none{effect}",
        )


def _mode(annotations: Mapping[str, str]) -> str:
    return annotations.get(NETWORK_TOPOLOGY_MODE, "").lower()


def _shown(text: str) -> str:
    return quoted(text, _LONGEST)
