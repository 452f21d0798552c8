"""Telemetry of a Linux device, each reading from one cheap command."""

import re
from collections.abc import Mapping
from itertools import pairwise

from v6t.drivers.duts.readings import LossReason, Reading

_SOFTNET_ROW = re.compile(r"[0-9a-f]{8}(\s+[0-9a-f]{8}){2,}")
_PERF_EVENT_LINE = r"(?m)^([\d.]+),[^,\n]*,(?:\w+/)?(cycles|instructions)(?:[:/][^,\n]*)?,"
PERF_DURATION_S = 0.2  # duration of a measurement by ``perf stat``
PERF_COMMAND = (
    "command -v perf >/dev/null && "
    f"perf stat -a -x, -e cycles,instructions sleep {PERF_DURATION_S} 2>&1; true"
)
LINK_LOSS_REASONS = {"[rt]x[.](errors|dropped|overrun|missed)": LossReason.QUEUE}


def make_readings(*ports: str) -> dict[str, Reading]:
    """Return readings of cores, softnet, interface drops and processor counters."""
    command, losses = "cat /proc/net/softnet_stat", {"dropped": LossReason.QUEUE}
    frames = "dropped frames and exhausted budgets of all cores (`/proc/net/softnet_stat`)"
    events = "cycles and instructions per second of all cores, where the processor counts them"
    return {
        "cpu": make_core_reading(),
        "softnet": Reading(command, parse_softnet, frames, losses),
        "perf": Reading(PERF_COMMAND, parse_perf, events, duration_s=PERF_DURATION_S),
        **{f"link {port}": make_link_reading(port) for port in ports},
    }


def make_core_reading(*, polls: bool = False) -> Reading:
    """Return a reading of the CPU time of each core."""
    ticks = "ticks of each core: idle with iowait, softirq with irq, steal, total (`/proc/stat`)"
    return Reading("cat /proc/stat", parse_cpu_ticks, ticks, polls=polls)


def make_link_reading(port: str, description: str = "") -> Reading:
    """Return a reading of the packets and drops of an interface."""
    words = "packets, errors, dropped, missed and overrun frames of the interface, by direction"
    means = f"{words}; {description}" if description else words
    return Reading(f"ip -s -o link show dev {port}", parse_link, means, LINK_LOSS_REASONS)


def make_process_reading(pid_file: str) -> Reading:
    """Return a reading of the run and wait times of a process's threads, and of its CPU quota."""
    return Reading(
        f"p=$(cat {pid_file}) || exit 0; "
        "for t in $(for q in $p $(ps -o pid= -g $p 2>/dev/null); do echo /proc/$q/task/*; done); do "
        'echo "${t##*/} $(cat $t/schedstat 2>/dev/null)"; done; '
        "while IFS=: read -r n kind path; do case ,$kind, in ,,) d=;; *,cpu,*) d=/$kind;; *) continue;; "
        "esac; cat /sys/fs/cgroup$d$path/cpu.stat; done </proc/$p/cgroup; true",
        parse_schedstat,
        "run and wait times of the threads of the process and its children [ns] (`schedstat`); total and "
        "throttled periods of the cgroup's CPU quota (`cpu.stat`)",
    )


def parse_schedstat(text: str) -> Mapping[str, float]:
    """Parse the run and wait times of threads, and the total and throttled periods of the CPU quota."""
    quota = re.findall(r"^nr_(periods|throttled) (\d+)$", text, re.MULTILINE)
    figures = {f"quota.{name}": float(count) for name, count in quota}
    for thread, run, wait in re.findall(r"^(\d+) (\d+) (\d+) \d+$", text, re.MULTILINE):
        figures |= {f"{thread}.run_ns": float(run), f"{thread}.wait_ns": float(wait)}
    return figures


def parse_perf(text: str) -> Mapping[str, float]:
    """Parse ``perf stat -x,`` output into events per second, summed over all types of cores."""
    figures: dict[str, float] = {}
    for count, event in re.findall(_PERF_EVENT_LINE, text):
        name = f"{event}_per_s"
        figures[name] = figures.get(name, 0.0) + float(count) / PERF_DURATION_S
    return figures


def parse_cpu_ticks(text: str) -> Mapping[str, float]:
    """Parse the ticks of each core in ``/proc/stat``, by names such as ``cpu0.idle``."""
    figures: dict[str, float] = {}
    for core, words in re.findall(r"^(cpu\d+) (.*)$", text, re.MULTILINE):
        ticks = [*map(float, words.split()), *(0.0,) * 8][:8]
        _user, _nice, _system, idle, iowait, irq, softirq, steal = ticks
        figures |= {f"{core}.idle": idle + iowait, f"{core}.softirq": softirq + irq}
        figures |= {f"{core}.steal": steal, f"{core}.total": sum(ticks)}
    return figures


def parse_softnet(text: str) -> Mapping[str, float]:
    """Parse the dropped frames and exhausted budgets of all cores in ``softnet_stat``."""
    rows = [line.split() for line in text.splitlines() if _SOFTNET_ROW.fullmatch(line.strip())]
    columns = {"dropped": 1, "squeezed": 2} if rows else {}
    return {name: float(sum(int(row[n], 16) for row in rows)) for name, n in columns.items()}


def parse_link(text: str) -> Mapping[str, float]:
    r"""Parse the packet and drop counters of ``ip -s -o link``, which joins lines by backslashes."""
    counted = ("packets", "errors", "dropped", "overrun", "missed")
    return {
        f"{head[0][:2].lower()}.{name}": float(value)
        for head, values in pairwise(line.split() for line in text.split("\\"))
        if head[:1] in (["RX:"], ["TX:"])
        for name, value in zip(head[1:], values, strict=False)
        if name in counted and value.isdigit()
    }
