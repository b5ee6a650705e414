"""What finds passages for a query, by name: in this process (`bm25`, `dense`) or behind a server (`http`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from tutelage.envs.search.passages import Passage

RETRIEVERS: Final = ("bm25", "http", "dense")


class Retriever(Protocol):
    """Finds passages. Same query, same passages in the same order."""

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """For each query at most k passages, the best first; none where nothing fits.

        Raises EnvError where the machinery fails for good. A failure is never told as a passage.
        """
        ...

    def close(self) -> None:
        """End waits of this user of the retriever. What many share stays usable."""
        ...
