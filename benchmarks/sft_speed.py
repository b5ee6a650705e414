"""Speed of supervised fine-tuning against TRL's SFTTrainer, on the same model and the same rows, on one thread.

    python benchmarks/sft_speed.py            writes benchmarks/results/sft_speed.md and .json

TRL runs in its best setting on a CPU: float32, no gradient checkpointing, rows grouped by length, fused AdamW, labels only
where we train. Runs alternate (ours, TRL, ours, TRL, ...), each in a process of its own. Rates are real tokens, without
padding, per CPU second between the end of the warm-up updates and the end of the last update. Needs TRL and datasets.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tutelage.types import LossComponent, Split, TrainingSample

RESULTS = Path(__file__).parent / "results"
ROWS = {
    "long": "200 rows of random ids, 300 to 900 tokens, about 14 % trained",
    "household": "200 expert episodes of the household world, commands trained",
}
BATCH_SIZE = 8
VOCAB_SIZE = 1226
"""Of the built-in household student, so that both kinds of rows fit one model."""


def long_rows(count: int = 200) -> list[TrainingSample]:
    """Actions of about 10 tokens after observations of about 60."""
    rng = np.random.default_rng(0)
    samples = []
    for index in range(count):
        length = int(rng.integers(300, 900))
        mask = np.zeros(length, dtype=bool)
        start = 60
        while start < length:
            end = start + int(rng.integers(6, 14))
            mask[start:end] = True
            start = end + int(rng.integers(40, 80))
        samples.append(make_sample(index, rng.integers(6, VOCAB_SIZE, length).tolist(), mask.tolist()))
    return samples


def household_rows(count: int = 200) -> list[TrainingSample]:
    from tutelage.envs.registry import make_env
    from tutelage.policies.experts.household import HouseholdExpert
    from tutelage.rendering.load import load_renderer
    from tutelage.rollout.episode import run_episode
    from tutelage.rollout.switch import ExpertOnly
    from tutelage.students import student_path
    from tutelage.supervision.samples import build_all_samples
    from tutelage.supervision.step_masks import expert_steps
    from tutelage.tasks.household import HouseholdTasks
    from tutelage.types import Actor

    expert = HouseholdExpert()
    policies = {Actor.STUDENT: expert, Actor.EXPERT: expert}
    tasks = HouseholdTasks(size="small").load(Split.TRAIN, 0, count)
    trajectories = [run_episode(task, make_env(task), policies, ExpertOnly(), seed=0) for task in tasks]
    return build_all_samples(trajectories, expert_steps, load_renderer(student_path("builtin:household_tiny")))[0]


def make_sample(index: int, token_ids: list[int], mask: list[bool]) -> TrainingSample:
    return TrainingSample(
        sample_id=f"row-{index}",
        trajectory_id=f"row-{index}",
        token_ids=tuple(token_ids),
        token_actors="".join("e" if trained else "o" for trained in mask),
        loss_mask=tuple(mask),
        loss_weights={LossComponent.SFT: tuple(float(trained) for trained in mask)},
    )


def make_model(folder: Path) -> None:
    """A Llama of about a million parameters: hidden 128, 4 layers, 4 heads, tied embeddings."""
    import torch
    from tokenizers import Tokenizer, models
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB_SIZE, hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=352,
        max_position_embeddings=2048, tie_word_embeddings=True, pad_token_id=0, eos_token_id=1, bos_token_id=2,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    words = Tokenizer(models.WordLevel({f"w{index}": index for index in range(VOCAB_SIZE)}, unk_token="w3"))
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0", eos_token="w1", bos_token="w2").save_pretrained(
        folder
    )


class Meter:
    """CPU seconds and tokens after the warm-up."""

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup
        self.num_updates = 0
        self.tokens = 0
        self.started = 0.0
        self.cpu_seconds = 0.0

    def update(self, tokens: int) -> None:
        """Call at the end of each update with the tokens of all updates so far."""
        self.num_updates += 1
        if self.num_updates == self.warmup:
            self.started, self.tokens = time.process_time(), tokens
        elif self.num_updates > self.warmup:
            self.cpu_seconds = time.process_time() - self.started
            self.rate = (tokens - self.tokens) / self.cpu_seconds


def run_ours(model_dir: Path, samples: Sequence[TrainingSample], meter: Meter, updates: int, out: Path) -> float:
    from tutelage.training.config import SFTConfig, UpdateMetrics
    from tutelage.training.sft import train_sft

    so_far = 0

    def count(metrics: UpdateMetrics) -> None:
        nonlocal so_far
        so_far += metrics.total_tokens
        meter.update(so_far)

    config = SFTConfig(
        budget=updates,
        budget_unit="updates",
        batch_size=BATCH_SIZE,
        learning_rate=1e-3,
        checkpoint_every=0,
        num_threads=1,
    )
    return train_sft(model_dir, samples, config, out, on_update=count).final_loss


def run_trl(model_dir: Path, samples: Sequence[TrainingSample], meter: Meter, updates: int, out: Path) -> float:
    import torch
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import SFTConfig, SFTTrainer
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    torch.set_num_threads(1)
    rows = []
    for sample in samples:
        labels = [token if on else -100 for token, on in zip(sample.token_ids, sample.loss_mask, strict=True)]
        rows.append({"input_ids": list(sample.token_ids), "labels": labels})
    collator = DataCollatorForLanguageModeling(pad_token_id=0)
    so_far = 0

    def collate(examples: list[Any]) -> Any:
        nonlocal so_far
        so_far += sum(len(example["input_ids"]) for example in examples)
        return collator(examples)

    class Count(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            meter.update(so_far)

    arguments = SFTConfig(
        output_dir=str(out), max_steps=updates, per_device_train_batch_size=BATCH_SIZE, learning_rate=1e-3,
        optim="adamw_torch_fused", bf16=False, fp16=False, gradient_checkpointing=False, use_cpu=True, max_length=None,
        train_sampling_strategy="group_by_length", packing=False, padding_free=False, report_to=[], save_strategy="no",
        logging_steps=updates, disable_tqdm=True, dataset_num_proc=None, lr_scheduler_type="cosine",
        model_init_kwargs={"dtype": "float32"},
    )  # fmt: skip
    trainer = SFTTrainer(
        model=str(model_dir),
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        data_collator=collate,
        callbacks=[Count()],
    )
    return float(trainer.train().training_loss)


def measure(trainer: str, rows: str, updates: int, warmup: int) -> None:
    """Run one trainer in this process and print one JSON line."""
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    samples = long_rows() if rows == "long" else household_rows()
    meter = Meter(warmup)
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder) / "start")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run = run_ours if trainer == "ours" else run_trl
        loss = run(Path(folder) / "start", samples, meter, updates, Path(folder) / "out")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line = {
        "trainer": trainer,
        "rows": rows,
        "rate": meter.rate,
        "loss": loss,
        "start_mb": before / 1024,
        "peak_mb": peak / 1024,
    }
    print("RESULT " + json.dumps(line))


def measure_apart(trainer: str, rows: str, updates: int, warmup: int) -> dict[str, Any]:
    command = [
        sys.executable,
        __file__,
        "--run",
        trainer,
        "--rows",
        rows,
        "--updates",
        str(updates),
        "--warmup",
        str(warmup),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not found:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    line: dict[str, Any] = json.loads(found[0].removeprefix("RESULT "))
    return line


def report(lines: Sequence[dict[str, Any]], updates: int, warmup: int, rounds: int) -> str:
    """The results as a page."""
    cpuinfo = Path("/proc/cpuinfo")
    names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "trl"))
    text = [
        "# Supervised fine-tuning: tutelage and TRL on one CPU thread",
        "",
        f"Command: `python benchmarks/sft_speed.py --updates {updates} --warmup {warmup} --rounds {rounds}`",
        "",
        f"Machine: {names[0]}, one thread, Python {platform.python_version()}, {packages}.",
        "",
        f"Llama, vocabulary {VOCAB_SIZE}, hidden 128, 4 layers, tied head, 0.95 M parameters, float32, {BATCH_SIZE} rows an "
        "update. TRL's SFTTrainer in its best setting on a CPU (float32, no gradient checkpointing, grouped by length, fused "
        "AdamW); ours with the defaults of `SFTConfig`. Tokens per CPU second, without padding; the runs alternate.",
        "",
        "| rows | tutelage, tokens/s | TRL, tokens/s | ratio of each pair | median ratio | peak memory, MB | growth over start, MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for rows, meaning in ROWS.items():
        ours = [line for line in lines if line["rows"] == rows and line["trainer"] == "ours"]
        theirs = [line for line in lines if line["rows"] == rows and line["trainer"] == "trl"]
        ratios = [a["rate"] / b["rate"] for a, b in zip(ours, theirs, strict=True)]
        peaks = [max(line["peak_mb"] for line in part) for part in (ours, theirs)]
        growth = [max(line["peak_mb"] - line["start_mb"] for line in part) for part in (ours, theirs)]
        cells = [
            f"{rows}: {meaning}",
            " ".join(f"{line['rate']:,.0f}" for line in ours),
            " ".join(f"{line['rate']:,.0f}" for line in theirs),
            " ".join(f"{ratio:.2f}" for ratio in ratios),
            f"**{statistics.median(ratios):.2f}**",
            f"{peaks[0]:,.0f} / {peaks[1]:,.0f}",
            f"{growth[0]:,.0f} / {growth[1]:,.0f}",
        ]
        text.append(f"| {' | '.join(cells)} |")
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--updates", type=int, default=25, help="updates per run, warm-up included")
    parser.add_argument("--warmup", type=int, default=5, help="updates before the clock starts")
    parser.add_argument("--rounds", type=int, default=3, help="pairs of runs")
    parser.add_argument("--rows", choices=sorted(ROWS), help="with --run: which rows")
    parser.add_argument("--run", choices=("ours", "trl"), help="one run in this process; used by the benchmark itself")
    arguments = parser.parse_args()
    if arguments.run:
        measure(arguments.run, arguments.rows, arguments.updates, arguments.warmup)
        return
    lines = []
    for _ in range(arguments.rounds):
        for rows in ROWS:
            for trainer in ("ours", "trl"):
                lines.append(measure_apart(trainer, rows, arguments.updates, arguments.warmup))
                print({key: round(value, 1) if isinstance(value, float) else value for key, value in lines[-1].items()})
    RESULTS.mkdir(exist_ok=True)
    page = report(lines, arguments.updates, arguments.warmup, arguments.rounds)
    (RESULTS / "sft_speed.md").write_text(page)
    (RESULTS / "sft_speed.json").write_text(json.dumps(lines, indent=2) + "\n")
    print(page)


if __name__ == "__main__":
    main()
