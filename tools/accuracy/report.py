"""Report of an accuracy study."""

from collections.abc import Iterator, Sequence

from v6t.analysis.blocks import Block, FactTable, Paragraph, ReportDocument, ReportSection
from v6t.analysis.sheet import Column, format_count, make_text_columns, make_text_table
from v6t.tools.accuracy.record import AccuracyRecord, DelayRow, PaceRow

BUSY_LOAD = 0.5
"""Load average per CPU that shows other work on the machine."""
DELAY_HEADINGS = (
    *make_text_columns("added delay"), "fps", *make_text_columns("timed"),
    "actual\nmin", "actual\nmedian", "actual\nP99.9",
    "error\nmin", "bias\n(median)", Column("error\nP1", wide=True),
    Column("error\nP99", wide=True), "error\nP99.9", "error\nPDV",
    "error\nIPDV",
)  # fmt: skip
PACE_HEADINGS = (
    "fps", "frames", Column("trials", wide=True), "rate, ppm\nmedian", "min", "max",
    "sending time, us\nmedian", "min", "max", Column("reported\n± us", wide=True),
    "late, us\nmedian", "P99", "max",
)  # fmt: skip
COUNT_HEADINGS = (
    *make_text_columns("impairment", "every"), "fps", "frames", "actual", "measured", *make_text_columns(""),
)  # fmt: skip
CAPACITY_HEADINGS = (
    "tokens/s", "depth", "buffer", Column("trial s", wide=True), "expected fps", "measured fps", "error",
    Column("resolution", wide=True),
)  # fmt: skip


def make_document(record: AccuracyRecord) -> ReportDocument:
    """Return the report of a record."""
    return ReportDocument(
        f"Accuracy of the {record.name} tester",
        f"v6t {record.version}, {record.made}",
        [
            ReportSection("Conditions", "subject", list(_describe_conditions(record))),
            ReportSection("Delay", "delay", list(_describe_delays(record))),
            ReportSection("Rate and sending time", "rate", list(_describe_pace(record))),
            ReportSection("Counting", "counting", list(_describe_counts(record))),
            ReportSection("Capacity", "capacity", list(_describe_capacity(record))),
        ],
    )


def _describe_conditions(record: AccuracyRecord) -> Iterator[Block]:
    machine = record.machine
    options = ", ".join(f"{k}={v}" for k, v in sorted(record.options.items())) or "none"
    yield FactTable(
        [
            ("Tester", f"{record.name}, options: {options}"),
            ("Machine", f"{machine.get('processor')}, {machine.get('cores')} cores"),
            ("Kernel", f"{machine.get('kernel')}, clock source {machine.get('clock_source')}"),
            ("v6t", f"{record.version}, commit {record.source_commit or 'unknown'}"),
            ("Made", record.made),
            ("Load average", f"{record.load[0]} before, {record.load[-1]} after"),
            ("Traffic", record.traffic),
        ]
    )
    if record.load[0] > BUSY_LOAD * (machine.get("cores") or 1):
        yield Paragraph("The machine was busy with other work; errors are larger then.", "warning")
    yield Paragraph(
        "A known device stands between the tester's ports. The kernel records when each frame arrives at "
        "the device and when it leaves. An error is the tester's figure minus that of these records. It "
        "contains all that happens outside the device: time stamps, sending, receiving."
    )


def _describe_delays(record: AccuracyRecord) -> Iterator[Block]:
    if not record.delays:
        return
    for rate in sorted({row.rate_fps for row in record.delays}):
        rows = [row for row in record.delays if row.rate_fps == rate]
        errors = [error for row in rows for error in row.errors.values()]
        biases = sorted(row.bias for row in rows)
        ipdv = [abs(error) for row in rows if (error := row.ipdv_error) is not None]
        yield Paragraph(
            f"At {rate:,.0f} fps: bias of the median {biases[len(biases) // 2]:+,.1f} us, errors of the "
            f"quantiles from {min(errors):+,.1f} to {max(errors):+,.1f} us; largest "
            f"error of a median {max(map(abs, biases)):,.1f} us, "
            f"PDV {max(abs(row.pdv_error) for row in rows):,.1f} us"
            + (f", IPDV {max(ipdv):,.1f} us." if ipdv else ".")
        )
    yield make_text_table(
        "One-way delays in microseconds: actual values, and errors of the measured ones",
        DELAY_HEADINGS,
        [_make_delay_cells(row) for row in record.delays],
    )


def _make_delay_cells(row: DelayRow) -> list[str]:
    errors, ipdv = row.errors, row.ipdv_error
    return [
        row.behaviour,
        format_count(row.rate_fps),
        "tags" if row.tagged else "all",
        *(f"{row.actual[name]:,.1f}" for name in ("min", "p50", "p99_9")),
        *(f"{errors[name]:+,.1f}" for name in ("min", "p50", "p1", "p99", "p99_9")),
        f"{row.pdv_error:+,.1f}",
        "" if ipdv is None else f"{ipdv:,.1f}",
    ]


def _describe_pace(record: AccuracyRecord) -> Iterator[Block]:
    yield make_text_table(
        "Errors of rate and sending time, by the kernel's clock at the device",
        PACE_HEADINGS,
        [_make_pace_cells(row) for row in record.pace],
    )
    yield Paragraph(
        "Rate: actual minus requested. Sending time: reported minus actual, which is the time from the first "
        "arrival to the last, and one interval. Late: how far frames are behind an evenly spaced stream "
        "whose earliest frame is on time."
    )


def _make_pace_cells(row: PaceRow) -> list[str]:
    return [
        format_count(row.rate_fps),
        format_count(row.frames),
        str(len(row.rate_error_ppm)),
        *_format_spread(row.rate_error_ppm),
        *_format_spread(row.sending_time_error_us),
        f"{row.reported_error_us:,.0f}",
        *(f"{row.late_us[name]:,.0f}" for name in ("p50", "p99", "max")),
    ]


def _format_spread(values: Sequence[float]) -> list[str]:
    """Format median, minimum and maximum."""
    ordered = sorted(values)
    return [f"{v:+,.0f}" for v in (ordered[len(ordered) // 2], ordered[0], ordered[-1])]


def _describe_counts(record: AccuracyRecord) -> Iterator[Block]:
    rows = [
        [row.kind, f"1 in {row.every:,}", format_count(row.rate_fps), format_count(row.frames),
         str(row.actual), *(("-", "not seen") if row.measured is None else
                            (str(row.measured), "exact" if row.exact else "WRONG"))]
        for row in record.counts
    ]  # fmt: skip
    yield make_text_table("Impaired frames counted", COUNT_HEADINGS, rows)


def _describe_capacity(record: AccuracyRecord) -> Iterator[Block]:
    rows = [
        [format_count(row.capacity_fps), str(row.depth), str(row.buffer), f"{row.duration_s:g}",
         f"{row.expected_fps:,.1f}", f"{row.measured_fps:,.1f}", f"{row.error:+.2%}",
         f"{row.resolution_fps:g}"]
        for row in record.capacity
    ]  # fmt: skip
    yield make_text_table("Throughput of token buckets", CAPACITY_HEADINGS, rows)
    yield Paragraph(
        "The expected rate is that of an evenly spaced stream of the trial's length. A sender that is late "
        "and then catches up needs a bucket as deep as its bursts, so less is found with shallower buckets."
    )
