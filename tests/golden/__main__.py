"""Compare all cases with the stored results, or store new ones: ``python -m v6t.tests.golden [--write]``."""

import argparse
import concurrent.futures
import os
import sys
import time

from v6t.base.errors import EnvironmentLacking
from v6t.tests.golden.cases import compute, list_cases
from v6t.tests.golden.store import Parts, list_differences, load, save, tokenize


def compute_case(number: int) -> tuple[Parts | None, float]:
    """Return the parts of the case with this number, or None if it cannot run here, and the time in seconds."""
    start_s = time.monotonic()
    try:
        parts: Parts | None = compute(list(list_cases())[number])
    except EnvironmentLacking:
        parts = None
    return parts, time.monotonic() - start_s


def main() -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m v6t.tests.golden", description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the results")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains TEXT")
    parser.add_argument("--lab", action="store_true", help="also audit devices in namespaces")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--times", action="store_true", help="print the time of each case")
    options = parser.parse_args()
    os.environ["V6T_REPORT"] = "0"
    cases = [(n, case) for n, case in enumerate(list_cases()) if options.lab or not case.in_lab]
    chosen = [(n, case) for n, case in cases if options.only in f"{case.family} {case.name}"]
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        computed = list(pool.map(compute_case, [number for number, _ in chosen]))
    pairs = zip(chosen, computed, strict=True)
    results = {(case.family, case.name): result for (_, case), result in pairs}
    if options.times:
        slowest = sorted(results.items(), key=lambda item: -item[1][1])[:40]
        for (family, name), (_, seconds) in slowest:
            print(f"{seconds:7.2f} s  {family} {name}")
    by_case = {key: parts for key, (parts, _) in results.items() if parts is not None}
    return write(by_case) if options.write else compare(by_case)


def write(results: dict[tuple[str, str], Parts]) -> int:
    """Store results, keep those of other cases, and delete those of cases that no longer exist."""
    for family in sorted({case.family for case in list_cases()}):
        names = {case.name for case in list_cases() if case.family == family}
        stored = {name: parts for name, parts in load(family).items() if name in names}
        fresh = {key[1]: tokenize(parts) for key, parts in results.items() if key[0] == family}
        save(family, stored | fresh)
    print(f"{len(results)} cases stored")
    return 0


def compare(results: dict[tuple[str, str], Parts]) -> int:
    """Print the differences and return the exit status."""
    differing = 0
    for (family, name), parts in results.items():
        messages = list_differences(load(family).get(name, {}), parts)
        differing += bool(messages)
        for message in messages:
            print(f"{family} {name}, {message}")
    print(f"{differing} of {len(results)} cases differ")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
