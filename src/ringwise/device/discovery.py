"""Which chips a node has. A card that does not answer affects no other one; it is asked until it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial

from ringwise.device.cards import Chip, UnknownCardError, card_type
from ringwise.device.drivers.driver_calls import DriverCalls, Notices
from ringwise.device.drivers.port import Driver, DriverError, NoChipsError, Place
from ringwise.state.ranges import MAX_NODE_CHIPS

#: Physical id -> fault codes; None: the chip no longer answers.
Codes = Mapping[int, Sequence[int] | None]


class Discovery:
    """Looks at all places of a driver, and remembers which of them did not answer."""

    def __init__(self, driver: Driver, calls: DriverCalls | None = None) -> None:
        self.driver = driver
        self.calls = calls or DriverCalls(driver.timeout)
        #: Where there should be a chip, and why none was found at the last look.
        self.problems: dict[Place, str] = {}
        self.notices = Notices()

    async def look(self, card: str = "") -> list[Chip]:
        """The chips that answer, of that type where one is given. Raises DriverError when none does."""
        cards = dict.fromkeys(await self.calls.one("cards", self.driver.cards))
        places, failed = await self.calls.each(
            {("card", number): partial(self.driver.places, number) for number in cards}
        )
        works: dict[Place, Callable[[], Chip]] = {
            place: partial(self.driver.chip, place) for on_card in places.values() for place in on_card
        }
        answers, problems = await self.calls.each(works)
        problems |= {Place(number, 0): why for (_, number), why in failed.items()}
        chips = {place: answers[place] for place in works if place in answers}
        _leave_out_wrong_ones(chips, problems)
        _leave_out_other_types(chips, problems, card)
        self._log_problems(problems)
        if not chips:
            if not problems:
                raise NoChipsError("the driver lists no NPUs")
            place, why = next(iter(problems.items()))
            raise DriverError(f"no chip responds; {place}: {why}")
        return list(chips.values())

    async def renewed(self, card: str, previous: Sequence[Chip]) -> tuple[list[Chip], Codes]:
        """The previous chips as they are now, then new ones, and the fault codes of these.

        A new chip counts when its faults can be read. A failed look changes nothing.
        """
        try:
            chips = {chip.physical: chip for chip in await self.look(card)}
        except DriverError as problem:
            self.notices.problem("discovery", "chips not listed", str(problem))
            return list(previous), {}
        self.notices.works("discovery", "chips listed again")
        now = [_steady(chip, chips.pop(chip.physical, chip)) for chip in previous]
        codes, unread = await self.calls.each(
            {("new", physical): partial(self.driver.codes, chip) for physical, chip in chips.items()}
        )
        for key in codes:
            self.notices.works(key, "new chip read", physical=key[1])
        for key, why in unread.items():
            self.notices.problem(key, "new chip not read", why, physical=key[1])
        return now + [chips[physical] for _, physical in codes], {key[1]: one for key, one in codes.items()}

    def _log_problems(self, problems: dict[Place, str]) -> None:
        for place in self.problems.keys() - problems.keys():
            self.notices.works(place, "chip answers", card=place.card, device=place.device)
        for place, why in problems.items():
            self.notices.problem(place, "chip skipped", why, card=place.card, device=place.device)
        self.problems = problems


def _steady(before: Chip, now: Chip) -> Chip:
    """The chip as it is now. What the driver does not say this time stays as it was."""
    unsaid = {
        field.name: getattr(before, field.name)
        for field in fields(Chip)
        if getattr(now, field.name) == field.default
    }
    return replace(now, **unsaid)


def _leave_out_wrong_ones(chips: dict[Place, Chip], problems: dict[Place, str]) -> None:
    """Numbers that no chip has, or that another one has already."""
    seen: dict[int, Place] = {}
    for place, chip in list(chips.items()):
        if not 0 <= chip.physical < MAX_NODE_CHIPS or chip.logic < 0:
            problems[place] = f"physical ID {chip.physical} and logic ID {chip.logic} do not belong to a chip"
        elif chip.physical in seen:
            problems[place] = f"physical id {chip.physical} is that of {seen[chip.physical]}"
        else:
            seen[chip.physical] = place
            continue
        del chips[place]


def _leave_out_other_types(chips: dict[Place, Chip], problems: dict[Place, str], card: str) -> None:
    """Chips of no known type, and those of another type than the node's.

    Raises DriverError where the node's type is not known yet and its chips have several.
    """
    types: dict[Place, str] = {}
    for place, chip in list(chips.items()):
        try:
            types[place] = card_type(chip.chip_name, chip.board)
        except UnknownCardError as problem:
            problems[place] = str(problem)
            del chips[place]
    wanted = card or only_type(types.values())
    for place, kind in types.items():
        if kind != wanted:
            problems[place] = f"it is of type {kind}, the node's chips are {wanted}"
            del chips[place]


def only_type(types: Iterable[str]) -> str:
    """The one type of a node's chips, empty without any. Raises DriverError."""
    several = sorted(set(types))
    if len(several) > 1:
        raise DriverError(f"chips of several types on one node: {', '.join(several)}")
    return next(iter(several), "")
