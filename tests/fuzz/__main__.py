"""``python -m v6t.tests.fuzz --inputs 100000 --jobs 2``: the long attack, with its figures."""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections import Counter
from multiprocessing import get_context

from .attack import BATCH, LARGE_MIB, SHARES, SLOW_S, batch
from .kept import originals


def main() -> int:
    """Run the attack, and print figures as they come."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--first", type=int, default=1, help="seed of the first batch")
    given_ = parser.parse_args()
    shares = {kind: share for kind, (_, share) in SHARES.items()}
    jobs = []
    for kind, share in shares.items():
        left, number = round(given_.inputs * share), given_.first
        while left > 0:
            jobs.append((kind, number, min(BATCH, left)))
            left, number = left - BATCH, number + 1
    originals()  # once for all processes
    gc.freeze()  # what is loaded stays: no collection looks at it again
    began, total, wrong = time.monotonic(), 0, 0
    slowest = peak = 0.0
    statuses: Counter[int] = Counter()
    with get_context("fork").Pool(given_.jobs, maxtasksperchild=20) as pool:
        for found in pool.imap_unordered(batch, jobs):
            total += found["inputs"]
            statuses += found["statuses"]
            slowest, peak = max(slowest, found["slowest"]), max(peak, found["peak"])
            for trouble in found["troubles"]:
                wrong += 1
                print(json.dumps([found["kind"], *trouble]), flush=True)
            print(
                f"{total} inputs, {time.monotonic() - began:.0f} s, statuses {dict(sorted(statuses.items()))}, "
                f"slowest {slowest:.2f} s, most memory {peak:.0f} MiB, {wrong} troubles",
                file=sys.stderr, flush=True,
            )  # fmt: skip
    return int(wrong > 0 or slowest > SLOW_S or peak > LARGE_MIB)


if __name__ == "__main__":
    sys.exit(main())
