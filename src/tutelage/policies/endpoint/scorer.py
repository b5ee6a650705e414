"""An endpoint as a scorer: log-probabilities of token ids that somebody else sampled.

    scorer = EndpointScorer(EndpointConfig(url=..., model="teacher", server="vllm", tokenizer="models/teacher"))
    scorer.self_score()                      # once, before anything is learnt from it
    scores = scorer.score(requests)

Ids are sent, not text, and come back. The shapes of the servers' answers are in `prompt_scores`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from tutelage.errors import ConfigError, EndpointError, TeacherError
from tutelage.policies.base import Access, ScoreFailure, ScoreRequest, TokenScores
from tutelage.policies.endpoint.client import EndpointClient
from tutelage.policies.endpoint.config import EndpointConfig
from tutelage.policies.endpoint.prompt_scores import PromptScores, read_scores, score_body
from tutelage.policies.endpoint.tokenizer import renderer_of
from tutelage.types import stable_hash

SCORING_SERVERS: Final = ("vllm", "sglang", "openai", "llama_cpp")
TOPK_SERVERS: Final = ("vllm", "sglang")


class EndpointScorer:
    """Scores by a server that gives log-probabilities of prompts. A request that fails is a `ScoreFailure` by itself.

    config.tokenizer names a model folder with the server's tokenizer; its ids must be the student's. temperature is 1:
    servers give softmax(logits).

    Raises ConfigError for a server without such log-probabilities (`transformers`).
    """

    temperature = 1.0

    def __init__(
        self,
        config: EndpointConfig,
        *,
        client: EndpointClient | None = None,
        folder: str | Path | None = None,
        name: str | None = None,
    ) -> None:
        if config.server not in SCORING_SERVERS:
            raise ConfigError(
                f"endpoint '{config.name}': server '{config.server}' gives no log-probabilities of a prompt, so it cannot "
                f"score. Servers that do: {', '.join(SCORING_SERVERS)} (openai, llama_cpp: those that know 'echo' with 'logprobs')."
            )
        self.config = config
        self.name = name or config.name
        self.version = f"{config.name}:{config.model}"
        self.renderer = renderer_of(config)
        self.vocabulary_id = self.renderer.vocabulary_id
        self.max_context = config.max_context
        topk: frozenset[Access] = frozenset({"sampled", "topk"})
        self.accesses: frozenset[Access] = topk if config.server in TOPK_SERVERS else frozenset({"sampled"})
        self.client = client or EndpointClient(config, folder=folder)
        self.num_passes = 0
        """Requests so far."""
        self.num_tokens = 0
        """Token ids sent so far."""

    def score(
        self, requests: Sequence[ScoreRequest], access: Access = "sampled", *, k: int = 64
    ) -> list[TokenScores | ScoreFailure]:
        """One answer per request, in order; see `Scorer.score`."""
        if access not in self.accesses:
            raise TeacherError(f"access '{access}' is not one of {', '.join(sorted(self.accesses))}", name=self.name)
        if len(requests) < 2:
            return [self._score(one, access, k) for one in requests]
        with ThreadPoolExecutor(min(self.config.concurrency, len(requests))) as threads:
            return list(threads.map(lambda one: self._score(one, access, k), requests))

    def self_score(self, *, num_samples: int = 8, num_tokens: int = 8, tolerance: float = 0.02) -> float:
        """Sample short texts, score the same ids, and return the mean size of the difference in nats.

        A shift by one, a temperature, a template that a proxy adds, or other ids show at once. tolerance: 0.02 fits
        bf16. Also compares the text that the server gives for its ids with what the tokenizer folder says.

        Raises:
            TeacherError: off by more; the server gives no ids or log-probabilities; or its ids mean other texts.
        """
        gaps: list[float] = []
        shown: list[str] = []
        for index in range(num_samples):
            prompt = [stable_hash("self score", index, place) % self.renderer.vocab_size for place in range(4)]
            sampled = self.client.complete(
                prompt, max_tokens=num_tokens, temperature=1.0, seed=index, draw=f"self score {index}"
            )
            if sampled.token_ids is None or sampled.logprobs is None:
                raise TeacherError(
                    f"server '{self.config.server}' gives no ids with log-probabilities of what it samples, so it cannot be "
                    "checked by scoring itself",
                    name=self.name,
                )
            self._check_text(sampled.token_ids, sampled.text)
            ids = np.array([*prompt, *sampled.token_ids], dtype=np.int64)
            places = np.arange(len(prompt), len(ids))
            found = self._score(ScoreRequest(request_id=f"self-{index}", token_ids=ids, positions=places), "sampled", 1)
            if isinstance(found, ScoreFailure):
                raise TeacherError(f"it cannot score its own sample: {found.reason}: {found.detail}", name=self.name)
            for place, mine, theirs in zip(places, found.logprobs, sampled.logprobs, strict=True):
                gaps.append(abs(float(mine) - theirs))
                shown.append(f"sample {index}, position {place}: sampled {theirs:.4f}, scored {float(mine):.4f}")
        mean = sum(gaps) / len(gaps)
        if not mean <= tolerance:
            raise TeacherError(
                f"it does not find its own log-probabilities again: {mean:.3g} nats off on average over {len(gaps)} tokens, "
                f"expected at most {tolerance:g}. First: {'; '.join(shown[:3])}. Likely causes: positions shifted by one, a "
                "temperature other than 1, log-probabilities taken after other sampling settings.",
                name=self.name,
            )
        return mean

    def _check_text(self, token_ids: Sequence[int], text: str) -> None:
        plain = [one for one in token_ids if one not in self.renderer.stop_token_ids]
        if text and self.renderer.decode(plain).strip() != text.strip():
            raise TeacherError(
                f"its ids {list(plain)} are the text {text!r} there, and {self.renderer.decode(plain)!r} by the tokenizer in "
                f"{self.config.tokenizer}. Name the folder with the server's own tokenizer.",
                name=self.name,
            )

    def _score(self, request: ScoreRequest, access: Access, k: int) -> TokenScores | ScoreFailure:
        length = len(request.token_ids)

        def failed(reason: str, detail: str) -> ScoreFailure:
            return ScoreFailure(request_id=request.request_id, reason=reason, detail=detail)

        if length >= self.max_context:
            # One token of answer is asked for besides the prompt, since servers want at least one.
            return failed("too_long", f"{length} ids and one of answer, at most {self.max_context}")
        if not len(request.positions):
            empty = np.zeros((0, k))
            top = (empty.astype(np.int64), empty) if access == "topk" else (None, None)
            return TokenScores(request_id=request.request_id, logprobs=np.zeros(0), top_ids=top[0], top_logprobs=top[1])
        ids = [int(one) for one in request.token_ids]
        path, body = score_body(self.config.server, self.config.model, ids, k if access == "topk" else 0)
        self.num_passes += 1
        self.num_tokens += length
        try:
            found = self.client.post(path, body, lambda data: read_scores(self.config.server, data, ids), kind="score")
        except EndpointError as error:
            return failed("too_long" if error.reason == "context_overflow" else error.reason, str(error))
        if found.wrong_id is not None:
            return failed("wrong_ids", found.wrong_id)
        picked = [found.logprobs[place] for place in request.positions]
        if any(one is None or not math.isfinite(one) for one in picked):
            return failed("not_finite", f"of {len(picked)} log-probabilities: {picked[:5]}")
        scores = TokenScores(request_id=request.request_id, logprobs=np.array(picked, dtype=np.float64))
        return scores if access != "topk" else self._with_top(scores, request, found, k)

    def _with_top(
        self, scores: TokenScores, request: ScoreRequest, found: PromptScores, k: int
    ) -> TokenScores | ScoreFailure:
        assert found.top is not None
        best = [sorted(found.top[place].items(), key=lambda one: (-one[1], one[0]))[:k] for place in request.positions]
        if any(len(one) < k for one in best):
            detail = f"asked for {k} most probable ids, got {min(map(len, best))}; the server may be limited to fewer"
            return ScoreFailure(request_id=request.request_id, reason="top_k_short", detail=detail)
        table = np.array(best, dtype=np.float64)
        return replace(scores, top_ids=table[..., 0].astype(np.int64), top_logprobs=table[..., 1])
