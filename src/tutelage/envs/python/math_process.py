"""The process that compares mathematical answers. In: lines ``["key", "answer"]``. Out: ``true``, ``false`` or ``null``."""

from __future__ import annotations

import json
import resource
import sys
from typing import Final

MEMORY_BYTES: Final = 4 << 30
SECONDS: Final = 5
"""For reading an answer, and for one comparison."""


def main() -> None:
    from math_verify import parse, verify

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    print("ready", flush=True)
    for line in sys.stdin:
        key, answer = json.loads(line)
        try:
            found = parse(_marked(answer), parsing_timeout=SECONDS)
            reply = verify(parse(_marked(key)), found, timeout_seconds=SECONDS) if found else None
        except MemoryError:
            reply = False
        print(json.dumps(reply), flush=True)


def _marked(text: str) -> str:
    """Mathematics is found between dollar signs; an answer is all mathematics."""
    return text if "$" in text else f"${text}$"


if __name__ == "__main__":
    main()
