"""How a conversation becomes token ids, one piece at a time.

A ``ChatFormat`` never renders a conversation as a whole. It writes the ``opening``, then a ``bridge`` for
what others said after each turn of the student; the student's own ids go in between, verbatim. Old turns are
never rendered again, so nothing can drift from what was sampled.

``ChatML`` is the format of the default student: a plain tokenizer that knows ChatML turns, with tools written
compactly. ``training.chat_template.TemplateChat`` uses the chat template that a tokenizer brings along.

Text from outside is data: ``<|im_end|>`` in a mail is spelled out in ordinary tokens and cannot end a turn.

Not promised: that a student keeps to the format. ``parse`` reads whatever was sampled and never raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from harness.messages import Message, ToolSpec
from training.errors import ChatFormatError
from training.tool_text import CALL_CLOSE, CALL_OPEN, read_turn, signature, write_calls


class Tokenizer(Protocol):
    """The part of a transformers tokenizer that is used here; any fast tokenizer fits."""

    def encode(self, text: str, *, add_special_tokens: bool, split_special_tokens: bool) -> list[int]:
        """Turn text into ids; with ``split_special_tokens`` special tokens are spelled out."""
        ...

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str | list[str]:
        """Turn ids into text."""
        ...


class ChatFormat(Protocol):
    """Writes a conversation as token ids and reads the student's turns."""

    @property
    def stop_ids(self) -> frozenset[int]:
        """Ids that end a turn of the student."""
        ...

    def opening(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[int]:
        """Write everything before the student's first turn, up to where it begins to speak.

        Raises:
            ChatFormatError: The messages cannot open a conversation.
        """
        ...

    def bridge(self, messages: Sequence[Message], *, closed: bool) -> list[int]:
        """Write what comes between two turns of the student.

        Args:
            messages: What others said since: tool results and user messages.
            closed: Whether the student sampled its end-of-turn token. If not (it ran into a limit), the
                bridge supplies it.

        Raises:
            ChatFormatError: There is no message, or one that others cannot say here.
        """
        ...

    def assistant(self, turn: Message) -> list[int]:
        """Write a turn as the student would have sampled it, ending with the end-of-turn token.

        Raises:
            ChatFormatError: The message is not an assistant's, or has an unreadable call.
        """
        ...

    def parse(self, ids: Sequence[int], *, call_prefix: str = "call") -> Message:
        """Read a sampled turn; calls that cannot be read carry a ``problem``. Never raises.

        Args:
            ids: The turn as sampled, with or without the end-of-turn token.
            call_prefix: Start of the call ids; give each turn its own to keep ids unique in an episode.
        """
        ...


class ChatML:
    """ChatML turns; tools are one-line signatures, calls ``<tool_call>`` JSON, results ``tool`` turns.

    Args:
        tokenizer: A tokenizer with ``<|im_start|>`` and ``<|im_end|>`` as single tokens.

    Raises:
        ChatFormatError: The tokenizer does not know those tokens.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._start = self._special("<|im_start|>")
        self._end = self._special("<|im_end|>")
        self._newline = self._text("\n")

    @property
    def stop_ids(self) -> frozenset[int]:
        """The id of ``<|im_end|>``."""
        return frozenset({self._end})

    def opening(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[int]:
        """Write the system turn (with the tools) and the first user turns; see ``ChatFormat``."""
        rest = list(messages)
        system = rest.pop(0).content if rest and rest[0].role == "system" else ""
        check_others(rest, {"user"}, "open a conversation")
        system = "\n\n".join(part for part in (system.strip(), tool_list(tools)) if part)
        ids = self._turn("system", system) if system else []
        return ids + self._turns(rest) + self._begin()

    def bridge(self, messages: Sequence[Message], *, closed: bool) -> list[int]:
        """Write tool results and user messages between two turns; see ``ChatFormat``."""
        check_others(messages, {"user", "tool"}, "come between two turns of the assistant")
        return ([] if closed else [self._end]) + self._newline + self._turns(messages) + self._begin()

    def assistant(self, turn: Message) -> list[int]:
        """Write a turn as it would have been sampled; see ``ChatFormat``."""
        check_assistant(turn)
        text = "\n".join(part for part in (turn.content.strip(), write_calls(turn.tool_calls)) if part)
        return [*self._text(text), self._end]

    def parse(self, ids: Sequence[int], *, call_prefix: str = "call") -> Message:
        """Read a sampled turn; see ``ChatFormat``."""
        return read_turn(decode_turn(self._tokenizer, ids, self.stop_ids), call_prefix=call_prefix)

    def _turns(self, messages: Sequence[Message]) -> list[int]:
        return [token for message in messages for token in self._turn(message.role, spoken(message))]

    def _turn(self, role: str, content: str) -> list[int]:
        return [self._start, *self._text(f"{role}\n{content}"), self._end, *self._newline]

    def _begin(self) -> list[int]:
        return [self._start, *self._text("assistant\n")]

    def _text(self, text: str) -> list[int]:
        # split_special_tokens spells special tokens out: text is never able to start or end a turn.
        return self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)

    def _special(self, token: str) -> int:
        ids = self._tokenizer.encode(token, add_special_tokens=False, split_special_tokens=False)
        if len(ids) != 1:
            raise ChatFormatError(
                f"the tokenizer has no single token {token} (it gives {len(ids)}); ChatML needs it. "
                "Use a ChatML model, or TemplateChat with the model's own chat template"
            )
        return ids[0]


def tool_list(tools: Sequence[ToolSpec]) -> str:
    """Write the tools for the system turn: a line each, and how to call one."""
    if not tools:
        return ""
    lines = "\n".join(signature(tool) for tool in tools)
    return f'Tools:\n{lines}\nTo call a tool write {CALL_OPEN}{{"name":...,"arguments":{{...}}}}{CALL_CLOSE}'


def spoken(message: Message) -> str:
    """Return a message's text as the student reads it; a failed call says so."""
    return f"error: {message.content}" if message.is_error else message.content


def check_others(messages: Sequence[Message], roles: set[str], purpose: str) -> None:
    """Refuse messages that others cannot say here.

    Raises:
        ChatFormatError: There is none, or one with another role.
    """
    wanted = " or ".join(sorted(roles))
    if not messages:
        raise ChatFormatError(f"there is no message; at least one ({wanted}) has to {purpose}")
    for place, message in enumerate(messages):
        if message.role not in roles:
            raise ChatFormatError(f"messages[{place}] has the role {message.role}; only {wanted} messages {purpose}")


def check_assistant(turn: Message) -> None:
    """Refuse a demonstration that cannot be written.

    Raises:
        ChatFormatError: It is not an assistant's message, or a call of it could not be read.
    """
    if turn.role != "assistant":
        raise ChatFormatError(f"a demonstrated turn has the role {turn.role}; expected assistant")
    for call in turn.tool_calls:
        if call.problem is not None:
            raise ChatFormatError(f"the demonstrated call {call.id} is unreadable: {call.problem}")


def decode_turn(tokenizer: Tokenizer, ids: Sequence[int], stop_ids: frozenset[int]) -> str:
    """Decode a sampled turn up to its end-of-turn token."""
    kept = list(ids)
    while kept and kept[-1] in stop_ids:
        kept.pop()
    return str(tokenizer.decode(kept, skip_special_tokens=False))
