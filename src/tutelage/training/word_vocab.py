"""A word vocabulary for a tiny student of any environment, mined from texts of its episodes.

In: the texts of episodes. Out: which words have a token, which of them may stand in for each other, and the tokenizer.
Words of the environment itself (its pages, its fixed sentences) stand in most episodes; the others name things, and a
student must copy those instead of knowing them by heart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from tutelage.envs.registry import find_environment, load_place
from tutelage.errors import ConfigError
from tutelage.rendering.role_tokens import SPECIAL_TOKENS
from tutelage.tasks.registry import load_tasks
from tutelage.training.bpe_vocab import BpeVocabulary
from tutelage.training.env_play import play_texts
from tutelage.training.turn_tokens import ROLE_TURNS, TurnTokens

if TYPE_CHECKING:
    from torch import Tensor

    from tutelage.training.student_model import StudentVocabulary

WORD: Final = re.compile(r"[A-Za-z]+")
INSIDE: Final = re.compile(r"(?<=[a-z0-9,] )[A-Za-z]+")
"""Words inside a sentence. One that has a capital there, and nearly everywhere, is a name."""

FORMS: Final = ("{}", " {}", "{c}", " {c}")
"""How a word may stand in a text: as it is, after a space, and both with a capital. Each form has a token."""

SINGLE: Final = (*(chr(code) for code in range(32, 127) if not chr(code).isalpha()), "\n", "\n\n", ". ", ", ")
"""Digits and signs: a token each, so that numbers are copied digit by digit."""


@dataclass(frozen=True, kw_only=True)
class WordVocabulary:
    """Words in lower case, most frequent first, and phrases of the environment that are one token each."""

    turns: ClassVar[TurnTokens] = ROLE_TURNS

    words: tuple[str, ...]
    open_words: frozenset[str]
    """Those that name things: the ones that stand in few of the episodes."""
    phrases: tuple[str, ...] = ()

    @property
    def tokens(self) -> tuple[str, ...]:
        """Every token that is not special and no byte, each once."""
        forms = [form for word in self.words for form in forms_of(word)]
        return tuple(dict.fromkeys([*SINGLE, *self.phrases, *forms]))

    def tokenizer(self) -> Tokenizer:
        """A lossless tokenizer: a phrase, a word with or without the space before it, a sign; bytes for all other text.

        Example: ``search[red mug]`` is `search` `[` `red` ` mug` `]`.
        """
        vocabulary: dict[str, int] = {}
        for token in (*SPECIAL_TOKENS, *(f"<0x{byte:02X}>" for byte in range(256)), *self.tokens):
            vocabulary.setdefault(token, len(vocabulary))
        # A BPE without merges: `ignore_merges` takes a piece that is a token whole, `byte_fallback` spells the others.
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True, ignore_merges=True))
        fixed = sorted(
            {*self.phrases, *(token for token in SINGLE if len(token) > 1)}, key=lambda one: (-len(one), one)
        )
        pattern = "|".join([*map(re.escape, fixed), " ?[A-Za-z]+", r"[\s\S]"])
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
        tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
        tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
        return tokenizer

    def entity_rows(self, tokenizer: Tokenizer) -> list[dict[str, Any]]:
        """Rows for `entities.json`: the forms of an open word are its bare form and its numbers 1 to 3."""
        return [
            {"id": tokenizer.token_to_id(form), "kind": "word", "type": word, "number": index or None, "group": "open"}
            for word in self.words
            if word in self.open_words
            for index, form in enumerate(forms_of(word))
        ]

    def init_embeddings(self, weight: Tensor, tokenizer: Tokenizer) -> None:
        """Embedding rows [V, D], all of one length; the forms of a word differ by a vector of the form and a little noise."""
        size = weight.shape[1]
        scale = 1.6 * size**-0.5
        weight.normal_(std=scale)
        of_form = [0.3 * torch.randn(size) for _ in FORMS]
        for word in self.words:
            of_word = torch.randn(size)
            for form, vector in zip(forms_of(word), of_form, strict=True):
                total = of_word + vector + 0.2 * torch.randn(size)
                weight[tokenizer.token_to_id(form)] = scale * total / total.std()


def vocabulary_of(
    env: str, *, tokens: Literal["words", "bpe"] = "words", num_tasks: int = 300, **options: Any
) -> StudentVocabulary:
    """The vocabulary of a new student of an environment.

    tokens: ``words`` is the environment's own vocabulary, or one of the words in random play of its first training tasks;
    ``bpe`` is a byte-level BPE of those texts, with chat turns (`BpeVocabulary`).
    options: of the environment's task set. Raises ConfigError on an unknown environment or option.
    """
    spec = find_environment(env)
    if tokens == "bpe":
        return BpeVocabulary(play_texts(load_tasks(env, "train", count=num_tasks, **options)))
    if spec.vocabulary is not None:
        own: StudentVocabulary = load_place(spec.vocabulary)()
        return own
    named: Iterable[str] | None = None if spec.open_words is None else load_place(spec.open_words)()
    return mine_vocabulary(play_texts(load_tasks(env, "train", count=num_tasks, **options)), open_words=named)


def forms_of(word: str) -> list[str]:
    """The forms of a lower-case word, in the order of `FORMS`. A word of one letter keeps its capital form: ``A``."""
    return [form.format(word, c=word.capitalize()) for form in FORMS]


def mine_vocabulary(
    episodes: Iterable[str],
    *,
    open_words: Iterable[str] | None = None,
    max_words: int = 3000,
    open_below: float = 0.2,
    max_phrases: int = 64,
) -> WordVocabulary:
    """The vocabulary of some episodes' texts.

    open_words: words in lower case that name things; they have a token even if no text has them. None: see `open_below`.
    max_words: the most frequent words only, besides those; others are spelled in bytes.
    open_below: words that stand in a smaller share of the episodes than this are open; names are so however frequent.
    max_phrases: how many stretches of closed words and signs, of those that save most tokens, become one token each.
    Raises ConfigError where there is no text.
    """
    texts = list(episodes)
    counts: Counter[str] = Counter()
    spread: Counter[str] = Counter()
    inside: set[str] = set()
    capital: Counter[str] = Counter()
    for text in texts:
        found = WORD.findall(text)
        capital.update(word.lower() for word in found if word[0].isupper())
        inside.update(word.lower() for word in INSIDE.findall(text) if word[0].isupper())
        counts.update(word.lower() for word in found)
        spread.update({word.lower() for word in found})
    if not counts:
        raise ConfigError(f"vocabulary: no word in {len(texts)} episodes; give the texts of some that were played.")
    known = frozenset(open_words or ())
    counts.update(dict.fromkeys(known, 0))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    kept = {*ranked[:max_words], *known}
    words = tuple(word for word in ranked if word in kept)
    if open_words is None:
        names = {word for word in words if word in inside and capital[word] > 0.9 * counts[word]}
        known = frozenset(word for word in words if word in names or spread[word] < open_below * len(texts))
    phrases = _phrases(texts, frozenset(words) - known, max_phrases) if max_phrases else ()
    return WordVocabulary(words=words, open_words=known, phrases=phrases)


def _phrases(texts: Sequence[str], closed: frozenset[str], limit: int) -> tuple[str, ...]:
    """Stretches of text without open words or digits, those first that save most tokens.

    Chosen one after the other: what a phrase covers is not counted again for a shorter one.
    """
    piece = re.compile(r" ?[A-Za-z]+|[0-9]+|[\s\S]")
    stretches: Counter[tuple[str, ...]] = Counter()
    for text in texts:
        run: list[str] = []
        for one in [*piece.findall(text), "0"]:
            if not one[0].isdigit() and (not one.strip().isalpha() or one.strip().lower() in closed):
                run.append(one)
                continue
            stretches[tuple(run)] += 1
            run = []
    chosen: list[str] = []
    while len(chosen) < limit:
        grams: Counter[tuple[str, ...]] = Counter()
        for stretch, count in stretches.items():
            for length in range(2, min(len(stretch), 24) + 1):
                for start in range(len(stretch) - length + 1):
                    grams[stretch[start : start + length]] += count * (length - 1)
        if not grams:
            break
        best = min(grams, key=lambda gram: (-grams[gram], gram))
        if grams[best] < 0.02 * len(texts):
            break
        chosen.append("".join(best))
        stretches = _without(stretches, best)
    return tuple(chosen)


def _without(stretches: Counter[tuple[str, ...]], gram: tuple[str, ...]) -> Counter[tuple[str, ...]]:
    """The stretches that remain when a gram is taken out of each."""
    rest: Counter[tuple[str, ...]] = Counter()
    for stretch, count in stretches.items():
        begin = 0
        at = 0
        while at <= len(stretch) - len(gram):
            if stretch[at : at + len(gram)] == gram:
                rest[stretch[begin:at]] += count
                at += len(gram)
                begin = at
            else:
                at += 1
        rest[stretch[begin:]] += count
    return Counter({stretch: count for stretch, count in rest.items() if len(stretch) > 1})
