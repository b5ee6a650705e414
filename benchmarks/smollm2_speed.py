"""Tokens per second and memory of training SmolLM2-135M: number format and LoRA against all weights, one thread each.

    make smollm2
    python benchmarks/smollm2_speed.py          # writes results/smollm2_speed.md; four minutes

Every setting runs in a process of its own on the same two household episodes, one update to warm up and two measured ones.
"""

from __future__ import annotations

import json
import platform
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
MODEL = HERE.parent / "models" / "smollm2"
SETTINGS = [("float32", 16), ("native", 16), ("float32", 0), ("native", 0)]


def main() -> None:
    lines = [
        "# Training SmolLM2-135M on one thread",
        "",
        "`python benchmarks/smollm2_speed.py`",
        "",
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, `native` is {native()} here. Two episodes an update, 3,000 tokens a micro-batch.",
        "",
        "| number format | trained | tokens a second | peak memory, GB |",
        "|---|---|---|---|",
    ]
    for precision, rank in SETTINGS:
        done = subprocess.run(
            [sys.executable, __file__, precision, str(rank)], capture_output=True, text=True, check=True
        )
        told = json.loads(done.stdout.splitlines()[-1])
        what = f"LoRA, rank {rank}" if rank else "all weights"
        lines.append(f"| {precision} | {what} | {told['tokens_per_second']:.0f} | {told['gigabytes']:.1f} |")
        print(lines[-1], flush=True)
    (HERE / "results" / "smollm2_speed.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def native() -> str:
    from tutelage.policies.native_dtype import native_dtype

    return native_dtype("cpu")


def measure(precision: str, rank: int) -> None:
    """One setting, in this process."""
    import torch

    import tutelage as t
    from tutelage.envs.household.instructions import INSTRUCTIONS

    torch.set_num_threads(1)
    tasks = t.load_tasks("household", "train", count=2, size="small")
    played = t.run_rollouts(
        t.make_jobs(tasks), policies={t.Actor.EXPERT: t.make_expert("household")}, rule=t.make_rule("expert_only")
    )
    renderer = t.load_renderer(MODEL, instructions=INSTRUCTIONS)
    samples, _ = t.build_all_samples(played.trajectories, t.STEP_MASKS["expert_steps"], renderer)
    config = t.SFTConfig(
        budget=3, budget_unit="updates", batch_size=2, micro_batch_tokens=3000, precision=precision, lora_rank=rank
    )
    updates = []
    with tempfile.TemporaryDirectory() as folder:
        t.train_sft(MODEL, samples, config, Path(folder, "model"), on_update=updates.append)
    measured = updates[1:]
    print(
        json.dumps(
            {
                "tokens_per_second": sum(one.total_tokens for one in measured) / sum(one.seconds for one in measured),
                "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
            }
        )
    )


if __name__ == "__main__":
    measure(sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 1 else main()
