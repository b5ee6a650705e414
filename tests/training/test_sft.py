"""Training as a whole on a model of 20 thousand parameters: it learns, resumes exactly, and runs in several processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tutelage.errors import ConfigError, StoreError, TrainingError
from tutelage.training.config import SFTConfig, SFTStart, UpdateMetrics
from tutelage.training.optim import learning_rate_at, make_optimizer
from tutelage.training.sft import train_sft
from tutelage.types import LossComponent, TrainingSample

Samples = Callable[..., list[TrainingSample]]
SHORT = SFTConfig(budget=6, budget_unit="updates", batch_size=3, learning_rate=1e-2, micro_batch_tokens=40)


class Reverse:
    """Turns a sample around in some uses."""

    def __call__(self, token_ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return token_ids[::-1].copy() if rng.integers(2) else token_ids


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def equal(left: Path, right: Path) -> bool:
    a, b = weights_of(left), weights_of(right)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def metrics_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_it_learns_and_leaves_a_plain_model_folder(tmp_path: Path, start_dir: Path, make_samples: Samples) -> None:
    from transformers import AutoModelForCausalLM

    samples = make_samples([12, 9, 15, 8])
    starts: list[SFTStart] = []
    updates: list[UpdateMetrics] = []
    config = SFTConfig(budget=60, budget_unit="updates", batch_size=4, learning_rate=2e-2)
    result = train_sft(start_dir, samples, config, tmp_path / "m", on_start=starts.append, on_update=updates.append)
    trained = sum(sample.num_trained_tokens for sample in samples)
    assert (result.num_updates, result.trained_tokens, result.total_tokens) == (60, 60 * trained, 60 * 44)
    assert result.resumed_at is None
    assert updates[0].loss == pytest.approx(np.log(64), abs=0.1), "an untrained model is uniform over 64 ids"
    assert result.final_loss == updates[-1].loss < 0.1
    assert [starts[0].num_updates, starts[0].first_update, starts[0].trained_tokens] == [60, 0, 60 * trained]
    assert starts[0].sample in samples
    rows = metrics_of(tmp_path / "m")
    assert [row["update_index"] for row in rows] == list(range(60))
    assert rows[0]["losses"] == {"sft": rows[0]["loss"]}
    assert rows[0]["shares"] == {"sft": 1.0}
    assert rows[-1]["trained_tokens_so_far"] == result.trained_tokens
    assert (tmp_path / "m" / "entities.json").read_text() == "[]\n"
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "m")
    assert model.config._attn_implementation == "sdpa"
    assert model.dtype == torch.float32
    with torch.no_grad():
        logits = model(torch.tensor([samples[0].token_ids])).logits[0]
    for position in np.flatnonzero(samples[0].loss_mask):
        assert int(logits[position - 1].argmax()) == samples[0].token_ids[position]


def test_layouts_and_micro_batches_give_the_same_model(tmp_path: Path, start_dir: Path, make_samples: Samples) -> None:
    samples = make_samples([12, 9, 15, 8, 30, 22])
    folders = []
    for row_layout in ("packed", "padded"):
        for tokens in (1, 4096):
            config = SFTConfig(
                budget=4, budget_unit="updates", batch_size=4, row_layout=row_layout, micro_batch_tokens=tokens
            )  # type: ignore[arg-type]
            folders.append(train_sft(start_dir, samples, config, tmp_path / f"{row_layout}-{tokens}").model_dir)
    first = weights_of(folders[0])
    for folder in folders[1:]:
        for name, values in weights_of(folder).items():
            assert torch.allclose(values, first[name], rtol=0.0, atol=1e-4), (folder.name, name)


def stop_after(update_index: int) -> Callable[[UpdateMetrics], None]:
    def stop(metrics: UpdateMetrics) -> None:
        if metrics.update_index == update_index:
            raise RuntimeError("killed")

    return stop


@pytest.mark.parametrize("killed_after", [0, 2, 3, 5])
def test_c1_resume_gives_the_weights_of_an_unbroken_run(
    tmp_path: Path, start_dir: Path, make_samples: Samples, killed_after: int
) -> None:
    """Checkpoints after updates 2, 4, 6 of 6, so a kill repeats none or one update."""
    samples = make_samples([12, 9, 15, 8, 30, 22])
    config = SFTConfig(**{**vars(SHORT), "checkpoint_every": 2})
    whole = train_sft(start_dir, samples, config, tmp_path / "whole", augmentation=Reverse())
    with pytest.raises(RuntimeError, match="killed"):
        train_sft(
            start_dir, samples, config, tmp_path / "broken", augmentation=Reverse(), on_update=stop_after(killed_after)
        )
    assert not (tmp_path / "broken").exists()
    result = train_sft(start_dir, samples, config, tmp_path / "broken", augmentation=Reverse())
    assert result.resumed_at == ((killed_after + 1) // 2 * 2 or None)
    assert equal(tmp_path / "whole", tmp_path / "broken")
    assert (result.trained_tokens, result.final_loss) == (whole.trained_tokens, whole.final_loss)
    timeless = [
        [{key: value for key, value in row.items() if "second" not in key} for row in metrics_of(tmp_path / name)]
        for name in ("whole", "broken")
    ]
    assert timeless[0] == timeless[1]
    assert sorted(os.listdir(tmp_path)) == ["broken", "whole"]


KILLED = """
    import os, signal, sys
    import torch
    torch.set_num_threads(1)
    sys.path.insert(0, sys.argv[1])
    from conftest import number_samples
    from tutelage.training.config import SFTConfig
    from tutelage.training.sft import train_sft

    def kill(metrics):
        if metrics.update_index == 4:
            os.kill(os.getpid(), signal.SIGKILL)

    config = SFTConfig(budget=6, budget_unit="updates", batch_size=3, checkpoint_every=2)
    train_sft(sys.argv[2], number_samples([12, 9, 15, 8]), config, sys.argv[3], on_update=kill)
"""


def test_c1_resume_after_sigkill_in_another_process(tmp_path: Path, start_dir: Path, make_samples: Samples) -> None:
    config = SFTConfig(budget=6, budget_unit="updates", batch_size=3, checkpoint_every=2, num_threads=1)
    train_sft(start_dir, make_samples([12, 9, 15, 8]), config, tmp_path / "whole")
    (tmp_path / "train.py").write_text(textwrap.dedent(KILLED))
    arguments = [str(Path(__file__).parent), str(start_dir), str(tmp_path / "m")]
    done = subprocess.run([sys.executable, str(tmp_path / "train.py"), *arguments], timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    result = train_sft(start_dir, make_samples([12, 9, 15, 8]), config, tmp_path / "m")
    assert result.resumed_at == 4
    assert equal(tmp_path / "whole", tmp_path / "m")


def test_a_finished_training_is_not_repeated(tmp_path: Path, start_dir: Path, make_samples: Samples) -> None:
    samples = make_samples([12, 9, 15])
    first = train_sft(start_dir, samples, SHORT, tmp_path / "m")
    again = train_sft(start_dir, samples, SHORT, tmp_path / "m", on_update=stop_after(0))
    assert (again.resumed_at, again.final_loss) == (6, first.final_loss)
    with pytest.raises(StoreError, match="made with other samples"):
        train_sft(start_dir, samples[:2], SHORT, tmp_path / "m")
    with pytest.raises(StoreError, match="made with other augmentation"):
        train_sft(start_dir, samples, SHORT, tmp_path / "m", augmentation=Reverse())
    assert train_sft(start_dir, samples[:2], SHORT, tmp_path / "m", force=True).resumed_at is None


def test_thread_and_checkpoint_settings_may_change(tmp_path: Path, start_dir: Path, make_samples: Samples) -> None:
    samples = make_samples([12, 9, 15])
    train_sft(start_dir, samples, SHORT, tmp_path / "m")
    changed = SFTConfig(**{**vars(SHORT), "checkpoint_every": 1, "num_threads": 1})
    assert train_sft(start_dir, samples, changed, tmp_path / "m").resumed_at == 6


def test_ctrl_c_saves_a_checkpoint_and_interrupts(tmp_path: Path, start_dir: Path, make_samples: Samples) -> None:
    samples = make_samples([12, 9, 15, 8])
    whole = train_sft(start_dir, samples, SHORT, tmp_path / "whole")
    assert threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)

    def press(metrics: UpdateMetrics) -> None:
        if metrics.update_index == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train_sft(start_dir, samples, SHORT, tmp_path / "stopped", on_update=press)
    assert signal.getsignal(signal.SIGINT) is before
    result = train_sft(start_dir, samples, SHORT, tmp_path / "stopped")
    assert result.resumed_at == 4, "the update that was running is finished and saved"
    assert result.final_loss == whole.final_loss
    assert equal(tmp_path / "whole", tmp_path / "stopped")


def test_lora_is_merged_and_changes_the_targeted_weights_only(
    tmp_path: Path, start_dir: Path, make_samples: Samples
) -> None:
    samples = make_samples([12, 9, 15])
    config = SFTConfig(
        budget=20,
        budget_unit="updates",
        batch_size=3,
        lora_rank=4,
        lora_targets=("q_proj", "v_proj"),
        checkpoint_every=8,
    )
    with pytest.raises(RuntimeError, match="killed"):
        train_sft(start_dir, samples, config, tmp_path / "m", on_update=stop_after(10))
    result = train_sft(start_dir, samples, config, tmp_path / "m")
    whole = train_sft(start_dir, samples, config, tmp_path / "whole")
    assert result.resumed_at == 8
    assert equal(tmp_path / "m", tmp_path / "whole")
    rows = metrics_of(tmp_path / "m")
    assert rows[-1]["loss"] < rows[0]["loss"]
    before, after = weights_of(start_dir), weights_of(whole.model_dir)
    assert before.keys() == after.keys()
    changed = {name.split(".")[-2] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"q_proj", "v_proj"}


@pytest.mark.parametrize(("precision", "dtype"), [("bfloat16_mixed", torch.float32), ("bfloat16", torch.bfloat16)])
def test_lower_precision_is_near_float32(
    tmp_path: Path, start_dir: Path, make_samples: Samples, precision: Any, dtype: torch.dtype
) -> None:
    samples = make_samples([12, 9, 15])
    config = SFTConfig(budget=5, budget_unit="updates", batch_size=3)
    exact = train_sft(start_dir, samples, config, tmp_path / "exact")
    rough = train_sft(start_dir, samples, SFTConfig(**{**vars(config), "precision": precision}), tmp_path / "rough")
    assert rough.final_loss == pytest.approx(exact.final_loss, abs=0.02)
    assert {values.dtype for values in weights_of(rough.model_dir).values()} == {dtype}


TWO_PROCESSES = """
    import sys
    import torch
    torch.set_num_threads(1)
    sys.path.insert(0, sys.argv[1])
    from conftest import number_samples
    from tutelage.training.config import SFTConfig
    from tutelage.training.sft import train_sft

    config = SFTConfig(budget=5, budget_unit="updates", batch_size=5, micro_batch_tokens=16, checkpoint_every=2)
    train_sft(sys.argv[2], number_samples([12, 9, 15, 8, 30, 22]), config, sys.argv[3])
"""


def test_two_processes_give_the_weights_of_one(tmp_path: Path, start_dir: Path, make_samples: Samples) -> None:
    """Under `accelerate launch`, with gloo: an odd number of micro-batches over two processes."""
    config = SFTConfig(budget=5, budget_unit="updates", batch_size=5, micro_batch_tokens=16)
    train_sft(start_dir, make_samples([12, 9, 15, 8, 30, 22]), config, tmp_path / "one")
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(TWO_PROCESSES))
    launch = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--cpu",
        "--num_processes",
        "2",
        "--num_machines",
        "1",
    ]
    launch += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    arguments = [str(script), str(Path(__file__).parent), str(start_dir), str(tmp_path / "two")]
    done = subprocess.run([*launch, *arguments], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    one, two = weights_of(tmp_path / "one"), weights_of(tmp_path / "two")
    for name, values in one.items():
        assert torch.allclose(values, two[name], rtol=0.0, atol=2e-5), name
    rows = [[(row["trained_tokens"], row["total_tokens"]) for row in metrics_of(tmp_path / n)] for n in ("one", "two")]
    assert rows[0] == rows[1]
    assert [row["loss"] for row in metrics_of(tmp_path / "two")] == pytest.approx(
        [row["loss"] for row in metrics_of(tmp_path / "one")], abs=1e-5
    )


def test_k8_no_weight_at_all_is_refused(tmp_path: Path, start_dir: Path, make_samples: Samples) -> None:
    [sample] = make_samples([5])
    other = TrainingSample(
        sample_id="s", trajectory_id="t", token_ids=sample.token_ids, token_actors=sample.token_actors,
        loss_mask=sample.loss_mask, loss_weights={LossComponent.PG: sample.loss_weights[LossComponent.SFT]},
    )  # fmt: skip
    with pytest.raises(
        TrainingError, match=r"component sft: coefficient 1\.0, but its weights are zero in all 1 samples"
    ):
        train_sft(start_dir, [other], SHORT, tmp_path / "m")


def test_a_sample_beyond_the_model_s_context_is_refused(tmp_path: Path, start_dir: Path, make_samples: Samples) -> None:
    with pytest.raises(TrainingError, match="sample sample-1 has 257 tokens, the model reads at most 256"):
        train_sft(start_dir, make_samples([5, 257]), SHORT, tmp_path / "m")


def test_a_budget_below_one_sample_is_refused(tmp_path: Path, start_dir: Path, make_samples: Samples) -> None:
    config = SFTConfig(budget=1, budget_unit="total_tokens")
    with pytest.raises(TrainingError, match="a budget of 1 total_tokens is nearer to no sample than to one"):
        train_sft(start_dir, make_samples([30]), config, tmp_path / "m")


def test_a_loss_that_is_not_finite_stops_before_the_update(
    tmp_path: Path, start_dir: Path, make_samples: Samples, make_model: Callable[..., Any]
) -> None:
    model = make_model()
    with torch.no_grad():
        model.model.norm.weight.fill_(float("inf"))
    model.save_pretrained(tmp_path / "start")
    with pytest.raises(TrainingError, match="update 0: loss nan"):
        train_sft(tmp_path / "start", make_samples([12]), SHORT, tmp_path / "m")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget_unit": "epoch"}, r"training: budget_unit: unknown 'epoch'\. Did you mean 'epochs'"),
        ({"row_layout": "dense"}, "training: row_layout: unknown 'dense'"),
        ({"learning_rate": 0.0}, r"training: learning_rate is 0\.0, expected more than 0"),
        ({"warmup_fraction": 1.5}, r"training: warmup_fraction is 1\.5, expected 0 to 1"),
        ({"checkpoint_every": -1}, "training: checkpoint_every is -1, expected 0 or more"),
    ],
)
def test_settings_are_checked_at_birth(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SFTConfig(**options)


def test_learning_rate_rises_then_falls() -> None:
    rates = [learning_rate_at(index, 5, peak=1.0, warmup_updates=2) for index in range(5)]
    assert rates == pytest.approx([0.5, 1.0, 0.853553, 0.5, 0.146447], abs=1e-6)
    last = learning_rate_at(99, 100, peak=1.0, warmup_updates=0, final_fraction=0.1)
    assert last == pytest.approx(0.1, abs=1e-3)


def test_vectors_are_not_decayed(make_model: Callable[..., Any]) -> None:
    optimizer = make_optimizer(make_model(), learning_rate=1e-3, betas=(0.9, 0.98), weight_decay=0.05)
    matrices, vectors = optimizer.param_groups
    assert {parameter.ndim for parameter in matrices["params"]} == {2}
    assert {parameter.ndim for parameter in vectors["params"]} == {1}
    assert (matrices["weight_decay"], vectors["weight_decay"]) == (0.05, 0.0)
