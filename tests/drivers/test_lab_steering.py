"""Receive packet steering on the interfaces of the lab and no others."""

import os
from contextlib import closing

import pytest
from v6t.drivers.lab.namespaces import Lab

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="the kernel lets root alone steer"),
]
QUEUES = "cd /sys/class/net; for n in *; do echo $n $(cat $n/queues/rx-*/rps_cpus); done"


def read_masks(holder):
    status, output = holder.ask("run", command=["sh", "-c", QUEUES])
    assert status == 0
    return {
        words[0]: {int(m.replace(",", ""), 16) for m in words[1:]}
        for words in map(str.split, output.splitlines())
    }


def test_only_lab_cables_are_steered():
    here = set(os.listdir("/sys/class/net"))
    with closing(Lab(1500, 1500)) as lab:
        steered, why = lab.steer([0])
        assert (len(steered), why) == (4, "")
        for holder in (lab.tester, lab.device):
            assert read_masks(holder) == {"left": {1}, "right": {1}, "lo": {0}}
        assert set(os.listdir("/sys/class/net")) == here  # the /sys of other processes is unchanged


def test_existing_steering_is_kept():
    with closing(Lab(1500, 1500)) as lab:
        lab.steer([0])
        last = max(os.sched_getaffinity(0))
        assert lab.steer([last]) == ([], "")
        assert read_masks(lab.device)["left"] == {1}


def test_missing_cpu_is_reported():
    with closing(Lab(1500, 1500)) as lab:
        steered, why = lab.steer([1000])
        assert steered == [] and why
        assert read_masks(lab.tester)["left"] == {0}
