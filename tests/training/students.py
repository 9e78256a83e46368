"""A student small enough for tests: a random Llama, and a byte-level tokenizer with ChatML tokens.

Beside it, environments for it, a chat format in which every sampled turn acts, and engines that play a part.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from harness.environment import Environment
from harness.messages import Message, ToolCall, ToolSpec
from synth.families.ticket_routing import TICKET_ROUTING
from training.chat import ChatML
from training.engine import Generated, TokenEngine
from training.errors import EngineError
from training.quiet import quiet_libraries

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CORPUS = [
    '<tool_call>{"name":"ticket_get","arguments":{"ticket_id":"T-12"}}</tool_call>',
    "system user assistant tool Tools: To call a tool write error: the ticket of Ann is open",
    "<tool_response> </tool_response> <think> </think> # Tools You may call one or more functions",
]

TICKET_GET = ToolSpec(
    "ticket_get",
    "Read one ticket. Use it before you change anything.",
    {"type": "object", "properties": {"ticket_id": {"type": "string"}}, "required": ["ticket_id"]},
)


def tiny_tokenizer(template: str | None = None) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE on a few lines: any text round-trips."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        bos_token="<|im_start|>",
    )
    fast.chat_template = template
    return fast


def tiny_model(
    *, seed: int = 0, vocabulary: int = 400, context: int = 512, attention: str = "sdpa"
) -> LlamaForCausalLM:
    """Build a random two-layer Llama; its logits are spread enough for sampling to matter."""
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=context, initializer_range=0.3,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, attn_implementation=attention,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)


def saved_student(folder: Path, *, context: int = 2048) -> Path:
    """Write the tiny model and its tokenizer as ``load_model`` opens them."""
    with quiet_libraries():
        tiny_model(context=context).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def routing(count: int) -> list[Environment]:
    """Environments with two tools, whose episodes are short."""
    return [TICKET_ROUTING.make(f"training-tests-{number}", 1) for number in range(count)]


class Busy(ChatML):
    """Reads whatever was sampled as a call that works, and after ``calls`` of them as being done.

    So an episode has several turns and bridges, whatever the weights are.
    """

    calls = 2

    def parse(self, ids: Sequence[int], *, call_prefix: str = "call") -> Message:
        if int(call_prefix.rpartition("_")[2]) > self.calls:
            return Message("assistant", "Done.")
        return Message("assistant", "", (ToolCall(f"{call_prefix}_1", "desk_list"),))


@dataclass(frozen=True)
class Asked:
    """What an engine was given, and what it gave."""

    context: tuple[int, ...]
    given: Generated
    seed: int
    room: int


@dataclass
class Script:
    """An engine that says what it is told to, turn by turn."""

    turns: list[Generated | EngineError]
    asked: list[Asked] = field(default_factory=list)

    async def generate(
        self,
        ids: Sequence[int],
        *,
        max_new_tokens: int,
        temperature: float,
        stop_ids: Collection[int],
        seed: int,
    ) -> Generated:
        turn = self.turns[len(self.asked)]
        if isinstance(turn, EngineError):
            raise turn
        self.asked.append(Asked(tuple(ids), turn, seed, max_new_tokens))
        return turn


@dataclass
class Recorder:
    """Passes on what an engine says, changed by ``change``, and keeps a record of it."""

    engine: TokenEngine
    change: Callable[[int, Generated], Generated] = lambda number, given: given
    asked: list[Asked] = field(default_factory=list)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        async with self.engine.serving():
            yield

    async def generate(
        self,
        ids: Sequence[int],
        *,
        max_new_tokens: int,
        temperature: float,
        stop_ids: Collection[int],
        seed: int,
    ) -> Generated:
        given = await self.engine.generate(
            ids, max_new_tokens=max_new_tokens, temperature=temperature, stop_ids=stop_ids, seed=seed
        )
        given = self.change(len(self.asked), given)
        self.asked.append(Asked(tuple(ids), given, seed, max_new_tokens))
        return given
