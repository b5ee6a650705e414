"""A Hugging Face causal language model as a policy, in this process, for many live episodes together.

    policy = LocalPolicy("runs/demo/imitation/model", temperature=1.0)
    actions = policy.act_batch([so_far_1, so_far_2])    # one forward pass per token for both
    policy.release(so_far_1.trajectory_id)              # when an episode is over

Each episode keeps its keys and values between turns (`kv_cache`), so a turn costs its new tokens only. What the
expert did in between, a shortened context or a fork are all the same case: the longest shared prefix stays, the rest
is fed.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tutelage.envs.action_formats import ActionFormat
from tutelage.errors import ConfigError, ContextOverflow, MissingExtra, PolicyError
from tutelage.policies.base import PartialTrajectory
from tutelage.rendering.base import Renderer
from tutelage.rendering.context import ContextRule, Full
from tutelage.rendering.episode import render_episode
from tutelage.rendering.load import load_renderer
from tutelage.students import BUILTIN, student_path
from tutelage.types import Action, stable_hash

try:
    import torch
    import transformers
except ImportError as error:
    raise MissingExtra("policy 'local'", "train") from error

from tutelage.policies.kv_cache import ATTENTION, Feed, Part, SlotTable
from tutelage.policies.native_dtype import resolved

MAX_LIVE = 256
"""Episodes stepped together, and episodes whose keys and values are kept."""

TOKENS_PER_PASS = 4096
"""New tokens of one forward pass; bounds the memory of its activations."""


class LocalPolicy:
    """Samples actions from a model folder, or from ``builtin:NAME``, a student of the package.

    It is `batched`: a runner hands it all ready episodes at once.

    `rollout_logprobs` are natural logs under the distribution that was sampled from: at temperature T > 0 of
    softmax(logits / T), which is what a policy-gradient ratio divides by. At temperature 0 (greedy) nothing is sampled
    and they are those of softmax(logits).

    Sampling draws from (seed of the policy, seed of the trajectory, step index), one uniform number per token,
    inverted through the cumulative distribution. The same episode meets the same draws in any batch; only float noise
    in the logits can differ.

    `max_context` counts context and action tokens together and is never more than the model's own limit. Episodes
    that no longer fit raise `ContextOverflow`. `num_threads` sets torch's threads for the whole process; None leaves
    them. `action_format` is the one in which the model was taught to write; None leaves the reading to the
    environment. `device` is ``auto`` (a GPU if there is one), or any name torch knows. `dtype` is a torch dtype's name, or
    ``auto`` for that of the file, or
    ``native`` for bfloat16 where the hardware computes in it, else float32.
    """

    batched = True

    def __init__(
        self,
        model_dir: str | Path,
        *,
        temperature: float = 1.0,
        max_action_tokens: int = 24,
        max_context: int = 2048,
        context_rule: ContextRule = Full(),
        seed: int = 0,
        name: str = "student",
        num_threads: int | None = None,
        device: str = "auto",
        dtype: str = "float32",
        renderer: Renderer | None = None,
        action_format: ActionFormat | None = None,
    ) -> None:
        if not temperature >= 0.0:
            raise ConfigError(f"policy '{name}': temperature is {temperature}, expected 0 (greedy) or more")
        if max_action_tokens < 1:
            raise ConfigError(f"policy '{name}': max_action_tokens is {max_action_tokens}, expected at least 1")
        if num_threads is not None:
            torch.set_num_threads(num_threads)
        self.name = name
        self.temperature = temperature
        self.max_action_tokens = max_action_tokens
        self.context_rule = context_rule
        self.seed = seed
        self.model_dir = student_path(model_dir) if str(model_dir).startswith(BUILTIN) else Path(model_dir)
        self.model = load_model(self.model_dir, device=device, dtype=resolved(dtype, device))
        self.device = next(self.model.parameters()).device
        self.version = weights_version(self.model_dir)
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", max_context)
        self.max_context = min(max_context, limit)
        self.renderer = load_renderer(self.model_dir) if renderer is None else renderer
        self.action_format = action_format
        self.table = SlotTable(max_slots=MAX_LIVE, max_length=self.max_context)
        self.num_fed_tokens = 0
        """Tokens that went through the model so far, sampled ones included."""

    def act(self, so_far: PartialTrajectory) -> Action:
        """The action of one episode."""
        return self.act_batch([so_far])[0]

    def act_batch(self, so_far: Sequence[PartialTrajectory]) -> list[Action]:
        """One action per episode, in order. Trajectory ids must differ.

        Raises `ContextOverflow` with the ids of all episodes that do not fit, before anything is computed.
        """
        ids = [one.trajectory_id for one in so_far]
        if len(set(ids)) < len(ids):
            twice = sorted({one for one in ids if ids.count(one) > 1})
            raise PolicyError(f"one batch asks twice for {', '.join(twice)}; ids must differ", role=self.name)
        contexts = [self.context_ids(one) for one in so_far]
        self._check_fit(ids, contexts)
        actions: list[Action] = []
        with torch.inference_mode():
            for first in range(0, len(so_far), MAX_LIVE):
                chunk = slice(first, first + MAX_LIVE)
                actions += self._act_chunk(so_far[chunk], contexts[chunk])
        return actions

    def release(self, trajectory_id: str) -> None:
        """Forget the keys and values of an episode; its slot goes to the next one."""
        self.table.release(trajectory_id)

    def sampling(self, *, temperature: float, seed: int) -> LocalPolicy:
        """The same weights, sampled otherwise, with keys and values of its own."""
        other = copy.copy(self)
        other.temperature, other.seed = temperature, seed
        other.table = SlotTable(max_slots=MAX_LIVE, max_length=self.max_context)
        return other

    def context_ids(self, so_far: PartialTrajectory) -> list[int]:
        """The token ids the next action is sampled after."""
        segments = render_episode(so_far.steps, so_far.observation, self.renderer, self.context_rule)
        return [token_id for segment in segments for token_id in segment.token_ids]

    def _check_fit(self, trajectory_ids: Sequence[str], contexts: Sequence[Sequence[int]]) -> None:
        limit = self.max_context - self.max_action_tokens
        full = [index for index, context in enumerate(contexts) if len(context) > limit]
        if full:
            first = full[0]
            raise ContextOverflow(
                f"trajectory {trajectory_ids[first]}: {len(contexts[first])} context tokens and up to "
                f"{self.max_action_tokens} of the action exceed max_context {self.max_context}"
                + (f" (and {len(full) - 1} more)" if len(full) > 1 else "")
                + ". Raise max_context if the model allows it, or choose a context rule that drops old observations.",
                trajectory_ids=tuple(trajectory_ids[index] for index in full),
                role=self.name,
            )

    def _act_chunk(self, so_far: Sequence[PartialTrajectory], contexts: Sequence[list[int]]) -> list[Action]:
        rows = [
            _Row(self.table.open(one.trajectory_id, context), context, self._uniforms(one))
            for one, context in zip(so_far, contexts, strict=True)
        ]
        # Packed in order of the slots, so that neighbours can be attended in one call.
        active = sorted(rows, key=lambda row: row.part.slot)
        for index in range(self.max_action_tokens):
            logits = self._forward(active)
            uniforms = None if self.temperature == 0.0 else np.array([row.uniforms[index] for row in active])
            token_ids, logprobs = draw(logits, uniforms, self.temperature)
            for row, token_id, logprob in zip(active, token_ids, logprobs, strict=True):
                row.take(token_id, logprob)
            active = [row for row in active if row.sampled[-1] not in self.renderer.stop_token_ids]
            if not active:
                break
        return [self._action(one, row) for one, row in zip(so_far, rows, strict=True)]

    def _forward(self, rows: Sequence[_Row]) -> torch.Tensor:
        """Feed the pending tokens of each row; [rows, vocabulary] logits of what comes next."""
        logits = []
        for group in split_rows(rows, TOKENS_PER_PASS):
            token_ids = [token_id for row in group for token_id in row.pending]
            feed = Feed(self.table, [row.part for row in group], self.device)
            logits.append(next_logits(self.model, torch.tensor([token_ids], device=self.device), feed))
            for row in group:
                self.table.extend(row.part.slot, row.pending)
            self.num_fed_tokens += len(token_ids)
        return logits[0] if len(logits) == 1 else torch.cat(logits)

    def _uniforms(self, so_far: PartialTrajectory) -> np.ndarray[Any, np.dtype[np.float64]]:
        """[max_action_tokens] in [0, 1), fixed by the seeds and the step index alone."""
        key = stable_hash(self.seed, so_far.seed, len(so_far.steps))
        return np.random.Generator(np.random.Philox(key=key)).random(self.max_action_tokens)

    def _action(self, so_far: PartialTrajectory, row: _Row) -> Action:
        if not np.isfinite(row.logprobs).all():
            raise PolicyError(
                f"trajectory {so_far.trajectory_id}, step {len(so_far.steps)}: the model gave log-probability "
                f"{min(row.logprobs)}; its weights ({self.version}) are not finite. Go back to an earlier checkpoint.",
                role=self.name,
            )
        stopped = row.sampled[-1] in self.renderer.stop_token_ids
        action = self.renderer.parse(row.sampled, stopped=stopped)
        if self.action_format is not None:
            action = self.action_format.apply(action)
        return dataclasses.replace(action, rollout_logprobs=tuple(row.logprobs))


class _Row:
    """One episode while its action is sampled."""

    def __init__(self, part: Part, context: list[int], uniforms: np.ndarray[Any, np.dtype[np.float64]]) -> None:
        self.part = part
        self.pending = context[part.start :]
        """Ids the model has not seen yet."""
        self.uniforms = uniforms
        self.sampled: list[int] = []
        self.logprobs: list[float] = []

    def take(self, token_id: int, logprob: float) -> None:
        self.sampled.append(token_id)
        self.logprobs.append(logprob)
        self.part = Part(self.part.slot, self.part.end, 1)
        self.pending = [token_id]


def split_rows(rows: Sequence[_Row], limit: int) -> Iterator[Sequence[_Row]]:
    """Neighbouring rows in groups of at most `limit` pending tokens; a longer row is a group of its own.

    Example, limit 5: rows of 3, 2, 4, 9 pending tokens -> (3, 2), (4,), (9,)
    """
    first = total = 0
    for index, row in enumerate(rows):
        if index > first and total + len(row.pending) > limit:
            yield rows[first:index]
            first, total = index, 0
        total += len(row.pending)
    yield rows[first:]


def next_logits(model: Any, input_ids: torch.Tensor, feed: Feed) -> torch.Tensor:
    """[parts, vocabulary] logits after the last new token of each part of the packed row."""
    output = model(
        input_ids=input_ids,
        position_ids=feed.positions[None],
        use_cache=False,
        logits_to_keep=feed.last,
        kept_kv=feed,
    )
    logits: torch.Tensor = output.logits[0]
    return logits


def draw(
    logits: torch.Tensor, uniforms: np.ndarray[Any, np.dtype[np.float64]] | None, temperature: float
) -> tuple[list[int], list[float]]:
    """One token per row of logits [rows, vocabulary], and its natural log-probability.

    The token is the first whose cumulative probability exceeds the row's uniform number. None: the most probable one.

    Example, probabilities 0.5 0.3 0.2 and uniform 0.6 -> token 1, log 0.3
    """
    if uniforms is None:
        logprobs = logits.double().log_softmax(-1)
        chosen = logits.argmax(-1, keepdim=True)
    else:
        logprobs = (logits.double() / temperature).log_softmax(-1)
        cumulative = logprobs.exp().cumsum(-1)
        target = torch.from_numpy(uniforms).to(logits.device)[:, None] * cumulative[:, -1:]
        chosen = torch.searchsorted(cumulative, target, right=True).clamp_(max=logits.shape[-1] - 1)
    return chosen[:, 0].tolist(), logprobs.gather(-1, chosen)[:, 0].tolist()


def load_model(folder: Path, *, device: str = "auto", dtype: str = "float32") -> Any:
    """The causal language model of a folder, ready for `kept_kv` passes. A LoRA adapter is merged into its base model.

    Raises `ConfigError` if the folder is incomplete or broken, or the architecture cannot keep its keys and values.
    """
    if (folder / "adapter_config.json").is_file():
        model = load_adapted(folder, dtype)
    else:
        model = load_weights(folder, dtype)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        model = model.to(device).eval().requires_grad_(False)
    except (RuntimeError, AssertionError) as error:  # torch asserts that it was built for the device
        raise ConfigError(f"model folder {folder} cannot be put on device '{device}': {error}") from error
    use_kept_attention(model, folder)
    return model


def load_weights(folder: Path, dtype: str) -> Any:
    """The model of a folder with all its weights, on the CPU."""
    if not folder.is_dir():
        raise ConfigError(f"model folder {folder} does not exist; expected a folder with config.json and weights")
    weights = [path for pattern in ("*.safetensors", "pytorch_model*.bin") for path in folder.glob(pattern)]
    missing = [] if (folder / "config.json").is_file() else ["config.json"]
    missing += [] if weights else ["weights (model.safetensors)"]
    if missing:
        found = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
        raise ConfigError(f"model folder {folder} lacks {' and '.join(missing)}; it holds {found}.")
    with quiet_loading():
        try:
            loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, local_files_only=True, output_loading_info=True
            )
            model, report = loaded
        except Exception as error:
            raise ConfigError(f"model folder {folder} cannot be loaded: {error}") from error
    if report["missing_keys"]:
        names = sorted(report["missing_keys"])
        raise ConfigError(
            f"model folder {folder}: the weights lack {len(names)} tensors that config.json asks for, e.g. {names[0]}. "
            "Save the model again, or use the config.json it was saved with."
        )
    return model


def load_adapted(folder: Path, dtype: str) -> Any:
    """A LoRA adapter merged into the base model its adapter_config.json names, on the CPU."""
    try:
        from peft import PeftModel
    except ImportError as error:
        raise MissingExtra(f"the LoRA adapter in {folder}", "train") from error
    model = load_weights(base_folder(folder), dtype)
    try:
        with warnings.catch_warnings():
            # peft asks transformers by names that transformers has deprecated.
            warnings.simplefilter("ignore", FutureWarning)
            return PeftModel.from_pretrained(model, folder).merge_and_unload()
    except Exception as error:
        raise ConfigError(f"LoRA adapter {folder} cannot be merged into {base_folder(folder)}: {error}") from error


def base_folder(folder: Path) -> Path:
    """Where the base model of an adapter lies; a relative path is looked up from the adapter's folder too."""
    try:
        named = json.loads((folder / "adapter_config.json").read_bytes())["base_model_name_or_path"]
        base = Path(named)
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{folder / 'adapter_config.json'} does not name its base_model_name_or_path") from error
    return base if base.is_dir() or not (folder / base).is_dir() else folder / base


def weights_version(folder: Path) -> str:
    """Folder name and the first 8 hex digits of SHA-256 over its weights (and an adapter's base).

    Example: ``imitation@5f3a90c1``
    """
    folders = [folder, base_folder(folder)] if (folder / "adapter_config.json").is_file() else [folder]
    digest = hashlib.sha256()
    for path in (path for one in folders for path in sorted([*one.glob("*.safetensors"), *one.glob("*.bin")])):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"{folder.resolve().name}@{digest.hexdigest()[:8]}"


def use_kept_attention(model: Any, folder: Path) -> None:
    """Switch the model to kept keys and values, and try them once against its own attention.

    Architectures differ in ways no name tells (recurrent layers, position biases, attention of their own). What
    is compared is the logits of two sequences, fed in three passes of unequal lengths. Chunked attention would pass
    as long as the texts are shorter than a chunk, so it is refused by its setting.
    """
    refused = f"{type(model).__name__} in {folder} cannot keep its keys and values"
    if getattr(model.config.get_text_config(), "attention_chunk_size", None) is not None:
        raise ConfigError(f"{refused}: it attends in chunks. Serve it behind an endpoint instead.")
    generator = torch.Generator().manual_seed(0)
    texts = torch.randint(model.config.get_text_config().vocab_size, (2, 9), generator=generator)
    device = next(model.parameters()).device
    cuts = ((0, 4, 5, 9), (0, 3, 8, 9))
    try:
        with torch.inference_mode():
            whole = model(input_ids=texts.to(device), use_cache=False).logits
            expected = torch.stack([whole[row, cuts[row][turn + 1] - 1] for turn in range(3) for row in range(2)])
            model.set_attn_implementation(ATTENTION)
            table = SlotTable(max_slots=2, max_length=9)
            got = []
            for turn in range(3):
                parts = [table.open(str(row), texts[row, : cuts[row][turn + 1]].tolist()) for row in range(2)]
                new = [texts[part.slot, part.start : part.end] for part in parts]
                got.append(next_logits(model, torch.cat(new)[None].to(device), Feed(table, parts, device)))
                for part, token_ids in zip(parts, new, strict=True):
                    table.extend(part.slot, token_ids.tolist())
            off = (torch.cat(got) - expected).abs().max() / expected.abs().max()
    except Exception as error:
        raise ConfigError(f"{refused}: {error}") from error
    if not expected.isfinite().all():
        raise ConfigError(f"model folder {folder}: its weights give logits that are not finite. Use an earlier one.")
    tolerance = 0.1 if whole.dtype in (torch.bfloat16, torch.float16) else 1e-3
    if not off < tolerance:
        raise ConfigError(
            f"{refused}: logits are off by {off:.1e} of the largest, expected under {tolerance}. It may have recurrent "
            "layers or an attention of its own; serve it behind an endpoint instead."
        )


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
    """No progress bar and no report of transformers while a model loads; errors still raise."""
    logging: Any = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
