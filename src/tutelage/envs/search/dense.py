"""Passages by the nearness of sentence vectors, from an encoder that the user names (a folder, or a cached model).

A vector is the mean of the last layer over the tokens, scaled to length 1; nearness is the inner product. The vectors of
the passages are made once and kept on disk. The prefixes are those that the E5 encoders were trained with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tutelage.envs.search.cache import cached_arrays
from tutelage.envs.search.passages import Passage, content_hash
from tutelage.errors import ConfigError, MissingExtra

BATCH_SIZE: Final = 32
_ARRAYS: Final = frozenset({"vectors"})


class DenseRetriever:
    """Nearest passages to a query.

    model: folder or name of an encoder that transformers can load, e.g. ``intfloat/e5-base-v2``.
    query_prefix, passage_prefix: put before each text.
    max_tokens: of a text; the rest is cut off.
    cache_dir: where the vectors are kept; None: only in memory.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        model: str,
        *,
        query_prefix: str = "query: ",
        passage_prefix: str = "passage: ",
        max_tokens: int = 512,
        cache_dir: str | Path | None = None,
    ) -> None:
        self.passages = passages
        self.query_prefix = query_prefix
        self._encoder = _Encoder(model, max_tokens)
        texts = [f"{passage_prefix}{passage.title} {passage.text}" for passage in passages]
        if cache_dir is None:
            self._vectors = self._encoder(texts)
        else:
            made_of = [content_hash(passages), self._encoder.weights_hash, passage_prefix, max_tokens]
            name = f"dense-{hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:24]}.npz"
            found = cached_arrays(Path(cache_dir) / name, _ARRAYS, lambda: {"vectors": self._encoder(texts)})
            self._vectors = found["vectors"]

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        if not queries:
            return []
        vectors = self._encoder([f"{self.query_prefix}{query}" for query in queries])
        # Rounded, since the last digits change with the size of a batch; then ties go to the earlier passage.
        scores = np.round(vectors @ self._vectors.T, 5)
        return [[self.passages[index] for index in np.argsort(-row, kind="stable")[:k]] for row in scores]

    def close(self) -> None:
        return None


class _Encoder:
    """Texts -> unit vectors [number of texts, width]."""

    def __init__(self, model: str, max_tokens: int) -> None:
        try:
            import torch
            from transformers import AutoModel, AutoTokenizer
        except ImportError:
            raise MissingExtra("retriever 'dense'", "train") from None
        self._torch = torch
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(model)
            loaded, report = AutoModel.from_pretrained(model, dtype=torch.float32, output_loading_info=True)
        except (OSError, ValueError) as error:
            raise ConfigError(f"dense retriever: no encoder at {model!r} ({error}).") from error
        self._model = loaded.eval()
        # What the files lack (often a head that is not used here) is drawn anew each time.
        self._drawn = frozenset(report["missing_keys"])
        self._max_tokens = min(max_tokens, self._tokenizer.model_max_length)

    @property
    def weights_hash(self) -> str:
        """SHA-256 over all weights that were read: another model under the same name makes other vectors."""
        digest = hashlib.sha256()
        for name, tensor in self._model.state_dict().items():
            if name not in self._drawn:
                digest.update(name.encode())
                digest.update(np.ascontiguousarray(tensor.numpy()).tobytes())
        return digest.hexdigest()

    def __call__(self, texts: Sequence[str]) -> NDArray[Any]:
        return np.concatenate(
            [self._encode(texts[start : start + BATCH_SIZE]) for start in range(0, len(texts), BATCH_SIZE)]
        )

    def _encode(self, texts: Sequence[str]) -> NDArray[Any]:
        torch = self._torch
        inputs = self._tokenizer(
            list(texts), padding=True, truncation=True, max_length=self._max_tokens, return_tensors="pt"
        )
        with torch.inference_mode():
            hidden = self._model(**inputs).last_hidden_state
            mask = inputs["attention_mask"].unsqueeze(-1)
            mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
            vectors: NDArray[Any] = torch.nn.functional.normalize(mean, dim=-1).numpy()
        return vectors
