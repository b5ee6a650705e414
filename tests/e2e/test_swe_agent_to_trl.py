"""Runs of SWE-agent into ten updates of TRL's own trainer: the page of docs/howto, run as it stands, and what it leaves.

The commands run in this process, for TRL takes seconds to load.
"""

from __future__ import annotations

import math
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tutelage.cli.main import main

pytest.importorskip("trl", reason="TRL is not installed")
pytest.importorskip("datasets", reason="datasets is not installed")

# Libraries below TRL warn of their own affairs.
pytestmark = pytest.mark.filterwarnings("ignore")

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "swe_agent_to_trl.md"


def blocks() -> Iterator[tuple[str, str]]:
    """(language, text) of the fenced blocks, in order."""
    yield from re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, dict[str, dict[str, Any]], list[tuple[str, str, str]]]:
    """The folder in which the page was followed, the variables of its scripts, and (command, page, printed)."""
    import contextlib
    import io

    folder = tmp_path_factory.mktemp("howto")
    left: dict[str, dict[str, Any]] = {}
    said = []
    with contextlib.chdir(folder):
        for language, text in blocks():
            if language == "python":
                name = re.match(r"# (\w+\.py)\n", text)
                assert name is not None
                Path(name[1]).write_text(text)
                continue
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, expected = part.partition("\n")
                program, *words = command.split()
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    if program == "python":
                        left[words[0]] = runpy.run_path(words[0])
                    else:
                        assert main(words) == 0, command
                said.append((command, expected, printed.getvalue()))
    return folder, left, said


def test_the_page_prints_what_it_says(played: Any) -> None:
    _, _, said = played
    assert len(said) == 5
    for command, expected, printed in said:
        lines = [r"(?:.*\n)*" if line == "...\n" else re.escape(line) for line in expected.splitlines(keepends=True)]
        assert re.fullmatch("".join(lines), printed), f"$ {command}\n{printed}"


def test_m9_trl_trains_as_many_tokens_as_we_do_in_each_batch(played: Any) -> None:
    """M9: the count of each batch, against our own samples of the stored trajectories."""
    from tutelage.formats.write_text import written_text
    from tutelage.rendering.load import load_renderer
    from tutelage.selection.filters import make_filter
    from tutelage.selection.ledger import select
    from tutelage.store import read_records
    from tutelage.supervision.samples import build_all_samples
    from tutelage.supervision.step_masks import expert_steps

    folder, left, _ = played
    stored = read_records(folder / "trajectories.jsonl", "trajectory")
    assert [one.switch_index for one in stored] == [number % 4 for number in range(12)]
    assert sum(not one.terminated for one in stored) == 2
    kept = select(stored, [make_filter("solved"), make_filter("no_repetition")]).kept
    assert [one.task_id for one in kept] == [f"issue-{number:02d}" for number in (0, 1, 2, 4, 7, 9, 11)]
    samples, _ = build_all_samples(kept, expert_steps, load_renderer(folder / "student", text_of=written_text))
    ours = [sample.num_trained_tokens for sample in samples]
    batches = [sum(ours[first : first + 3]) for first in range(0, len(ours), 3)]
    trained = left["train.py"]
    assert trained["counted"] == [batches[update % 3] for update in range(10)]
    assert [row["input_ids"] for row in trained["rows"]] == [list(sample.token_ids) for sample in samples]


def test_the_loss_is_finite_and_falls(played: Any) -> None:
    losses = played[1]["train.py"]["losses"]
    assert len(losses) == 10
    assert all(map(math.isfinite, losses))
    assert losses[-1] < losses[0] - 1.0


def test_only_the_strong_model_is_learnt(played: Any) -> None:
    """Issue 1 switched after one step: its first reply is context, the other four are learnt, with their stop tokens."""
    left = played[1]["train.py"]
    row = left["rows"][1]
    learnt = left["trainer"].processing_class.decode([label for label in row["labels"] if label != -100])
    assert learnt.count("<|im_end|>") == 4
    assert "Let me look" not in learnt
    assert learnt.startswith("DISCUSSION\nI try it.\n```\npython clock.py\n```<|im_end|>")
    assert learnt.endswith("Done.\n```\nsubmit\n```<|im_end|>")


def test_m9_packing_by_the_trainer_trains_the_same_tokens(played: Any, tmp_path: Path) -> None:
    """M9 (trl#3728): with packing on, summed over the batches that the trainer would train."""
    from trl import SFTConfig

    left = played[1]["train.py"]
    settings = SFTConfig(
        output_dir=str(tmp_path), per_device_train_batch_size=1, packing=True, max_length=256, report_to=[],
        save_strategy="no", use_cpu=True, bf16=False, disable_tqdm=True,
    )  # fmt: skip
    trainer = left["CountingTrainer"](
        model=left["trainer"].model,
        args=settings,
        train_dataset=left["rows"],
        processing_class=left["trainer"].processing_class,
    )
    batches = list(trainer.get_train_dataloader())
    assert len(batches) < len(left["rows"]) + 1
    assert sum(int((batch["labels"] != -100).sum()) for batch in batches) == sum(left["lengths"]) == 450
