"""The certificate of a tester as a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from v6t.analysis.blocks import Block, FactTable, Paragraph, ReportDocument, ReportSection
from v6t.analysis.sheet import Column, format_count, make_text_columns, make_text_table
from v6t.tools.accuracy.record import Certificate, Paced, Timed

BUSY = 0.5
"""Load average per CPU that shows other work on the machine."""


def document(certificate: Certificate) -> ReportDocument:
    """Return the certificate as a document."""
    return ReportDocument(
        f"Accuracy of the {certificate.name} tester",
        f"v6t {certificate.version}, {certificate.made}",
        [
            ReportSection("What was certified", "subject", list(_subject(certificate))),
            ReportSection("Delay", "delay", list(_delay(certificate))),
            ReportSection("Rate and sending time", "rate", list(_pace(certificate))),
            ReportSection("Counting", "counting", list(_counting(certificate))),
            ReportSection("Capacity", "capacity", list(_capacity(certificate))),
        ],
    )


def _subject(certificate: Certificate) -> Iterator[Block]:
    machine = certificate.machine
    options = ", ".join(f"{k}={v}" for k, v in sorted(certificate.options.items())) or "none"
    yield FactTable(
        [
            ("Tester", f"{certificate.name}, options: {options}"),
            ("Machine", f"{machine.get('processor')}, {machine.get('cores')} cores"),
            ("Kernel", f"{machine.get('kernel')}, clock source {machine.get('clock_source')}"),
            ("v6t", f"{certificate.version}, commit {certificate.source_commit or 'unknown'}"),
            ("Made", certificate.made),
            ("Load average", f"{certificate.load[0]} before, {certificate.load[-1]} after"),
            ("Traffic", certificate.traffic),
        ]
    )
    cores = machine.get("cores") or 1
    if certificate.load[0] > BUSY * cores:
        yield Paragraph(
            "This machine was not idle: these are the errors of the tester on a busy one.",
            "warning",
        )
    yield Paragraph(
        "A device that forwards as it is told stands between the tester's ports. The truth is the "
        "kernel's: it stamps every frame when it arrives at the device and when it leaves it. What "
        "the tester says is compared with what really happened, not with what the device was told. "
        "An error holds everything that is not in the device: stamping, sending, receiving."
    )


def _delay(certificate: Certificate) -> Iterator[Block]:
    if not certificate.timed:
        return
    for rate in sorted({row.rate for row in certificate.timed}):
        rows = [row for row in certificate.timed if row.rate == rate]
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
    yield make_text_table("One-way delays, microseconds: true, and error of what the tester reads", _HEADS,
                [_timed(row) for row in certificate.timed])  # fmt: skip


_HEADS = (
    *make_text_columns("added delay"), "fps", *make_text_columns("timed"),
    "true\nmin", "true\nmedian", "true\nP99.9",
    "error\nmin", "bias\n(median)", Column("error\nP1", wide=True),
    Column("error\nP99", wide=True), "error\nP99.9", "error\nPDV",
    "error\nIPDV",
)  # fmt: skip


def _timed(row: Timed) -> list[str]:
    errors, ipdv = row.errors, row.ipdv_error
    return [
        row.what,
        format_count(row.rate),
        "tags" if row.tagged else "all",
        *(f"{row.true[name]:,.1f}" for name in ("min", "p50", "p99_9")),
        *(f"{errors[name]:+,.1f}" for name in ("min", "p50", "p1", "p99", "p99_9")),
        f"{row.pdv_error:+,.1f}",
        "" if ipdv is None else f"{ipdv:,.1f}",
    ]


def _pace(certificate: Certificate) -> Iterator[Block]:
    yield make_text_table(
        "Rate and sending time by the kernel's clock at the device",
        ("fps", "frames", Column("trials", wide=True), "rate, ppm\nbias", "least", "most",
         "sending time\nbias, us", "least", "most", Column("tester says\n± us", wide=True),
         "late, us\nmedian", "P99", "most"),
        [_paced(row) for row in certificate.paced],
    )  # fmt: skip
    yield Paragraph(
        "Rate: true less asked, in millionths. Sending time: the tester's less the true one, which "
        "is the time from first to last arrival and one slot. Late: how far frames were behind an "
        "even stream whose earliest frame is in time."
    )


def _paced(row: Paced) -> list[str]:
    return [
        format_count(row.rate),
        format_count(row.frames),
        str(len(row.rate_ppm)),
        *_spread(row.rate_ppm),
        *_spread(row.sending_us),
        f"{row.said_error_us:,.0f}",
        *(f"{row.late_us[name]:,.0f}" for name in ("p50", "p99", "max")),
    ]


def _spread(values: Sequence[float]) -> list[str]:
    ordered = sorted(values)
    return [f"{v:+,.0f}" for v in (ordered[len(ordered) // 2], ordered[0], ordered[-1])]


def _counting(certificate: Certificate) -> Iterator[Block]:
    rows = [
        [row.kind, f"1 in {row.every:,}", format_count(row.rate), format_count(row.frames), str(row.true),
         str(row.read), "exact" if row.exact else "WRONG"]
        for row in certificate.counted
    ]  # fmt: skip
    yield make_text_table(
        "Frames counted",
        (
            *make_text_columns("what"),
            "how often",
            "fps",
            "frames",
            "true",
            "read",
            *make_text_columns(""),
        ),
        rows,
    )


def _capacity(certificate: Certificate) -> Iterator[Block]:
    rows = [
        [format_count(row.capacity), str(row.depth), str(row.buffer), f"{row.duration_s:g}",
         f"{row.expected:,.1f}", f"{row.found:,.1f}", f"{row.error:+.2%}", f"{row.resolution:g}"]
        for row in certificate.capacity
    ]  # fmt: skip
    yield make_text_table(
        "Throughput of token buckets",
        ("tokens/s", "depth", "buffer", Column("trial s", wide=True), "expected fps", "found fps", "error",
         Column("resolution", wide=True)),
        rows,
    )  # fmt: skip
    yield Paragraph(
        "Expected is what an even stream of the trial's length passes. A sender that is late and "
        "then catches up needs a bucket as deep as its bursts: less is found of shallower ones."
    )
