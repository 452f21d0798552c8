"""Real testers in the lab with loaded streams, and trials that are repeated on a busy machine."""

from contextlib import closing, contextmanager
from dataclasses import replace

import numpy as np
import pytest
from v6t.core.config.resolve import resolve_setup
from v6t.core.runs.bench import compile_directions, make_tester
from v6t.drivers.oracle.replay import make_frames
from v6t.packets import trailer
from v6t.profiles.expand import Expander
from v6t.tests.needs import needs_lab, needs_trex
from v6t.trials.trial import Trial
from v6t.trials.verdict import assess_trial

TRIES = 10
REAL = [pytest.param("embedded", marks=[pytest.mark.lab, needs_lab]),
        pytest.param("trex", marks=[pytest.mark.trex, needs_trex, needs_lab])]  # fmt: skip


def make_tester_setup(kind, plugin="mape-br", testbed=None, options=None, **flags):
    """Return the setup of a run with a tester of the lab."""
    lab = {"lab": "true"} if kind == "trex" else {}
    run = {"plugin": plugin, "tester": kind, "tester_options": lab | (options or {})}
    return resolve_setup(testbed=testbed, **run, **flags)


def compile_plugin(plugin="mape-br", size=104, **params):
    """Return a technology and its streams of a frame size."""
    technology = resolve_setup(plugin=plugin, tester="sim", params=params).technology
    return technology, compile_directions(technology, technology.make_frame_pair(size), 1)


def make_stamped_frames(stream, numbers, nonce=7, times_ns=0):
    """Return frames of a stream with these sequence numbers."""
    frames = make_frames(Expander(stream), np.array(numbers))
    trailer.stamp(frames, stream.checksum, seq=np.array(numbers), stream_id=stream.stream_id,
                  nonce=nonce, time_ns=times_ns)  # fmt: skip
    return frames


@contextmanager
def open_tester(kind, plugin="mape-br", size=104, *, loopback=False, **run):
    """Yield an open tester with streams, and a trial of one second in both directions."""
    setup = make_tester_setup(kind, plugin, **run)
    with closing(make_tester(setup, loopback=loopback)) as tester:
        tester.open()
        yield tester, load(tester, setup, size)


def load(tester, setup, size, vary=lambda traffic: traffic):
    """Load the streams of a technology; return a trial of one second."""
    sizes = setup.technology.make_frame_pair(size)
    streams = compile_directions(setup.technology, sizes, setup.settings.seed, vary)
    tester.load(streams, setup.oracle)
    return Trial("throughput", "t", sizes.ipv6, sizes.ipv4, "bidirectional", 3000.0, 1.0, 0.4, 0.1)


def measure_passed(tester, trial, *, tolerance=1.2, is_good=lambda result: True, **changes):
    """Repeat a trial until it passes; ``changes`` replace fields of the trial."""
    trial = replace(trial, **changes)
    for _ in range(TRIES):
        result = tester.measure(trial)
        verdict = assess_trial(trial, result, sending_time_tolerance=tolerance)
        if verdict.passed and is_good(result):
            return result
    pytest.fail(f"{verdict.reasons} {result.faults}")


def write_testbed(directory, text):
    path = directory / "bed.yaml"
    path.write_text(text)
    return path
