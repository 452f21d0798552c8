"""Summary of the throughput of a run."""

from collections.abc import Iterator, Sequence

from v6t.analysis.blocks import Block, Paragraph
from v6t.analysis.record import RateRecord
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import (
    LIMITED_EXPLANATION,
    SIZES_HEADING,
    Column,
    format_count,
    make_table,
    mark_limited,
    pluralize,
)
from v6t.base.ethernet import GAP_OCTETS, compute_max_frame_rate_fps


def name_device(data: RunData) -> str:
    """Name the device in a title: its driver, with the version where that is known."""
    if data.has_user_device:
        return "a device configured by its user"
    name = str(data.config["dut"]["driver"])
    version = ((data.manifest.get("tester") or {}).get("device") or {}).get("version")
    device = f"{name} {version}" if isinstance(version, str) and version else name
    return f"{device} device" if name == "reference" else device


def make_title(data: RunData) -> str:
    """Make the title of a report: technology and device."""
    technology = (data.title or str(data.config["plugin"])).partition(":")[0]
    return f"{technology} on {name_device(data)}"


def summarize_throughput(data: RunData) -> Iterator[Block]:
    """Summarize the throughput in frame rates and bit rates of the links."""
    if not (sentences := write_verdict(data)):
        return
    yield Paragraph(" ".join(sentences))
    columns: Sequence[Column[RateRecord]] = (
        Column(SIZES_HEADING, lambda r: r.sizes),
        Column("direction", lambda r: r.direction, text=True),
        Column("frames/s", lambda r: mark_limited(format_count(r.median), r.limited)),
        Column("Mpps", lambda r: r.median / 1e6, ".3f"),
        Column("Gbit/s\nleft", lambda r: _list_gigabits(data, r)[0], ".3f"),
        Column("Gbit/s\nright", lambda r: _list_gigabits(data, r)[1], ".3f"),
        Column("share of\nline rate", lambda r: _compute_line_share(data, r), ".2%"),
    )
    title = "Throughput on the links (medians; per direction; with preamble and gap)"
    yield make_table(title, _select_throughputs(data), columns)


def _describe_rate(data: RunData, record: RateRecord) -> str:
    rate = mark_limited(f"{record.median / 1e6:.3f} Mpps", record.limited)
    larger = max(_list_gigabits(data, record))
    return f"{rate}, {larger:.3f} Gbit/s, {_compute_line_share(data, record):.2%} of the line rate"


def _describe_conditions(data: RunData, record: RateRecord) -> str:
    tester = "" if data.simulated else f", {data.config['tester']['kind']} tester"
    times = pluralize(record.repetitions, "repetition")
    return f"Median of {times}, trials of {data.procedure['trial_duration_s']:g} s{tester}."


def _get_octets(data: RunData, record: RateRecord) -> Sequence[float]:
    """Return the frame sizes on the left and the right link."""
    sizes = record.frame_sizes
    known: Sequence[float] | None = (data.setup.get("octets") or {}).get(str(sizes.size_or_mix))
    return known or (sizes.ipv6, sizes.ipv4)


def _compute_line_share(data: RunData, record: RateRecord) -> float:
    limit = compute_max_frame_rate_fps(data.config["line_rate_bps"], max(_get_octets(data, record)))
    return float(record.median) / limit if limit else 0.0


def _list_gigabits(data: RunData, record: RateRecord) -> list[float]:
    """Return the bit rates of the left and the right link [Gbit/s]."""
    return [record.median * (size + GAP_OCTETS) * 8 / 1e9 for size in _get_octets(data, record)]


def _format_bit_rate(rate: float) -> str:
    return f"{rate / 1e9:g} Gbit/s" if rate >= 1e9 else f"{rate / 1e6:g} Mbit/s"


def write_verdict(data: RunData) -> list[str]:
    """Return sentences about throughput, bit rates and conditions; none without a throughput."""
    records = _select_throughputs(data)
    if not records:
        return []
    directions = [r.direction for r in records]
    mode = "bidirectional" if "bidirectional" in directions else directions[0]
    shown = sorted((r for r in records if r.direction == mode), key=lambda r: r.frame_sizes.ipv6)
    first, last = shown[0], shown[-1]
    tolerated = data.procedure.get("loss_tolerance") or 0.0
    loss = f"with a loss of at most {tolerated:.4%}" if tolerated else "without loss"
    device = name_device(data).replace("reference", "The reference")
    if data.simulated or data.has_user_device:
        device = "The simulation" if data.simulated else "The device"
    rate = f"{'at least ' * first.limited}{format_count(first.median)} fps"
    left, right = first.frame_sizes.ipv6, first.frame_sizes.ipv4
    sizes = first.sizes.partition("/")[0] if left == right else first.sizes
    direction = "per direction" if mode == "bidirectional" else mode
    limits = [e for e in data.bottleneck if (e["direction"], e["rate_fps"]) == (mode, first.median)]
    unsustained = "".join(f"; {e['unsustained']}" for e in limits[:1] if e.get("unsustained"))
    ends = [first, last] if last.sizes != first.sizes else [first]
    rates = "; ".join(f"{r.sizes} octets: {_describe_rate(data, r)}" for r in ends)
    sentences = [
        f"{device} carries {rate} {direction} at {sizes} octets {loss}{unsustained}.",
        f"{rates} (per direction, of {_format_bit_rate(data.config['line_rate_bps'])}).",
    ]
    if any(r.limited for r in ends):
        sentences.append(f"* is {LIMITED_EXPLANATION}.")
    return [*sentences, _describe_conditions(data, first)]


def _select_throughputs(data: RunData) -> list[RateRecord]:
    records = (r.as_rate_record for r in data.records if r.throughput_fps is not None)
    return [record for record in records if record]
