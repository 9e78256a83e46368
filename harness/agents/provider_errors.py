"""What went wrong between us and a model: whose fault it was, whether it may pass, what to do.

litellm puts every failure into an exception of its own, also those that are no answer of a provider at all (a
refused connection arrives as status 500), and keeps the cause. So the whole chain of causes is looked at, by
the names of its classes: they come from several libraries that are loaded late or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Literal

from harness.agents.redaction import Secrets
from harness.errors import EpisodeFault, FaultStatus

LONGEST_RETRY_AFTER = 120.0
"""Seconds. Who asks for more is asked again earlier, and given up in the end."""
_SHOWN = 300

Kind = Literal["context", "timeout", "unreachable", "overloaded", "broken", "key", "unknown", "refused", "nonsense"]
_WORDS: dict[Kind, str] = {
    "context": "the conversation has outgrown the model's context window.",
    "timeout": "no answer within {timeout:g} s. See whether the server is overloaded, or allow more time.",
    "unreachable": "cannot be reached. See whether the server runs and its address (api_base) is right.",
    "overloaded": "refuses because of too many requests. Run fewer episodes at a time, or raise the quota.",
    "broken": "the server failed. See its log; running the same command again plays the episode again.",
    "key": "the key was refused or is missing. Put a valid one into the provider's environment variable.",
    "unknown": "there is no such model at this address. Check the model's name and api_base.",
    "refused": "the request was refused. Check the model's name (provider/model), its settings, and that it "
    "takes tools.",
    "nonsense": "the answer was none. See whether the address (api_base) is that of a model server.",
}
_MAY_PASS: frozenset[Kind] = frozenset({"timeout", "unreachable", "overloaded", "broken", "nonsense"})
_TIMEOUTS = {"Timeout", "TimeoutError", "TimeoutException", "APITimeoutError"}
_NO_CONNECTION = {"ConnectionError", "ConnectError", "APIConnectionError", "TransportError"}
_OVERLOADED = {429, 503, 529}
_BY_CODE: dict[int, Kind] = {401: "key", 403: "key", 404: "unknown"}


@dataclass(frozen=True, slots=True)
class Trouble:
    """A request that got no answer to work with."""

    kind: Kind
    message: str
    retry_after: float | None = None
    """Seconds to wait, as the provider asked."""

    @property
    def may_pass(self) -> bool:
        """Whether to try again."""
        return self.kind in _MAY_PASS

    def fault(self) -> EpisodeFault:
        """What ends the episode when it is not tried again."""
        # How much an agent reads and says is its own doing; everything else here is not.
        status: FaultStatus = "failed" if self.kind == "context" else "infra"
        return EpisodeFault(status, "agent" if status == "failed" else "provider", self.message)


def explain(error: BaseException, model: str, timeout: float, secrets: Secrets) -> Trouble:
    """Say what an exception that came out of a request means.

    Args:
        error: What litellm raised.
        model: Name of the model, for the message.
        timeout: Seconds that the request was given.
        secrets: Taken out of the message.
    """
    kind = _kind(error)
    said = " ".join(secrets.redact(str(error)).split())[:_SHOWN]
    words = _WORDS[kind].format(timeout=timeout)
    return Trouble(kind, f"{model}: {words} ({said})", _retry_after(error))


def _kind(error: BaseException) -> Kind:
    chain = list(_chain(error))
    names = {parent.__name__ for link in chain for parent in type(link).__mro__}
    given: object = getattr(error, "status_code", None)
    code = given if isinstance(given, int) else 500
    # litellm says 500 where no provider said anything; only an answer over HTTP has this in its chain.
    answered = "HTTPStatusError" in names
    root = type(chain[-1])
    no_key = root.__name__ == "OpenAIError" and root.__module__.startswith("openai")  # raised before sending
    rules: tuple[tuple[bool, Kind], ...] = (
        ("ContextWindowExceededError" in names, "context"),
        (bool(names & _TIMEOUTS), "timeout"),
        (code in _OVERLOADED, "overloaded"),
        (code < 500, _BY_CODE.get(code, "refused")),
        (answered, "broken"),
        (bool(names & _NO_CONNECTION), "unreachable"),
        (no_key, "key"),
        (True, "nonsense"),
    )
    return next(kind for holds, kind in rules if holds)


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__ or link.__context__


def _retry_after(error: BaseException) -> float | None:
    response = getattr(error, "response", None)
    headers: Mapping[str, str] = getattr(response, "headers", None) or {}
    text = headers.get("retry-after")
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            # A date; counted from the provider's own clock, which need not agree with ours.
            until, now = (parsedate_to_datetime(value) for value in (text, headers.get("date", "")))
            seconds = (until - now).total_seconds()
        except (ValueError, TypeError):  # no date, or one without a zone
            return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER)
