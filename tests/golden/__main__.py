"""Compare all cases with the stored results, or store the present ones: ``python -m v6t.tests.golden [--write]``."""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import sys
import time

from v6t.base.errors import EnvironmentLacking
from v6t.tests.golden.cases import cases, compute
from v6t.tests.golden.store import Parts, differences, load, save, tokenize


def compute_at(place: int) -> tuple[Parts | None, float]:
    """Compute the case with this number; return its parts, or None if this machine lacks something."""
    began = time.monotonic()
    try:
        parts: Parts | None = compute(list(cases())[place])
    except EnvironmentLacking:
        parts = None
    return parts, time.monotonic() - began


def main() -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m v6t.tests.golden", description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the present results")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains TEXT")
    parser.add_argument("--lab", action="store_true", help="also audit devices in namespaces")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--times", action="store_true", help="print the time of each case")
    options = parser.parse_args()
    os.environ["V6T_REPORT"] = "0"
    chosen = [
        (place, case)
        for place, case in enumerate(cases())
        if options.only in f"{case.family} {case.name}" and (options.lab or not case.in_lab)
    ]
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        computed = list(pool.map(compute_at, [place for place, _ in chosen]))
    results = {
        (case.family, case.name): found for (_, case), found in zip(chosen, computed, strict=True)
    }
    if options.times:
        for (family, name), (_, seconds) in sorted(results.items(), key=lambda item: -item[1][1])[
            :40
        ]:
            print(f"{seconds:7.2f} s  {family} {name}")
    present = {key: parts for key, (parts, _) in results.items() if parts is not None}
    return write(present) if options.write else compare(present)


def write(present: dict[tuple[str, str], Parts]) -> int:
    """Store results; results of other cases stay, and those of cases that no longer exist go."""
    for family in sorted({case.family for case in cases()}):
        names = {case.name for case in cases() if case.family == family}
        stored = {name: parts for name, parts in load(family).items() if name in names}
        fresh = {name: tokenize(parts) for (of, name), parts in present.items() if of == family}
        save(family, stored | fresh)
    print(f"{len(present)} cases stored")
    return 0


def compare(present: dict[tuple[str, str], Parts]) -> int:
    """Print the differences and return the exit status."""
    differing = 0
    for (family, name), parts in present.items():
        result = differences(load(family).get(name, {}), parts)
        differing += bool(result)
        for message in result:
            print(f"{family} {name}, {message}")
    print(f"{differing} of {len(present)} cases differ")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
