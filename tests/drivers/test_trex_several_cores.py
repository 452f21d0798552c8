"""A real TRex with several data path cores over memif, on any number of CPUs.

TRex needs a CPU for each thread. With fewer, a preloaded library reports more CPUs and lets threads share them.
That is slow, so these tests ignore times and verdicts.
"""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

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


CORES = 3


@pytest.fixture
def more_cpus(tmp_path, monkeypatch):
    source, library = Path(__file__).with_name("more_cpus.c"), tmp_path / "more_cpus.so"
    command = ["cc", "-shared", "-fPIC", "-o", library, source, "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))


def measure_sent(tester, trial):
    """Repeat a trial until all frames are sent; a busy machine may delay some."""
    for _ in range(5):
        result = tester.measure(trial)
        if all(d.count_frames("sent") == trial.frames for d in result.directions.values()):
            break
    assert (result.tester["counting"], result.tester["timed"]) == ("ports", "tagged frames")
    for counted in result.directions.values():
        assert counted.count_frames("required") == counted.count_frames("received") == trial.frames
        assert counted.checked == counted.matched > 50
    for direction, stamped in result.tester["stamped"].items():
        assert direction in result.directions
        assert 50 < stamped["captured"] <= stamped["received"]
    return result


@pytest.fixture
def lab(more_cpus):
    """Provide a tester whose cores are connected by memif, and a slow trial."""
    ends = "role=client,socket=/run/v6t-cores.sock,socket-abstract=no,rsize=13"
    memif = [f"--vdev=net_memif{n},id={n},{ends}" for n in (0, 1)]
    cores = {"cores": str(CORES), "core_list": str(list(range(CORES + 2)))}
    options = {**cores, "interfaces": json.dumps(memif)}
    with open_tester("trex", loopback=True, options=options) as (tester, trial):
        yield tester, replace(trial, rate_fps=500.0, duration_s=4.0, residual_wait_s=1.0)


def test_every_core_sends_its_share_and_one_stamps_frames(lab, monkeypatch):
    tester, trial = lab
    assert tester.describe()["data_path_cores"] == CORES
    assert tester.capabilities == {"tags", "every-frame"}
    for mode in ("forward", "bidirectional"):
        measure_sent(tester, replace(trial, mode=mode))
    answers, ask = [], tester.attachment.ask

    def record(op, **arguments):
        answers.append(ask(op, **arguments))
        return answers[-1]

    monkeypatch.setattr(tester.attachment, "ask", record)
    # every seventh of 1,500 frames from the first tag, or those of one core
    for request, frames, share in (
        (DelayRequest(tags=200, first_tag_s=1.0), 200, 1 / 7),
        (DelayRequest(), 2000 // CORES, 1 / CORES),
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
            assert counted.timed_share == pytest.approx(share, rel=0.02)
