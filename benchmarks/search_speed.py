"""Speed of searching: queries per second, time to make and to load an index, what live episodes add; and what it finds.

    python benchmarks/search_speed.py --data ../shared/data/searchqa

Passages: 20,000 made ones, 80 words each drawn by Zipf's law from 30,000 (queries: 6 words of one passage, the most common
left out), and the real ones of DATA with their questions. Queries go to the retriever in one batch; the time is that of
the median round. All seconds are of processor time on one thread, so that a busy machine changes them little.
Recall: share of a question's supporting titles among the first k passages for the bare question (`all`: all of them are
there; `first hop`: one is, which is what a first search needs). Expert: share of test questions of the generated corpus
answered, alone and after a student that spent one step on nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from machine import machine
from tutelage.envs.registry import make_env
from tutelage.envs.search.bm25 import Bm25Retriever
from tutelage.envs.search.passages import Passage, read_passages
from tutelage.envs.search.questions import Question, read_questions
from tutelage.policies.experts.search import SearchExpert
from tutelage.policies.scripted import ScriptedPolicy
from tutelage.rollout.episode import run_episode
from tutelage.rollout.switch import AtStep, ExpertOnly
from tutelage.tasks.registry import load_tasks
from tutelage.types import Action, Actor

RESULTS = Path(__file__).parent / "results"
ROUNDS = 7
LIVE = (1, 16, 256)
RECALL_AT = (1, 3, 5, 10)


def made_passages(number: int, seed: int) -> tuple[tuple[Passage, ...], list[str]]:
    rng = random.Random(seed)
    words = [f"w{rank}" for rank in range(30_000)]
    weights = list(accumulate(1 / (rank + 1) for rank in range(len(words))))
    texts = [rng.choices(words, cum_weights=weights, k=80) for _ in range(number)]
    common = set(words[:30])
    queries = [" ".join([word for word in rng.choice(texts) if word not in common][:6]) for _ in range(2000)]
    return tuple(Passage(f"title {index}", " ".join(text)) for index, text in enumerate(texts)), queries


def measure(passages: tuple[Passage, ...], queries: Sequence[str]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        Bm25Retriever(passages, folder)
        made = time.process_time() - began
        began = time.process_time()
        retriever = Bm25Retriever(passages, folder)
        loaded = time.process_time() - began
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
    seconds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        retriever.search(queries, 3)
        seconds.append(time.process_time() - began)
    return {
        "num_passages": len(passages),
        "queries_per_second": len(queries) / statistics.median(seconds),
        "make_seconds": made,
        "load_seconds": loaded,
        "disk_mb": size / 1e6,
    }


def recall(passages: tuple[Passage, ...], questions: Sequence[Question]) -> dict[str, dict[str, float]]:
    retriever = Bm25Retriever(passages)
    found = retriever.search([question.question for question in questions], max(RECALL_AT))
    rows = {}
    for k in RECALL_AT:
        shares = [
            len(set(question.supporting_titles) & {passage.title for passage in best[:k]})
            / len(set(question.supporting_titles))
            for question, best in zip(questions, found, strict=True)
        ]
        rows[str(k)] = {
            "titles": statistics.fmean(shares),
            "first_hop": statistics.fmean(share > 0 for share in shares),
            "all": statistics.fmean(share == 1 for share in shares),
        }
    return rows


def live_megabytes(data: Path | None) -> dict[str, float]:
    """Memory that live episodes hold after a search each, over that of their tasks. The index is in the first."""
    options = {}
    if data is not None:
        options = {"questions": data / "2wiki_train.jsonl", "passages": data / "2wiki_passages.jsonl.gz"}
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        tasks = load_tasks("search", "train", 0, max(LIVE), cache_dir=folder, **options)
        tracemalloc.start()
        envs = []
        for number in LIVE:
            for task in tasks[len(envs) : number]:
                envs.append(make_env(task))
                envs[-1].reset(0)
                envs[-1].step(Action.of(f"<search>{task.goal}</search>"))
            result[str(number)] = tracemalloc.get_traced_memory()[0] / 1e6
        tracemalloc.stop()
    return result


def steps_per_second(num_tasks: int) -> float:
    tasks = load_tasks("search", "test", 0, num_tasks)
    actions = [
        [Action.of(f"<search>{title}</search>") for title in task.settings["evidence"][:3]]
        + [Action.of("<answer>x</answer>")]
        for task in tasks
    ]
    seconds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for task, said in zip(tasks, actions, strict=True):
            env = make_env(task)
            env.reset(0)
            for action in said:
                env.step(action)
            env.close()
        seconds.append(time.process_time() - began)
    return sum(map(len, actions)) / statistics.median(seconds)


def expert_success(size: str, num_tasks: int) -> dict[str, float]:
    tasks = load_tasks("search", "test", 0, num_tasks, size=size)
    rows: dict[str, list[float]] = {}
    for task in tasks:
        policies = {Actor.STUDENT: ScriptedPolicy(["<search>nothing</search>"]), Actor.EXPERT: SearchExpert()}
        for name, rule in (("alone", ExpertOnly()), ("after one step", AtStep(1))):
            trajectory = run_episode(task, make_env(task), policies, rule, seed=0)
            rows.setdefault(f"{task.kind}, {name}", []).append(trajectory.reward or 0.0)
    return {name: statistics.fmean(rewards) for name, rewards in sorted(rows.items())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, help="folder with 2wiki_passages.jsonl.gz and its question files")
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument("--tasks", type=int, default=300, help="generated tasks for steps and expert")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    speed = {"made": measure(*made_passages(arguments.passages, arguments.seed))}
    recalls = {}
    if arguments.data is not None:
        passages = read_passages(arguments.data / "2wiki_passages.jsonl.gz")
        questions = [
            question
            for name in ("2wiki_train.jsonl", "2wiki_dev.jsonl")
            for question in read_questions(arguments.data / name)
        ]
        speed["real"] = measure(passages, [question.question for question in questions])
        recalls = recall(passages, questions)
    result = {
        "command": "python benchmarks/search_speed.py"
        + (" --data DATA" if arguments.data is not None else "")
        + f" --passages {arguments.passages} --tasks {arguments.tasks} --seed {arguments.seed}",
        "machine": machine("bm25s", "numpy"),
        "speed": speed,
        "recall": recalls,
        "steps_per_second": steps_per_second(arguments.tasks),
        "live_megabytes": live_megabytes(arguments.data),
        "expert": {size: expert_success(size, arguments.tasks) for size in ("small", "large")},
    }
    text = table(result)
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "search_speed.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / "search_speed.md").write_text(text)


def table(result: dict) -> str:
    rows = [
        "# Search: queries per second",
        "",
        f"Command: `{result['command']}` (DATA: the 2WikiMultihopQA passages and questions)  ",
        f"Machine: {result['machine']}  ",
        "Seconds are of processor time on one thread.",
        "",
        "| passages | number | queries per second | make the index, s | load it, s | on disk, MB |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in result["speed"].items():
        rows.append(
            f"| {name} | {row['num_passages']:,} | {row['queries_per_second']:,.0f} | {row['make_seconds']:.2f} | "
            f"{row['load_seconds']:.3f} | {row['disk_mb']:.1f} |"
        )
    if result["recall"]:
        rows += [
            "",
            "Supporting titles of the 750 real questions among the first k passages for the bare question:",
            "",
            "| k | titles | first hop | all |",
            "|---|---|---|---|",
            *(
                f"| {k} | {row['titles']:.3f} | {row['first_hop']:.3f} | {row['all']:.3f} |"
                for k, row in result["recall"].items()
            ),
        ]
    rows += [
        "",
        f"Steps of the environment (small generated corpus, construction and reset included): {result['steps_per_second']:,.0f} per second.",
        "",
        "| live episodes | memory beyond tasks and passages, MB |",
        "|---|---|",
        *(f"| {number} | {size:.1f} |" for number, size in result["live_megabytes"].items()),
        "",
        "| generated questions | " + " | ".join(result["expert"]) + " |",
        "|---|" + "---|" * len(result["expert"]),
        *(
            f"| {name} | " + " | ".join(f"{success[name]:.3f}" for success in result["expert"].values()) + " |"
            for name in result["expert"]["small"]
        ),
    ]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    main()
