"""vNPU templates of the kinds of chips that can be divided dynamically (rules V10 and V11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

#: Values of the label `vnpu-dvpp`: how a vNPU uses the video unit (DVPP) of its chip.
SHARED_DVPP, OWN_DVPP, NO_DVPP = "null", "yes", "no"
DVPP_VALUES = (OWN_DVPP, NO_DVPP, SHARED_DVPP)
LOW, HIGH = "low", "high"
FAMILY_310P, FAMILY_910 = "310P", "910"
#: Values of the node label `accelerator`.
FAMILIES = {"huawei-Ascend310P": FAMILY_310P, "huawei-Ascend910": FAMILY_910}
#: Values of the label `ring-controller.atlas` of jobs.
FAMILY_OF_RING = {
    "ascend-310P": FAMILY_310P,
    "ascend-910": FAMILY_910,
    "ascend-910b": FAMILY_910,
    "huawei.com.npu": FAMILY_910,
}
#: What a node is given instead of a template that fits on none of its chips (rule V13).
DOWNGRADES = {"vir02": "vir02_1c", "vir04": "vir04_3c"}
MAX_VGROUPS = 4


class Template(NamedTuple):
    name: str
    cores: int
    cpus: int
    dvpp: str = SHARED_DVPP
    #: Users may request it.
    requestable: bool = True


class DividedChip(NamedTuple):
    """One kind of chip: what it has, and the templates of its vNPUs."""

    family: str
    cores: int
    cpus: int
    templates: Mapping[str, Template]

    def takes_count(self, count: int) -> bool:
        """Whether so many cores are a vNPU, or whole chips."""
        return (count > 0 and count % self.cores == 0) or any(
            one.requestable and one.cores == count for one in self.templates.values()
        )

    def takes_dvpp(self, count: int, dvpp: str) -> bool:
        if dvpp == SHARED_DVPP:
            return True
        if self.family == FAMILY_310P:
            return count == 4 or count % self.cores == 0
        return any(one.dvpp == dvpp for one in self._requestable(count))

    def takes_level(self, count: int, level: str) -> bool:
        if level == LOW or self.family == FAMILY_310P:
            return True
        return len(self._requestable(count)) > 1

    def takes(self, count: int, dvpp: str, level: str) -> bool:
        return self.takes_count(count) and self.takes_dvpp(count, dvpp) and self.takes_level(count, level)

    def _requestable(self, count: int) -> list[Template]:
        return [one for one in self.templates.values() if one.requestable and one.cores == count]

    def template(self, count: int, dvpp: str, level: str) -> Template | None:
        """Rule V11: the template of such a request; None for whole chips."""
        if self.family == FAMILY_310P:
            name = _template_310p(count, dvpp, level)
            return self.templates.get(name) if name is not None else None
        template = self._requestable(count)
        return next((one for one in template if one.dvpp == dvpp or len(template) == 1), None)


def _template_310p(count: int, dvpp: str, level: str) -> str | None:
    if count == 1:
        return "vir01"
    if count == 2:
        return "vir02" if level == HIGH else "vir02_1c"
    if count != 4:
        return None
    if dvpp != SHARED_DVPP:
        return "vir04_4c_dvpp" if dvpp == OWN_DVPP else "vir04_3c_ndvpp"
    return "vir04" if level == HIGH else "vir04_3c"


def _kind(family: str, cores: int, cpus: int, *templates: Template) -> DividedChip:
    return DividedChip(family, cores, cpus, {one.name: one for one in templates})


_TEMPLATES_310P = (
    Template("vir01", 1, 1),
    Template("vir02", 2, 2),
    Template("vir02_1c", 2, 1),
    Template("vir04", 4, 4),
    Template("vir04_3c", 4, 3),
    Template("vir04_3c_ndvpp", 4, 3, NO_DVPP),
    Template("vir04_4c_dvpp", 4, 4, OWN_DVPP),
)
_TEMPLATES_24 = (
    Template("vir03_1c_8g", 3, 1, requestable=False),
    Template("vir06_1c_16g", 6, 1),
    Template("vir12_3c_32g", 12, 3),
)
_TEMPLATES_20 = (Template("vir05_1c_16g", 5, 1), Template("vir10_3c_32g", 10, 3))
_B1 = _kind(FAMILY_910, 25, 6, *_TEMPLATES_24)
_WITH_24_CORES = _kind(FAMILY_910, 24, 6, *_TEMPLATES_24)
_WITH_20_CORES = _kind(FAMILY_910, 20, 6, *_TEMPLATES_20)
_B4 = _kind(
    FAMILY_910,
    20,
    6,
    Template("vir05_1c_8g", 5, 1),
    Template("vir10_3c_16g", 10, 3),
    Template("vir10_3c_16g_nm", 10, 3, NO_DVPP),
    Template("vir10_4c_16g_m", 10, 4, OWN_DVPP),
)
#: By the labels `servertype` and `node.kubernetes.io/npu.chip.name`; "" stands for any name.
_KINDS: Mapping[tuple[str, str], DividedChip] = {
    ("Ascend310P-8", ""): _kind(FAMILY_310P, 8, 7, *_TEMPLATES_310P),
    ("Ascend310P-10", ""): _kind(FAMILY_310P, 10, 7, *_TEMPLATES_310P),
    ("Ascend910B-25", "910B1"): _B1,
    ("Ascend910B-24", "910B2"): _WITH_24_CORES,
    ("Ascend910B-24", "910B2C"): _WITH_24_CORES,
    ("Ascend910B-20", "910B3"): _WITH_20_CORES,
    ("Ascend910B-20", "910B4-1"): _WITH_20_CORES,
    ("Ascend910B-20", "910B4"): _B4,
    ("Ascend910A3-20", ""): _WITH_20_CORES,
    ("Ascend910A3-24", ""): _WITH_24_CORES,
}


def divided_chip(server_type: str, chip_name: str, family: str) -> DividedChip | None:
    """The kind of chip with these labels; None if it has no templates for dynamic vNPUs."""
    kind = _KINDS.get((server_type, chip_name.removeprefix("Ascend"))) or _KINDS.get((server_type, ""))
    return kind if kind is not None and kind.family == family else None


def kinds_of(family: str) -> list[DividedChip]:
    return [one for one in _KINDS.values() if one.family == family]
