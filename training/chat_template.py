"""A chat format from the template that a tokenizer brings along.

``TemplateChat`` renders only the beginning of a conversation as it is. For a bridge it renders a dummy
conversation in which the same messages follow an assistant's turn, and keeps what comes after that turn's
end token. So templates that rewrite history (Qwen3 drops earlier reasoning as soon as a new user message
arrives) cannot change ids that were already sampled, and the newline that templates print after the end
token, but no student ever samples, always counts as bridge.

It works for templates whose calls are ``<tool_call>`` JSON (the Qwen and Hermes style); it tries one when
it is built and says so if not. Text from outside that spells a special token is broken up with a space.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, cast

from harness.messages import JsonObject, Message, ToolCall, ToolSpec
from training.chat import Tokenizer, check_assistant, check_others, decode_turn, spoken
from training.errors import ChatFormatError
from training.tool_text import read_turn

_MARKER = "END-OF-DUMMY-TURN"
_ASK = Message(role="user", content="Hello.")
_CALL = ToolCall(id="call_1", name="lookup", arguments={"query": "blue box", "limit": 3})
_NO_OPTIONS: Mapping[str, object] = MappingProxyType({})


class TemplateTokenizer(Tokenizer, Protocol):
    """A tokenizer with a chat template."""

    @property
    def all_special_tokens(self) -> list[str]:
        """Texts that the tokenizer reads as control tokens."""
        ...

    def apply_chat_template(self, conversation: list[dict[str, Any]], **kwargs: object) -> object:
        """Render a conversation."""
        ...


class TemplateChat:
    """Chat format of any tokenizer whose template knows tools.

    Args:
        tokenizer: Its ``chat_template`` must be set.
        stop: The token that ends an assistant's turn.
        options: Variables for the template, such as ``{"enable_thinking": False}``.

    Raises:
        ChatFormatError: The template ends turns another way, or its calls cannot be read back.
    """

    def __init__(
        self,
        tokenizer: TemplateTokenizer,
        *,
        stop: str = "<|im_end|>",
        options: Mapping[str, object] = _NO_OPTIONS,
    ) -> None:
        self._tokenizer = tokenizer
        self._options = dict(options)
        ids = self._ids(stop)
        if len(ids) != 1:
            raise ChatFormatError(f"stop is {stop!r}, which is {len(ids)} tokens here; expected a single one")
        self._stop = ids[0]
        self._specials = sorted(set(tokenizer.all_special_tokens) | {stop}, key=len, reverse=True)
        self._try_out()

    @property
    def stop_ids(self) -> frozenset[int]:
        """The id of the stop token."""
        return frozenset({self._stop})

    def opening(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[int]:
        """Render the beginning of the conversation with the template; see ``ChatFormat``."""
        others = messages[1:] if messages and messages[0].role == "system" else messages
        check_others(others, {"user"}, "open a conversation")
        return self._ids(self._render(messages, tools=[_schema(tool) for tool in tools] or None, begin=True))

    def bridge(self, messages: Sequence[Message], *, closed: bool) -> list[int]:
        """Render the messages behind a dummy turn and keep what follows it; see ``ChatFormat``."""
        check_others(messages, {"user", "tool"}, "come between two turns of the assistant")
        # Some templates refuse tool results that no call came before, so the marker then hides in a call.
        calls = tuple(
            ToolCall(id=message.tool_call_id or "call_1", name="lookup", arguments={"query": _MARKER})
            for message in messages
            if message.role == "tool"
        )
        dummy = Message(role="assistant", content="" if calls else _MARKER, tool_calls=calls)
        text = self._render([_ASK, dummy, *messages], begin=True)
        after = self._ids(text.rpartition(_MARKER)[2])
        return after[after.index(self._stop) + closed :]

    def assistant(self, turn: Message) -> list[int]:
        """Write a turn as the template continues its own opening; see ``ChatFormat``."""
        check_assistant(turn)
        prompt = self._render([_ASK], begin=True)
        text = self._render([_ASK, turn], begin=False)
        if not text.startswith(prompt):
            raise ChatFormatError(
                "the template writes an assistant's turn differently from how it opens one for sampling, so "
                "a demonstration would not match; use the training variant of the template, or ChatML"
            )
        ids = self._ids(text[len(prompt) :])
        return ids[: ids.index(self._stop) + 1]

    def parse(self, ids: Sequence[int], *, call_prefix: str = "call") -> Message:
        """Read a sampled turn; see ``ChatFormat``."""
        return read_turn(decode_turn(self._tokenizer, ids, self.stop_ids), call_prefix=call_prefix)

    def _render(self, messages: Sequence[Message], *, begin: bool, tools: list[dict[str, Any]] | None = None) -> str:
        return cast(
            "str",
            self._tokenizer.apply_chat_template(
                [self._entry(message) for message in messages],
                tools=tools,
                add_generation_prompt=begin,
                tokenize=False,
                **self._options,
            ),
        )

    def _entry(self, message: Message) -> dict[str, Any]:
        entry: dict[str, Any] = {"role": message.role, "content": self._plain(spoken(message))}
        if message.tool_calls:
            entry["tool_calls"] = [
                {
                    "type": "function",
                    "id": call.id,
                    "function": {"name": call.name, "arguments": self._plain_json(call.arguments)},
                }
                for call in message.tool_calls
            ]
        if message.tool_call_id is not None:
            entry["tool_call_id"] = message.tool_call_id
        return entry

    def _plain(self, text: str) -> str:
        for special in self._specials:
            text = text.replace(special, f"{special[0]} {special[1:]}")
        return text

    def _plain_json(self, arguments: JsonObject) -> JsonObject:
        return cast("JsonObject", json.loads(self._plain(json.dumps(arguments, ensure_ascii=False))))

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=False)

    def _try_out(self) -> None:
        sample = Message(role="assistant", content="I look.", tool_calls=(_CALL,))
        try:
            read = self.parse(self.assistant(sample))
            self.bridge([Message(role="tool", content="found", tool_call_id="call_1")], closed=True)
            self.bridge([_ASK], closed=True)
        except ValueError as error:
            raise ChatFormatError(
                "an assistant's turn of this chat template does not end with the stop token; pass the token "
                "that it ends turns with as stop"
            ) from error
        if read != sample:
            raise ChatFormatError(
                "a tool call written by this chat template cannot be read back: expected <tool_call> blocks "
                "with JSON (the Qwen and Hermes style); use ChatML, or a model of that family"
            )


def _schema(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
    }
