"""Values that are nested too deeply are read as null; everything beside them is read as always."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.kubeclient.nesting import MAX_LEVELS, decode_nested, without_deep_values

ANY = msgspec.json.Decoder()


@pytest.mark.parametrize("brackets", [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("depth", [MAX_LEVELS - 2, 2_000, 20_000])
def test_what_stands_beside_a_deep_value_is_read(brackets: tuple[str, str], depth: int) -> None:
    deep = brackets[0] * depth + "[]" + brackets[1] * depth
    text = f'{{"before": "\\"[{{", "deep": {deep}, "after": [1, {{"b": "]"}}]}}'
    read = decode_nested(ANY, text.encode())
    assert read["before"] == '"[{'
    assert read["after"] == [1, {"b": "]"}]
    levels = 0
    inner = read["deep"]
    while inner:
        inner = inner[0] if isinstance(inner, list) else inner["a"]
        levels += 1
    assert levels == (depth if depth < MAX_LEVELS else MAX_LEVELS - 1)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=30,
    )
)
def test_other_values_stay_as_they_are(value: object) -> None:
    text = json.dumps(value).encode()
    assert without_deep_values(text) == text
