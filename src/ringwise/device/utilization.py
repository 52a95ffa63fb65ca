"""How much the chips of a node are used, while one pod has them: the mean of the last hour at most.

One reading says little: a job that trains is idle for seconds while it loads or saves. So what is reported is
a mean, which begins anew when the chip gets another pod.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from ringwise.records import dataclass

#: Seconds of one part of the mean, and how many of them are kept.
_PART = 300.0
_PARTS = 12


@dataclass(slots=True)
class _Part:
    since: float
    total: float = 0.0
    readings: int = 0


class Utilization:
    def __init__(self) -> None:
        #: By name of the chip: the uid of its pod, and the parts.
        self._chips: dict[str, tuple[str, deque[_Part]]] = {}
        self._now = 0.0

    def take(self, percent: Mapping[str, float], pods: Mapping[str, str], now: float) -> None:
        """Readings of chips that the driver gives, and the uids of the pods that have them; seconds."""
        self._now = now
        for chip in [chip for chip, (pod, _) in self._chips.items() if pods.get(chip) != pod]:
            del self._chips[chip]
        for chip, value in percent.items():
            pod = pods.get(chip)
            if pod is None or not 0 <= value <= 100:
                continue
            _, parts = self._chips.setdefault(chip, (pod, deque(maxlen=_PARTS)))
            if not parts or now - parts[-1].since >= _PART:
                parts.append(_Part(now))
            parts[-1].total += value
            parts[-1].readings += 1

    def means(self) -> dict[str, tuple[float, int]]:
        """Mean in percent and the seconds that it is about, of chips that a pod has and that are measured."""
        result = {}
        for chip, (_, parts) in sorted(self._chips.items()):
            readings = sum(part.readings for part in parts)
            mean = sum(part.total for part in parts) / readings
            result[chip] = round(mean, 1), round(self._now - parts[0].since)
        return result
