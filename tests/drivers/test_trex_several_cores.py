"""A real TRex with several data path cores over memif, on any number of CPUs.

TRex needs a CPU for each thread. With fewer, a preloaded library reports more CPUs and lets threads share them.
That is slow, so these tests ignore times and verdicts.
"""

import json
import shutil
import subprocess
from dataclasses import replace

import pytest
from v6t.tests.needs import needs_lab, needs_trex
from v6t.trials.trial import DelayRequest

from .lab_testers import open_tester

pytestmark = [
    pytest.mark.lab,
    pytest.mark.slow,
    pytest.mark.trex,
    needs_lab,
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
    needs_trex,
]

MORE_CPUS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

static int there(void) { return (int)sysconf(_SC_NPROCESSORS_ONLN); }

static const char *folded(const char *path, char *room, size_t size)
{
    int cpu, end = 0;
    if (sscanf(path, "/sys/devices/system/cpu/cpu%d/%n", &cpu, &end) < 1 || !end || cpu >= 16)
        return path;
    snprintf(room, size, "/sys/devices/system/cpu/cpu%d/%s", cpu % there(), path + end);
    return room;
}

int access(const char *path, int mode)
{
    int (*real)(const char *, int) = dlsym(RTLD_NEXT, "access");
    char room[256];
    return real(folded(path, room, sizeof room), mode);
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
    char room[256];
    return real(folded(path, room, sizeof room), mode);
}

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set)
{
    int (*real)(pthread_t, size_t, const cpu_set_t *) =
        dlsym(RTLD_NEXT, "pthread_setaffinity_np");
    cpu_set_t mine;
    CPU_ZERO(&mine);
    for (size_t cpu = 0; cpu < 8 * size && cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET_S(cpu, size, set)) CPU_SET(cpu % there(), &mine);
    return real(thread, sizeof mine, &mine);
}
"""


@pytest.fixture
def more_cpus(tmp_path, monkeypatch):
    source, library = tmp_path / "more_cpus.c", tmp_path / "more_cpus.so"
    source.write_text(MORE_CPUS)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", library, source, "-ldl", "-lpthread"], check=True
    )
    monkeypatch.setenv("LD_PRELOAD", str(library))


def measure_sent(tester, asked):
    """Repeat a trial until all frames are sent; a busy machine may delay some."""
    for _ in range(5):
        result = tester.measure(asked)
        if all(d.count_frames("sent") == asked.frames for d in result.directions.values()):
            break
    assert (result.tester["counting"], result.tester["timed"]) == ("ports", "tagged frames")
    for counted in result.directions.values():
        assert counted.count_frames("required") == counted.count_frames("received") == asked.frames
        assert counted.checked == counted.matched > 50
    for way, seen in result.tester["stamped"].items():
        assert way in result.directions
        assert 50 < seen["captured"] <= seen["received"]
    return result


def test_every_core_sends_its_share_and_samples_are_compared(more_cpus):
    cores = 3
    ends = "role=client,socket=/run/v6t-cores.sock,socket-abstract=no,rsize=13"
    memif = [f"--vdev=net_memif{n},id={n},{ends}" for n in (0, 1)]
    options = {
        "cores": str(cores),
        "core_list": str(list(range(cores + 2))),
        "interfaces": json.dumps(memif),
    }
    with open_tester("trex", loopback=True, options=options) as (tester, trial):
        assert tester.describe()["data_path_cores"] == cores
        slow = replace(trial, rate_fps=500.0, duration_s=4.0, residual_wait_s=1.0)
        for mode in ("forward", "bidirectional"):
            measure_sent(tester, replace(slow, mode=mode))
        check_delays(tester, slow, cores)


def check_delays(tester, trial, cores):
    """Check the delays of a stream stamped by one core while others send the load."""
    assert tester.capabilities == {"tags", "every-frame"}
    answers = []
    ask = tester.attachment.ask
    tester.attachment.ask = lambda op, **a: (answers.append(ask(op, **a)), answers[-1])[1]
    for request, frames in (
        (DelayRequest(tags=200, first_tag_s=1.0), 200),
        (DelayRequest(), 2000 // cores),
    ):
        result = measure_sent(tester, replace(trial, delays=request))
        groups = next(a["groups"] for a in reversed(answers) if isinstance(a, dict))
        least_us = {group["min_delay_us"] for group in groups.values()}
        for counted in result.directions.values():
            (delays,) = counted.delays.values()
            assert (delays.frames, delays.lost) == (frames, 0)
            assert delays.minimum_ns / 1000 in least_us
            assert delays.maximum_ns < 5e9
            assert counted.timed_of == "load"
            # every seventh of 1,500 frames from the first tag
            part = 1 / 7 if request.tags else 1 / cores
            assert counted.timed_share == pytest.approx(part, rel=0.02)
