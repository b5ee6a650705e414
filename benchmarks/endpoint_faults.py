"""5,000 requests through a server that fails by plan, in every way it can: what was lost, what was double.

    python benchmarks/endpoint_faults.py

Three kinds of request (chat, completions of token ids, log-probabilities of a prompt) meet thirteen faults. The server keeps
its own count by request id and try; the table puts it beside the client's ledger.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from machine import machine
from tutelage.testing.fault_drill import fault_drill


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--share", type=float, default=0.03, help="of all tries, for each fault")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "endpoint_faults.md")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        result = fault_drill(asked.requests, folder=folder, share=asked.share, seed=asked.seed)
        seconds = time.perf_counter() - began
    command = (
        f"python benchmarks/endpoint_faults.py --requests {asked.requests} --share {asked.share} --seed {asked.seed}"
    )
    text = "\n".join(
        [
            "# Requests to a server that fails by plan",
            "",
            f"`{command}`",
            "",
            f"{machine('httpx')}. {seconds:.1f} s, server and client in one process.",
            "",
            result.table(),
            "",
        ]
    )
    print(text)
    asked.out.write_text(text)


if __name__ == "__main__":
    main()
