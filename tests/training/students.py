"""A student small enough for tests: a random Llama, and a byte-level tokenizer with ChatML tokens."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from harness.messages import ToolSpec

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
