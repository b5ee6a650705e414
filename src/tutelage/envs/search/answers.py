"""Scores of an answer against gold answers, with the usual normalisation.

Out: exact match and token F1, the maximum over the gold answers. Source of both: the evaluation of SQuAD and HotpotQA.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Final

_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_ARTICLES: Final = re.compile(r"\b(?:a|an|the)\b")

CLOSED_ANSWERS: Final = ("yes", "no", "noanswer")
"""Answers that share tokens with nothing but themselves."""


def normalise(text: str) -> str:
    """Lower case, without ASCII punctuation, without the words a, an, the, with single spaces; in this order.

    Example: ``The Los-Angeles!`` -> ``losangeles``
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, golden_answers: Sequence[str]) -> float:
    """1.0 if the prediction equals a gold answer after normalisation, else 0.0. An empty one equals nothing."""
    normal = normalise(prediction)
    return float(bool(normal) and any(normal == normalise(gold) for gold in golden_answers))


def f1(prediction: str, golden_answers: Sequence[str]) -> float:
    """Harmonic mean of the precision and recall of tokens, the best over the gold answers.

    Example: ``Los Angeles California`` against ``Los Angeles``: precision 2/3, recall 1, F1 0.8
    """
    normal = normalise(prediction)
    return max((_f1(normal, normalise(gold)) for gold in golden_answers), default=0.0)


def _f1(prediction: str, gold: str) -> float:
    if prediction != gold and (prediction in CLOSED_ANSWERS or gold in CLOSED_ANSWERS):
        return 0.0
    predicted, wanted = prediction.split(), gold.split()
    common = sum((Counter(predicted) & Counter(wanted)).values())
    if common == 0:
        return 0.0
    # 2 p r / (p + r) with p = common / predicted and r = common / wanted; without rounding on the way.
    return 2 * common / (len(predicted) + len(wanted))


SCORES: Final = {"em": exact_match, "f1": f1}
"""Name in task settings -> score in [0, 1]."""
