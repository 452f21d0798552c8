"""A run as OpenMetrics text (version 1.0.0), for whoever keeps results in a time series database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from v6t.analysis.presentation import Presentations
from v6t.analysis.report.campaign import figures_of
from v6t.analysis.rundata import RunData

STATISTICS = ("median", "p1", "p99")


def to_openmetrics(data: RunData, presentations: Presentations) -> str:
    """Write a gauge for the figures of all records, by their labels, and the counts of trials.

    Undefined figures are left out: NaN would be a value.
    """
    run = {
        "run": data.name,
        "plugin": str(data.config["plugin"]),
        "device": str(data.config["dut"]["driver"]),
        "tester": str(data.config["tester"]["kind"]),
        "label": str(data.results.get("label") or ""),
    }
    values, trials, invalid = [], [], []
    for record in data.records:
        point = {
            **run,
            "benchmark": record.benchmark,
            "direction": record.direction,
            "ipv6_octets": str(record.frame_sizes.ipv6),
            "ipv4_octets": str(record.frame_sizes.ipv4),
        }
        trials.append(_sample("v6t_trials", point, len(record.trials)))
        invalid.append(_sample("v6t_invalid_trials", point, len(record.invalid_trials)))
        for figure in figures_of(record, presentations) if record.measured else ():
            labels = {
                **point,
                "figure": figure["figure"],
                "unit": figure["unit"] or "",
                "convention": figure["convention"] or "",
                "limited": "tester or medium" if figure["limited"] else "",
            }
            values += [
                _sample("v6t_result", {**labels, "statistic": s}, figure[s])
                for s in STATISTICS
                if figure[s] is not None
            ]
    lines = [
        *_family("v6t_result", "What a run found, in the unit of the label unit.", values),
        *_family("v6t_trials", "Trials behind a point, invalid ones included.", trials),
        *_family("v6t_invalid_trials", "Trials in which the tester faltered.", invalid),
        "# EOF",
    ]
    return "\n".join(lines) + "\n"


def _family(name: str, text: str, samples: Iterable[str]) -> list[str]:
    return [f"# TYPE {name} gauge", f"# HELP {name} {text}", *dict.fromkeys(samples)]


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    label_text = ",".join(f'{key}="{text.translate(escapes)}"' for key, text in labels.items())
    return f"{name}{{{label_text}}} {value:.17g}"
