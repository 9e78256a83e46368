"""Secrets are taken out of texts and settings; everything else stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.agents.redaction import HIDDEN, Secrets, public

KEY = "very-private-value"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (f"the key {KEY} is wrong", "the key *** is wrong"),
        ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer ***"),
        ("Incorrect API key provided: sk-proj-abcdef123456.", "Incorrect API key provided: ***."),
        ("http://user:pass@host/v1 is down", "http://***@host/v1 is down"),
        ("GET https://host/v1?key=abc&alt=sse", "GET https://host/v1?key=***&alt=sse"),
        ("the team's private-team header", "the team's *** header"),
        ("max_tokens 100 is too large for this task", "max_tokens 100 is too large for this task"),
        ("mail ask-anna@host and http://host/a@b", "mail ask-anna@host and http://host/a@b"),
    ],
)
def test_a_text_loses_its_secrets_and_nothing_else(text: str, redacted: str) -> None:
    secrets = Secrets.of(KEY, {"extra_headers": {"X-Team": "private-team"}})
    assert secrets.redact(text) == redacted


def test_keys_in_the_environment_of_the_process_are_secrets_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PROVIDER_API_KEY", "from-the-environment")
    assert Secrets.of(None, {}).redact("'from-the-environment' was refused") == "'***' was refused"


@given(st.text(max_size=20), st.text(max_size=20), st.text("abcdef0123456789", min_size=6, max_size=20))
def test_a_given_key_is_in_no_text(before: str, after: str, key: str) -> None:
    assert key not in Secrets.of(key, {}).redact(f"{before}{key}{after}")


def test_settings_keep_their_form() -> None:
    settings = {
        "max_tokens": 5,
        "reasoning_effort": "low",
        "api_key": "k",
        "aws_secret_access_key": "k",
        "extra_headers": {"X": "y"},
        "extra_body": {"token": "t", "top_k": 3, "parts": [{"password": "p", "n": None}]},
    }
    assert public(settings) == {
        "max_tokens": 5,
        "reasoning_effort": "low",
        "api_key": HIDDEN,
        "aws_secret_access_key": HIDDEN,
        "extra_headers": HIDDEN,
        "extra_body": {"token": HIDDEN, "top_k": 3, "parts": [{"password": HIDDEN, "n": None}]},
    }
