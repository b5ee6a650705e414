"""The list of faults that were reported in public of other projects, in our words, and that each has its tests here.

A new fault, found by us or told by a user, gets the next number of its letter, a line below and a test named after it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

CASES = {
    "m1": "the assistant mask is zero where a template marks nothing",
    "m2": "a span that starts at position 0, or with white space, loses its start",
    "m4": "the token that ends a turn is not trained, or twice, or is the next message's",
    "m5": "the newline after a turn is trained, or missing in the next prompt",
    "m6": "the mask is inverted or shifted, and observations are trained",
    "m7": "messages tokenised apart and glued differ from the whole",
    "m9": "packing or a fused loss drops the mask",
    "m10": "an exported flag is read otherwise by the trainer",
    "m12": "special strings in an observation become special tokens",
    "t1": "sampled text is encoded again, to other ids",
    "t3": "arrays per token are padded to different columns",
    "r1": "an episode cut by a cap counts as completed",
    "r2": "an exit at a limit becomes a submit turn",
    "r5": "a hanging reward or a dead environment holds the rollout, or scores 0",
    "g1": "rewards of None or NaN spoil the group",
    "g2": "equal rewards give advantages other than 0, or NaN",
    "g4": "the loss depends on how a batch is cut; padding is trained, a real end is not",
    "k1": "the direction of a KL is the other one",
    "k2": "an estimator of a KL is differentiated and follows another gradient",
    "k3": "teacher scores are shifted by one",
    "k4": "vocabularies are compared by size",
    "k6": "a top-k teacher makes the loss NaN",
    "k8": "a coefficient never reaches the loss, or an update never reaches the sampler",
    "d1": "Parquet gives every row the keys and nulls of the others",
    "d2": "arguments are encoded twice, null becomes text, a malformed call passes",
    "d4": "a broken trajectory file ends the import",
    "d5": "text that is no UTF-8 ends the run or vanishes",
    "c1": "a torn line ends a resume, or rows come twice",
    "c3": "a signal or a failed model call loses the rollouts",
    "j1": "what a judge did not say is read as 0",
    "j3": "doing nothing is rewarded",
    "e1": "environments are not closed, threads and processes stay",
    "e3": "other data or other verbs pass unnoticed",
    "e4": "a missing extra is a traceback, or needed by the core",
    "e5": "a reset or a replay differs, and nothing tells where",
    "s1": "Ctrl-C or a lost worker leaves the run hanging",
    "s3": "the core imports an engine that is absent or of another version",
}
"""Id -> what went wrong, in one line."""


def reports_tested() -> dict[str, str]:
    """Name of each test of this folder -> its docstring."""
    found: dict[str, str] = {}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path == Path(__file__):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[node.name] = ast.get_docstring(node) or ""
    return found


def test_every_report_has_a_test() -> None:
    covered = {name.split("_")[1] for name in reports_tested()}
    assert covered == set(CASES)


def test_every_test_names_its_report_and_the_cause() -> None:
    """``owner#12, repo PR #34: one line of cause``, the reports before the colon."""
    report = re.compile(r"#\d+|conversion|consecutive calls")
    unnamed = [
        name
        for name, told in reports_tested().items()
        if not report.search(told.partition(": ")[0]) or not told.partition(": ")[2]
    ]
    assert unnamed == []
    assert "test_m4_stop_token_trained_once" in reports_tested()
