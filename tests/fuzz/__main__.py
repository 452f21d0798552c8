"""Fuzz v6t: ``python -m v6t.tests.fuzz --inputs 100000 --jobs 2``."""

import argparse
import gc
import json
import sys
import time
from collections import Counter
from multiprocessing import get_context

from .batch import BATCH_SIZE, MAX_MIB, MAX_SECONDS, SHARES, run_batch
from .finished_runs import make_finished_runs


def main() -> int:
    """Execute the inputs in batches, and print each problem and the totals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--first", type=int, default=1, help="seed of the first batch")
    options = parser.parse_args()
    shares = {kind: share for kind, (_, share) in SHARES.items()}
    jobs = []
    for kind, share in shares.items():
        remaining, number = round(options.inputs * share), options.first
        while remaining > 0:
            jobs.append((kind, number, min(BATCH_SIZE, remaining)))
            remaining, number = remaining - BATCH_SIZE, number + 1
    make_finished_runs()  # inherited by all workers
    gc.freeze()  # loaded objects live to the end
    start, total, problem_count = time.monotonic(), 0, 0
    slowest = peak = 0.0
    statuses: Counter[int] = Counter()
    with get_context("fork").Pool(options.jobs, maxtasksperchild=20) as pool:
        for result in pool.imap_unordered(run_batch, jobs):
            total += result["inputs"]
            statuses += result["statuses"]
            slowest, peak = max(slowest, result["slowest"]), max(peak, result["peak"])
            for problem in result["problems"]:
                problem_count += 1
                print(json.dumps([result["kind"], *problem]), flush=True)
            print(
                f"{total} inputs, {time.monotonic() - start:.0f} s, statuses {dict(sorted(statuses.items()))}, "
                f"slowest {slowest:.2f} s, peak memory {peak:.0f} MiB, {problem_count} problems",
                file=sys.stderr, flush=True,
            )  # fmt: skip
    return int(problem_count > 0 or slowest > MAX_SECONDS or peak > MAX_MIB)


if __name__ == "__main__":
    sys.exit(main())
