"""Parts that several documents have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Annotated, Any, Self, TypedDict

import msgspec


def doc(text: str, *, ge: int | None = None, le: int | None = None) -> msgspec.Meta:
    """The description of a field in JSON schemas and in the reference, and the limits of its value."""
    return msgspec.Meta(description=text, ge=ge, le=le)


class Fields(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A part of a document. A field with a default is absent where it has that value."""

    @classmethod
    def of(cls, value: object, /, **others: object) -> Self:
        """Return the part that shows a value: its attributes, and theirs, by the names of the fields.

        `others` are fields that the value has no attribute for.
        """
        if others:
            own = {name: getattr(value, name) for name in cls.__struct_fields__ if name not in others}
            value = SimpleNamespace(**own, **others)
        return msgspec.convert(value, cls, from_attributes=True)


class Document(Fields, tag_field="schema"):
    """A document; its tag is the value of the field `schema`."""


Amounts = Annotated[dict[str, int | float], doc("Amount by resource name; cpu in thousandths.")]
Nanoseconds = Annotated[int, doc("Nanoseconds since 1970.")]
Stored = Annotated[dict[str, Any] | None, doc("The stored object. Its fields have no version.")]
More = Annotated[int, doc("How many were omitted because of a limit; absent if the list is complete.")]
UntilDrain = Annotated[
    int, doc("Free chips on nodes with a later drain or reservation, only for jobs that end before it.")
]
SwitchClass = Annotated[
    str | None, doc("foundation-model, common or padding; null without affinity to switches.")
]
#: `class` is a word of Python.
WithClass = TypedDict("WithClass", {"class": SwitchClass})

OmittedChecks = Annotated[
    list[str], doc("What was not checked because the search limit was reached; absent if complete.")
]


class ExpectedStartFields(TypedDict):
    """When a waiting job starts if jobs run as long as they say and no other job comes."""

    kind: Annotated[
        str,
        doc(
            "known: between `earliest` and `latest`, which can be equal; not-before: not before "
            "`earliest`; unknown: see `reason`."
        ),
    ]
    earliest: Nanoseconds | None
    latest: Nanoseconds | None
    after: Annotated[
        list[str], doc("Jobs that must end first on its chips: the last five, in the order of their ends.")
    ]
    reason: Annotated[
        str,
        doc(
            "Why the time or the latest time is unknown, or that jobs are moved so "
            "that it can start; else empty."
        ),
    ]
    estimated: Annotated[
        bool,
        doc(
            "Jobs ahead have no expected duration; the value is from recent jobs of the same size and queue."
        ),
    ]
    message: Annotated[str, doc("Human-readable summary, as all views show it.")]
