"""A causal language model of transformers as a scorer, in this process: a frozen one, or the student as it is now.

    scorer = LocalScorer("runs/teacher/model", temperature=0.4)
    scores = scorer.score(requests, access="full")

Requests are packed one after the other into rows of `micro_batch_tokens`, and the output projection runs at the scored
positions only. A module that is handed over is used as it is at each call, so the student in training can score itself;
`SelfScorer` decides how often such a teacher follows its student.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import torch
from torch import Tensor, nn

from tutelage.errors import ConfigError, TeacherError
from tutelage.policies.base import ACCESSES, Access, ScoreFailure, ScoreRequest, TokenScores
from tutelage.policies.local import load_model, weights_version
from tutelage.policies.packed_attention import PACKED_ATTENTION, use_packed_attention
from tutelage.rendering.base import Renderer
from tutelage.rendering.load import load_renderer
from tutelage.students import BUILTIN, student_path

RowLayout = Literal["packed", "padded"]

Refresh = Literal["fixed", "current", "every_n", "ema"]

REFRESHES: Final = ("fixed", "current", "every_n", "ema")

LOGITS_PER_CHUNK = 2**25
"""Logits that are held together: 128 MiB of float32."""


class LocalScorer:
    """Scores with a model folder (or ``builtin:NAME``), or with a live module.

    The log-probabilities are those of softmax(logits / temperature), in float32 at least. To compare them with a
    rollout's they need the rollout's temperature; a greedy rollout records those of temperature 1.

    vocabulary_id: of the ids the model reads. None: from the folder's tokenizer; a live module needs one.
    max_context: None, or more than the model reads, is the model's own limit.
    row_layout: ``packed``, or ``padded`` for models whose attention packed rows do not have (a sliding window).
    """

    accesses: frozenset[Access] = frozenset(ACCESSES)

    def __init__(
        self,
        model: str | Path | nn.Module,
        *,
        temperature: float = 1.0,
        name: str = "teacher",
        version: str | None = None,
        vocabulary_id: str | None = None,
        max_context: int | None = None,
        micro_batch_tokens: int = 8192,
        row_layout: RowLayout = "packed",
        device: str = "auto",
        dtype: str = "float32",
    ) -> None:
        if not temperature > 0.0:
            raise ConfigError(
                f"scorer '{name}': temperature is {temperature}, expected above 0. Greedy play has no probabilities to "
                "score; a greedy rollout records those of temperature 1."
            )
        if micro_batch_tokens < 1:
            raise ConfigError(f"scorer '{name}': micro_batch_tokens is {micro_batch_tokens}, expected at least 1")
        if row_layout not in ("packed", "padded"):
            raise ConfigError.unknown(f"scorer '{name}': row_layout", row_layout, ("packed", "padded"))
        self.renderer: Renderer | None = None
        """Of the folder, to tell what its ids mean. None: a live module, or the vocabulary was named."""
        if isinstance(model, nn.Module):
            self.model: Any = model
            version = version or "live"
            if vocabulary_id is None:
                raise ConfigError(
                    f"scorer '{name}': a live module does not tell its vocabulary; give vocabulary_id, e.g. that of the "
                    "renderer it is played with"
                )
        else:
            folder = student_path(model) if str(model).startswith(BUILTIN) else Path(model)
            self.model = load_model(folder, device=device, dtype=dtype)
            version = version or weights_version(folder)
            if vocabulary_id is None:
                self.renderer = load_renderer(folder)
                vocabulary_id = self.renderer.vocabulary_id
        self.name = name
        self.version = version
        self.vocabulary_id = vocabulary_id
        self.temperature = temperature
        self.micro_batch_tokens = micro_batch_tokens
        self.row_layout = row_layout
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        self.max_context: int = min(one for one in (max_context, limit, 2**31) if one is not None)
        self.num_passes = 0
        """Forward passes so far."""
        self.num_tokens = 0
        """Token ids that went through the model so far, padding not counted."""
        self._head_is_checked = False

    def score(
        self, requests: Sequence[ScoreRequest], access: Access = "sampled", *, k: int = 64
    ) -> list[TokenScores | ScoreFailure]:
        """One answer per request, in order; see `Scorer.score`. Too long and not finite ones fail, each by itself."""
        self._check_access(requests, access)
        answers: dict[int, TokenScores | ScoreFailure] = {}
        fitting = []
        for index, request in enumerate(requests):
            if len(request.token_ids) > self.max_context:
                detail = f"{len(request.token_ids)} ids, at most {self.max_context}"
                answers[index] = ScoreFailure(request_id=request.request_id, reason="too_long", detail=detail)
            elif not len(request.positions):
                answers[index] = _answer(request, access, torch.zeros(0, self.model.config.vocab_size), k)
            else:
                fitting.append(index)
        if fitting:
            with torch.no_grad(), scoring_mode(self.model, self.row_layout):
                self._check_head(requests[fitting[0]])
                for group in self._groups(requests, fitting):
                    for index, answer in zip(group, self._pass([requests[i] for i in group], access, k), strict=True):
                        answers[index] = answer
        return [answers[index] for index in range(len(requests))]

    def _check_access(self, requests: Sequence[ScoreRequest], access: Access) -> None:
        if access not in self.accesses:
            raise TeacherError(f"access '{access}' is not one of {', '.join(sorted(self.accesses))}", name=self.name)
        if access == "candidates" and any(request.candidates is None for request in requests):
            raise TeacherError("access 'candidates' for a request that names no candidate ids", name=self.name)

    def _groups(self, requests: Sequence[ScoreRequest], indices: Sequence[int]) -> Iterator[list[int]]:
        """Requests of similar length, together at most `micro_batch_tokens` ids, padding included."""
        group: list[int] = []
        size = 0
        for index in sorted(indices, key=lambda one: len(requests[one].token_ids)):
            length = len(requests[index].token_ids)
            # They come in ascending order, so the newest sets the padded width.
            grown = size + length if self.row_layout == "packed" else length * (len(group) + 1)
            if group and grown > self.micro_batch_tokens:
                yield group
                group, grown = [], length
            group.append(index)
            size = grown
        yield group

    def _pass(self, requests: Sequence[ScoreRequest], access: Access, k: int) -> list[TokenScores | ScoreFailure]:
        """One forward pass, then the output projection in pieces that fit into memory."""
        hidden = self._hidden(requests)
        head = self.model.get_output_embeddings()
        self.num_passes += 1
        self.num_tokens += sum(len(request.token_ids) for request in requests)
        answers = []
        pending: list[ScoreRequest] = []
        rows = first = 0
        for request in requests:
            pending.append(request)
            rows += len(request.positions)
            if request is requests[-1] or rows * head.weight.shape[0] >= LOGITS_PER_CHUNK:
                logits = head(hidden[first : first + rows])
                counts = [len(one.positions) for one in pending]
                for one, part in zip(pending, torch.split(self._logprobs(logits), counts), strict=True):
                    answers.append(_answer(one, access, part, k))
                first += rows
                pending, rows = [], 0
        return answers

    def _logprobs(self, logits: Tensor) -> Tensor:
        wide = logits if logits.dtype == torch.float64 else logits.float()
        return (wide / self.temperature).log_softmax(-1)

    def _hidden(self, requests: Sequence[ScoreRequest]) -> Tensor:
        """[M, D] last hidden states that predict the scored ids of all requests, in order."""
        device = next(self.model.parameters()).device
        lengths = [len(request.token_ids) for request in requests]
        extra: dict[str, Any] = {}
        if self.row_layout == "packed":
            input_ids = np.concatenate([request.token_ids for request in requests])[None]
            starts = np.cumsum([0, *lengths[:-1]])
            positions = np.concatenate([np.arange(length) for length in lengths])[None]
            extra = {"position_ids": torch.from_numpy(positions).to(device), "row_lengths": lengths}
        else:
            # The fill comes after every real id of its row, and causal attention never looks at it.
            input_ids = np.zeros((len(requests), max(lengths)), dtype=np.int64)
            for row, request in enumerate(requests):
                input_ids[row, : lengths[row]] = request.token_ids
            starts = np.arange(len(requests)) * max(lengths)
        # The output after id t - 1 predicts id t.
        predictors = np.concatenate(
            [request.positions - 1 + start for request, start in zip(requests, starts, strict=True)]
        )
        output = self.model.base_model(input_ids=torch.from_numpy(input_ids).to(device), use_cache=False, **extra)
        hidden: Tensor = output.last_hidden_state.flatten(0, 1)[torch.from_numpy(predictors).to(device)]
        return hidden

    def _check_head(self, request: ScoreRequest) -> None:
        """Once: the output projection alone gives the logits that the model gives by itself."""
        if self._head_is_checked:
            return
        token_ids = torch.from_numpy(request.token_ids[None]).to(next(self.model.parameters()).device)
        extra = {"row_lengths": [token_ids.shape[1]]} if self.row_layout == "packed" else {}
        expected = self.model(input_ids=token_ids, use_cache=False, **extra).logits[0, request.positions - 1]
        got = self.model.get_output_embeddings()(self._hidden([request]))
        if not torch.allclose(got.float(), expected.float(), rtol=1e-3, atol=1e-3, equal_nan=True):
            raise TeacherError(
                f"{type(self.model).__name__} changes its logits after the output projection, by up to "
                f"{float((got - expected).abs().max()):.3g}; such models cannot score here",
                name=self.name,
            )
        self._head_is_checked = True


class SelfScorer(LocalScorer):
    """The student as its own teacher: the same module, or a copy that follows it.

    refresh:
      fixed     a copy of the weights it was made with
      current   the student as it is at each call
      every_n   a copy, taken anew at each round whose index is a multiple of `every_n`
      ema       a copy; at each round after the first, copy <- tau x copy + (1 - tau) x student

    Call `on_round` before a round is scored. For an exact resume, keep `state_dict` with the checkpoint.
    """

    def __init__(
        self, student: nn.Module, *, refresh: Refresh = "fixed", every_n: int = 10, tau: float = 0.9, **options: Any
    ) -> None:
        """`options` are those of `LocalScorer`; `vocabulary_id` must be among them."""
        name = options.get("name", "teacher")
        if refresh not in REFRESHES:
            raise ConfigError.unknown(f"scorer '{name}': refresh", refresh, REFRESHES)
        if every_n < 1 or not 0.0 <= tau < 1.0:
            raise ConfigError(
                f"scorer '{name}': every_n is {every_n} and tau {tau}, expected at least 1, and 0 or more but below 1"
            )
        copied = student if refresh == "current" else _frozen_copy(student)
        super().__init__(copied, version=f"student:{refresh}", **options)
        self.student = student
        self.refresh = refresh
        self.every_n = every_n
        self.tau = tau
        self.last_round: int | None = None
        """The round whose weights are held. None: those from before the first one."""

    def on_round(self, round_index: int) -> bool:
        """Follow the student as the rule says; True if the weights that score were changed.

        Example, ``every_n`` 10: rounds 0, 10, 20 give True. The same round twice changes nothing the second time.
        """
        if self.refresh in ("fixed", "current") or round_index == self.last_round:
            return False
        if self.refresh == "every_n" and round_index % self.every_n:
            return False
        self.last_round = round_index
        if self.refresh == "every_n":
            self._mix(0.0)
        elif round_index > 0:
            self._mix(self.tau)
        else:
            return False
        return True

    def state_dict(self) -> dict[str, Any]:
        """Weights of the copy (none for ``current``) and the round they are of."""
        weights = None if self.refresh == "current" else self.model.state_dict()
        return {"refresh": self.refresh, "last_round": self.last_round, "weights": weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["refresh"] != self.refresh:
            raise ConfigError(
                f"scorer '{self.name}': the stored teacher has refresh '{state['refresh']}', expected '{self.refresh}'"
            )
        self.last_round = state["last_round"]
        if state["weights"] is not None:
            self.model.load_state_dict(state["weights"])

    @torch.no_grad()
    def _mix(self, keep: float) -> None:
        """copy <- keep x copy + (1 - keep) x student, parameters and buffers."""
        theirs = self.student.state_dict()
        for name, mine in self.model.state_dict().items():
            if keep and mine.is_floating_point():
                mine.lerp_(theirs[name].to(mine), 1.0 - keep)
            else:
                mine.copy_(theirs[name])


def _frozen_copy(student: nn.Module) -> nn.Module:
    return copy.deepcopy(student).eval().requires_grad_(False)


@contextlib.contextmanager
def scoring_mode(model: Any, row_layout: RowLayout) -> Iterator[None]:
    """Without dropout and with the attention of the layout; afterwards the model is as it was found."""
    was_training: bool = model.training
    attention: str = model.config._attn_implementation
    wanted = PACKED_ATTENTION if row_layout == "packed" else attention
    if row_layout == "padded" and attention.startswith("tutelage_"):
        # Attention of ours reads its row from the call, which padded rows do not give.
        wanted = "sdpa"
    model.eval()
    if wanted == PACKED_ATTENTION != attention:
        use_packed_attention(model)
    elif wanted != attention:
        model.set_attn_implementation(wanted)
    try:
        yield
    finally:
        if wanted != attention:
            model.set_attn_implementation(attention)
        model.train(was_training)


def _answer(request: ScoreRequest, access: Access, logprobs: Tensor, k: int) -> TokenScores | ScoreFailure:
    """What was asked for, out of all log-probabilities [M, V] of one request."""
    ids = torch.from_numpy(request.token_ids[request.positions]).to(logprobs.device)
    sampled = logprobs.gather(-1, ids[:, None])[:, 0]
    if logprobs.isnan().any() or not sampled.isfinite().all():
        detail = "the model's weights or logits are not finite"
        return ScoreFailure(request_id=request.request_id, reason="not_finite", detail=detail)
    top_ids = top = None
    if access == "candidates":
        top_ids = request.candidates
        assert top_ids is not None, "checked before anything was computed"
        top = logprobs.gather(-1, torch.from_numpy(top_ids).to(logprobs.device))
    elif access == "topk":
        top, best = logprobs.topk(min(k, logprobs.shape[-1]), dim=-1)
        top_ids = best.cpu().numpy()
    return TokenScores(
        request_id=request.request_id,
        logprobs=sampled.cpu().numpy(),
        top_ids=top_ids,
        top_logprobs=None if top is None else top.cpu().numpy(),
        full=logprobs.cpu().numpy() if access == "full" else None,
    )
