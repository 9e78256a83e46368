"""Any arguments at all that fit a JSON schema, for showing that no valid call breaks a tool."""

from __future__ import annotations

import string
from typing import Any

from hypothesis import strategies as st


def any_arguments(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any arguments at all that fit a schema of an object."""
    required = set(schema.get("required", []))
    properties = schema.get("properties", {})
    return st.fixed_dictionaries(
        {name: _any_value(value) for name, value in properties.items() if name in required},
        optional={name: _any_value(value) for name, value in properties.items() if name not in required},
    )


_TEXTS = st.one_of(
    st.text(max_size=30),
    st.text(string.ascii_letters + " .@:/-#'\"%_*?", max_size=30),
    st.sampled_from(
        [
            "",
            "all",
            "2026-03-10",
            "2026-02-30",
            "0001-01-01",
            "9999-12-31T23:59:59+14:00",
            "0001-01-01T00:00:00+14:00",
            "2026-03-10T25:00",
            "10",
            "NaN",
            "https://",
            "\x00",
            "张 经理",
            "null",
            "TK-1",
            "-1",
        ]
    ),
)
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": _TEXTS,
    "integer": st.integers() | st.sampled_from([0, -1, 1, 2**63, -(2**63) - 1, 10**30, 3.0]),
    "number": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
    "null": st.none(),
}
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def _any_value(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return st.lists(_any_value(schema.get("items", {})), max_size=3)
    if kind == "object":
        return (
            any_arguments(schema) if "properties" in schema else st.dictionaries(st.text(max_size=5), _JSON, max_size=3)
        )
    return _SCALARS.get(kind, _JSON) if isinstance(kind, str) else _JSON
