"""Settings for all tests, and their distribution to the workers of pytest-xdist."""

import gc
import os
import tempfile

import pytest
from hypothesis import settings

# failures are reproducible
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
os.environ.setdefault("V6T_REPORT", "0")

MEMORY_DIR, MIN_FREE_OCTETS = "/dev/shm", 4 << 30


def use_memory_for_temporary_files() -> None:
    """Set TMPDIR to a file system in memory, if there is a large one.

    v6t syncs a journal after each trial; on a disk, tests would spend a third of their time waiting.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY_DIR, os.W_OK):
        return
    system = os.statvfs(MEMORY_DIR)
    large = system.f_bavail * system.f_frsize >= MIN_FREE_OCTETS
    if large and not system.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = MEMORY_DIR
        tempfile.tempdir = None


use_memory_for_temporary_files()

# collection creates thousands of objects, none of them garbage
gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    """Strip the xdist group from the names of the tests that failed last.

    Without this, ``--last-failed`` would repeat only tests without a group, and forget the rest.
    """
    failed = config.pluginmanager.get_plugin("lfplugin")
    if failed is not None:
        failed.lastfailed = {
            n.rpartition("@tests")[0] or n: f for n, f in failed.lastfailed.items()
        }


def pytest_collection_finish() -> None:
    """Exempt the collected tests from garbage collection, because they live to the end."""
    gc.freeze()
    gc.set_threshold(250_000, 20, 20)  # the thresholds of v6t itself
    gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep tests that share a fixture of their module or the session on one worker."""
    if isinstance(item, pytest.Function):
        made = [found[-1] for found in item._fixtureinfo.name2fixturedefs.values()]
        shared = [
            item.nodeid.partition("::")[0] if f.scope == "module" else f.baseid
            for f in made
            if f.scope in ("module", "session") and f.baseid
        ]
        if shared:
            item.add_marker(pytest.mark.xdist_group(min(shared)))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Alternate tests that wait for devices with tests that compute.

    In file order, all workers would wait at one time and compute at another. Groups that stay on one
    worker come first: a long group that starts late would delay the end of the whole run.
    """
    if not hasattr(config, "workerinput"):
        return
    units: dict[str, list[pytest.Item]] = {}
    for item in items:
        group = item.get_closest_marker("xdist_group")
        units.setdefault(group.args[0] if group else item.nodeid, []).append(item)
    places: dict[int, tuple[float, int]] = {}
    for waits in (True, False):
        kind = [u for u in units.values() if bool(u[0].get_closest_marker("lab")) is waits]
        kind.sort(key=len, reverse=True)
        for number, unit in enumerate(kind):
            for item in unit:
                places[id(item)] = ((number + 0.5) / len(kind), waits)
    items.sort(key=lambda item: places[id(item)])
