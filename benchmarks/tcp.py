"""The TCP benchmarks of RFC 8219 section 8, with the counts that RFC 3511 requires."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any, ClassVar

from pydantic import Field, PositiveFloat
from v6t.analysis.presentation import Card, Quantity, Ruling, judge
from v6t.analysis.record import CsvRow, FindResult, Number, RecordModel
from v6t.analysis.rundata import RunData
from v6t.analysis.sheet import (
    ABSENT,
    SIZES_HEADING,
    Column,
    Table,
    format_count,
    format_seconds,
    make_table,
)
from v6t.base.errors import UsageError
from v6t.base.ethernet import FCS_OCTETS, GAP_OCTETS, compute_max_frame_rate_fps
from v6t.base.strict_model import StrictModel
from v6t.benchmarks import common, connections
from v6t.benchmarks.base import Phase
from v6t.benchmarks.connections import C, CapacityRange, CapacityRecord, ConnectionRateRecord, S
from v6t.benchmarks.point import MeasuredTechnology, Measurement, NotMeasured, Point, RunContext
from v6t.benchmarks.settings import RATE_SEARCH_SETTINGS, Flag
from v6t.procedures.stateful.capacity import CapacitySpec
from v6t.procedures.stateful.connection_rate import measure_connection_rate
from v6t.procedures.stateful.phases import PhaseOneSettings
from v6t.procedures.stateful.tcp_capacity import RETRY_FACTOR, TcpCapacitySpec, measure_tcp_capacity
from v6t.profiles.model import FramePair
from v6t.profiles.tcp.http import (
    HEADER_OCTETS,
    HTTP_VERSION,
    MAX_OBJECT_OCTETS,
    OPENING_OCTETS,
    build_response,
    split_into_segments,
)
from v6t.trials.connections import Closing, Connections, Tcp, TcpCounts
from v6t.trials.result import DirectionResult, Measure, TrialResult
from v6t.trials.trial import Capability, Trial
from v6t.trials.verdict import Attempt

_INVALID_TRIAL_NOTE = "The tester failed in this trial, so its counts do not describe the device."

_SYN_HEADING = SIZES_HEADING.replace("octets", "SYN's octets")

_TIMES_NOTE = (
    "Establishment times are from the first SYN at the client to the last acknowledgement at the server, "
    "including the tester's own time to write a batch of segments and to answer one."
)

_NO_TIMES_NOTE = "This tester does not report establishment times."


class TcpExchange(RecordModel):
    """Settings of every TCP connection: opening, request and end."""

    http: str = Field(description="HTTP version of client and server")
    object_octets: int = Field(description="size of the requested object, without header [octets]")
    timeout_s: Number = Field(description="time limit for the answer to a SYN or a request [s]")
    retransmissions: int = Field(description="largest number of retransmissions of a SYN")
    closing: str = Field(description="how connections end: `rst` or `fin`")


class TcpIteration(RecordModel):
    """Counts of a trial's connections by outcome (RFC 3511 sections 5.2.5, 5.3.5)."""

    trial: str = Field(description="key of the trial")
    rate_cps: Number = Field(description="connection attempts [connections per second]")
    attempted: int = Field(description="connections whose SYN was sent")
    established: int = Field(description="attempts that are open on both sides")
    half_open: int = Field(description="attempts that are open on the client's side only")
    reset_refused: int = Field(description="attempts refused by a reset")
    icmp_refused: int = Field(description="attempts refused by an ICMP error")
    timed_out: int = Field(description="attempts without an answer in time")
    retransmitted: int = Field(description="SYNs sent again")
    reset_later: int = Field(description="connections that were reset while they were open")
    requested: int = Field(description="objects requested")
    answered: int = Field(description="objects received correctly")
    closed: int = Field(description="connections closed correctly on both sides")
    sessions: int | None = Field(description="sessions in the device; null: unknown")
    sessions_after: int | None = Field(description="sessions after closing; null: unknown")
    fastest_s: Number | None = Field(description="shortest establishment time [s]")
    slowest_s: Number | None = Field(description="longest establishment time [s]")
    mean_s: Number | None = Field(description="mean establishment time [s]")
    sum_s: Number | None = Field(description="sum of all establishment times [s]")
    passed: bool = Field(description="whether all were established and answered")
    valid: bool = Field(description="whether the tester did not fail")

    @property
    def outcome(self) -> str:
        """``passed``, ``failed`` or ``invalid``."""
        return "passed" if self.passed else "failed" if self.valid else "invalid"

    @property
    def refusals(self) -> str:
        """Describe the connections that were not established."""
        names = set(TcpCounts.__dataclass_fields__) & set(type(self).model_fields)
        return TcpCounts(**{name: getattr(self, name) for name in names}).failures


class LoopbackTimes(RecordModel):
    """Establishment times without a device, from the fastest complete trial of the self-test."""

    rate_cps: Number = Field(description="connection attempts [connections per second]")
    fastest_s: Number = Field(description="shortest establishment time [s]")
    mean_s: Number = Field(description="mean establishment time [s]")
    slowest_s: Number = Field(description="longest establishment time [s]")


class TcpRateRecord(ConnectionRateRecord):
    """Maximum TCP connection establishment rate (RFC 3511 section 5.3)."""

    heading = "Maximum TCP connection establishment rate"
    exchange: TcpExchange = Field(description="settings of the connections")
    iterations: list[TcpIteration] = Field(description="all trials")
    decisive: Sequence[TcpIteration] = Field((), description="highest passed trials, by repetition")
    alone: LoopbackTimes | None = Field(None, description="times without a device, if known")

    @property
    def last(self) -> TcpIteration | None:
        """Highest passed trial of the last repetition, or None."""
        return self.decisive[-1] if self.decisive else None


class ConnectionEnding(RecordModel):
    """Counts of closed connections, and the time until the device removed them."""

    closing: str = Field(description="how they were closed: `rst` or `fin`")
    connections: int = Field(description="connections attempted")
    closed: int = Field(description="connections closed correctly on both sides")
    sessions_after: int | None = Field(description="sessions after closing; null: unknown")
    aged_s: Number | None = Field(description="time until the device removed them, if known [s]")
    waited_s: Number = Field(description="longest wait for the device to remove them [s]")


class TcpCapacityRecord(CapacityRecord):
    """Concurrent TCP connection capacity (RFC 3511 section 5.2)."""

    heading = "Concurrent TCP connection capacity"
    attempt_rate_cps: Number = Field(description="connection attempt rate [connections per second]")
    rate_source: str = Field(description="origin of that rate")
    exchange: TcpExchange = Field(description="settings of the connections")
    iterations: list[TcpIteration] = Field(description="all trials of the search")
    decisive: TcpIteration | None = Field(description="the largest trial that passed")
    overfull: TcpIteration | None = Field(description="trial beyond the capacity; null: no limit")
    still_answered: int | None = Field(description="connections of `overfull` that answered")
    endings: list[ConnectionEnding] = Field(description="results of closing the connections")
    tcp_timeouts_s: dict[str, Number] = Field(description="TCP timeouts of the device [s]")

    @property
    def last(self) -> TcpIteration | None:
        """Largest trial that passed, or None."""
        return self.decisive

    @property
    def attempted_cps(self) -> float:
        """Attempt rate of the decisive trial; a repeated trial uses a lower rate."""
        return self.attempt_rate_cps if self.decisive is None else self.decisive.rate_cps


def _find_fastest_loopback(point: Point) -> LoopbackTimes | None:
    fastest = None
    for key in point.tester_capacity.keys:
        phases = point.find(f"tcp-{key}").connections
        tcp = None if phases is None else phases.tcp
        if phases is None or tcp is None or tcp.mean_s is None or not phases.sending_time_s:
            continue
        rate_cps = tcp.attempted / phases.sending_time_s
        is_complete = tcp.established == tcp.attempted == phases.required
        if is_complete and (fastest is None or rate_cps > fastest.rate_cps):
            fastest = LoopbackTimes.model_validate({**asdict(tcp), "rate_cps": rate_cps})
    return fastest


def _make_ending(attempt: Attempt, find_result: FindResult) -> ConnectionEnding | None:
    request, phase_one = attempt.trial.connections, find_result(attempt.trial.key).connections
    if request is None or request.tcp is None or phase_one is None or phase_one.tcp is None:
        return None
    return ConnectionEnding(
        closing=request.tcp.closing,
        connections=phase_one.tcp.attempted,
        closed=phase_one.tcp.closed,
        sessions_after=phase_one.tcp.sessions_after,
        aged_s=phase_one.tcp.expiry_s,
        waited_s=request.tcp.aging_s,
    )


FRAMES_PER_OPENING = 2  # frames that a client sends to open a connection: SYN and ACK

_ETHERNET_OCTETS, _TAG_OCTETS = 14, 4

_IP_HEADER_OCTETS = {4: 20, 6: 40}


def find_syn_sizes(plugin: MeasuredTechnology) -> FramePair:
    """Return the frame sizes of a SYN on both sides of the device [octets]."""
    headers = _ETHERNET_OCTETS + _IP_HEADER_OCTETS[min(plugin.ip_versions)]
    if plugin.links.left.vlan is not None:
        headers += _TAG_OCTETS
    return plugin.make_frame_pair(headers + OPENING_OCTETS + FCS_OCTETS + plugin.overhead)


def find_media_cps(line_rate_bps: float, sizes: FramePair, object_octets: int) -> int:
    """Return the connections per second whose opening and objects the medium carries."""
    opened = compute_max_frame_rate_fps(line_rate_bps, sizes.longest) // FRAMES_PER_OPENING
    each = sizes.longest - OPENING_OCTETS + HEADER_OCTETS + GAP_OCTETS
    octets = sum(each + len(part) for part in split_into_segments(build_response(object_octets)))
    return max(1, min(opened, int(line_rate_bps / (8 * octets))))


def find_syn_limit(context: RunContext) -> tuple[FramePair, int]:
    """Return the size of a run's SYNs, and the connections per second that its medium carries."""
    sizes = find_syn_sizes(context.technology)
    settings: Any = context.settings.procedure
    return sizes, find_media_cps(context.settings.line_rate_bps, sizes, settings.tcp.object_octets)


def make_tcp_measure(context: RunContext, measure: Measure) -> Measure:
    """Make the function that measures how fast the tester opens connections and requests objects.

    The phase that lost more, or took longer, counts as the only direction.
    """
    settings: Any = context.settings.procedure
    tcp = settings.tcp.trial_settings

    def compute_rank(direction: DirectionResult) -> tuple[int, float]:
        lost = direction.count_frames("required") - direction.count_frames("received")
        return lost, direction.sending_time_s

    def measure_opening(trial: Trial) -> TrialResult:
        connections = Connections(
            trial.frames, trial.rate_fps, wait_s=tcp.max_wait_s, alpha=1.0, purpose="establish", tcp=tcp
        )  # fmt: skip
        result = measure(replace(trial, key=f"tcp-{trial.key}", connections=connections))
        worse = max(result.directions.values(), key=compute_rank)
        return replace(result, directions={"forward": worse})

    return measure_opening


def _format_decisive(
    value: Callable[[TcpIteration], str | float | None],
) -> Callable[[Any], str | float | None]:
    return lambda record: value(record.last) if record.last else "-"


_TIME_COLUMNS: tuple[Column[TcpIteration], ...] = (
    Column("ms to establish\nmin", lambda one: _format_milliseconds(one.fastest_s)),
    Column("mean", lambda one: _format_milliseconds(one.mean_s)),
    Column("max", lambda one: _format_milliseconds(one.slowest_s)),
    Column("sum", lambda one: _format_milliseconds(one.sum_s)),
)
_EXCHANGE_COLUMNS: tuple[Column[Any], ...] = (
    Column("object\noctets", lambda record: record.exchange.object_octets),
    *(replace(column, value=_format_decisive(column.value)) for column in _TIME_COLUMNS),
    Column("objects\nrequested", _format_decisive(lambda one: one.requested)),
    Column("returned", _format_decisive(lambda one: one.answered)),
)


class TcpSettings(StrictModel):
    """Settings of TCP connections (RFC 8219 section 8, RFC 3511 sections 5.2 and 5.3)."""

    object_octets: Annotated[int, Flag("--object-size")] = Field(
        default=64, ge=1, le=MAX_OBJECT_OCTETS
    )
    """Size of the object that each connection requests [octets]."""
    timeout_s: float = Field(1.0, gt=0, le=60, description="Time limit for an answer [s].")
    retransmissions: int = Field(0, ge=0, le=6, description="Retransmissions of a SYN.")
    closing: Closing = "rst"
    """How connections end: by a reset (RFC 3511 sections 5.2.3, 5.3.3) or by FIN."""
    rate_cps: PositiveFloat | None = Field(None, description="Attempt rate; None: ``rate_share``.")
    rate_share: float = Field(0.5, gt=0, le=1, description="Rate / P1 of the measured rates.")

    @property
    def trial_settings(self) -> Tcp:
        """Settings of TCP in a trial."""
        return Tcp(self.object_octets, self.timeout_s, self.retransmissions, self.closing)


class TcpBenchmark(connections.TableBenchmark[C, S]):
    """Benchmark with TCP connections."""

    phase = Phase.TCP
    is_search = True
    shared_settings: ClassVar[Mapping[str, type[StrictModel]]] = {"tcp": TcpSettings}
    capabilities: ClassVar[frozenset[Capability]] = frozenset({"connections", "tcp"})

    def get_tcp(self, context: RunContext) -> TcpSettings:
        """Return the TCP settings of a run."""
        settings: TcpSettings = self.get_shared_settings(context, "tcp")
        return settings

    def list_prerequisites(self, context: RunContext) -> tuple[str, ...]:
        return ()

    def check(self, context: RunContext) -> None:
        """Check that there is a device, since a tester has no connection table."""
        if context.driver.is_cable:
            problem = f"without a device {self.name} would measure the tester"
            hint = "`v6t selftest` measures the tester alone"
            raise UsageError(problem, hint, code="missing-device")
        list(self._list_tester_warnings(context))

    def list_deviations(self, context: RunContext) -> Iterator[str]:
        yield from super().list_deviations(context)
        yield from self._list_tester_warnings(context)
        if tries := self.get_tcp(context).retransmissions:
            yield f"a lost SYN is sent again up to {tries} times: slower connections still count"

    def _list_tester_warnings(self, context: RunContext) -> Iterator[str]:
        """Yield the tester's warnings, or raise UsageError if it cannot make the connections."""
        most, tcp = self.find_max_connections(context), self.get_tcp(context).trial_settings
        alpha = connections.make_phase_one_settings(context.settings.procedure).alpha
        return context.tester.check_tcp_connections(context.technology, most, tcp, alpha)

    def _make_phase_one(self, point: Point) -> PhaseOneSettings:
        tcp = self.get_tcp(point.context).trial_settings
        settings = connections.make_phase_one_settings(point.procedure)
        return replace(settings, wait_s=tcp.max_wait_s, tcp=tcp)

    def list_trial_rows(self, point: Point, iterations: Iterable[TcpIteration]) -> list[CsvRow]:
        """Return a CSV row for each trial."""
        return self.make_csv_rows(point, (dict(iteration).values() for iteration in iterations))

    def _make_exchange(self, context: RunContext) -> TcpExchange:
        return TcpExchange(http=HTTP_VERSION, **asdict(self.get_tcp(context).trial_settings))


class TcpRate(TcpBenchmark[TcpRateRecord, TcpSettings]):
    """Highest rate at which every TCP connection is established (RFC 3511 section 5.3).

    A binary search for the rate. Each connection fetches one object by HTTP and is closed (RFC
    8219 section 8).
    """

    name = "tcp-rate"
    csv_model = TcpIteration
    record = TcpRateRecord
    order = 10
    used_settings = RATE_SEARCH_SETTINGS

    def run(self, point: Point) -> Measurement:
        spec = connections.specify_rate_search(point, self._make_phase_one(point), self.name)
        result = measure_connection_rate(spec, point.measure, point.watch)
        each = [list_iterations(r.attempts, point.find) for r in result.repetitions]
        passed = [[o for o in tries if o.passed] for tries in each]
        record = connections.make_rate_record(
            TcpRateRecord,
            result,
            point,
            exchange=self._make_exchange(point.context),
            iterations=[o for tries in each for o in tries],
            decisive=[max(tries, key=lambda o: o.rate_cps) for tries in passed if tries],
            alone=_find_fastest_loopback(point),
        )
        return Measurement(record, self.list_trial_rows(point, record.iterations), record.rates)

    columns = (
        Column(_SYN_HEADING, lambda r: r.sizes),
        Column("connections", lambda r: r.connections),
        *common.make_rate_columns("median\nconnections/s"),
        common.DISPERSION_COLUMN,
        *_EXCHANGE_COLUMNS,
        Column("DUT\ncounts", lambda r: r.last and r.last.sessions, ",", absent=ABSENT, wide=True),
        common.WIDE_REPETITIONS_COLUMN,
    )

    def list_notes(self, records: Sequence[TcpRateRecord]) -> list[str]:
        notes = [_describe_exchange(records[0])]
        if any(len(r.decisive) > 1 for r in records):
            notes.append("Times, objects and the DUT's count are those of the last repetition.")
        return notes + [_describe_loopback(r.alone) for r in records if r.alone is not None]

    def list_quantities(self, record: TcpRateRecord) -> Iterator[Quantity]:
        resolution = record.resolution_cps
        yield connections.make_rate_quantity(record, record.title, resolution, "TCP connections/s")

    def check_clauses(self, data: RunData, records: Sequence[TcpRateRecord]) -> Iterator[Ruling]:
        iterations = [one for r in records for one in r.decisive]
        wanted = sum(r.repetitions for r in records)
        yield judge("RFC 8219 section 8.2, RFC 3511 section 5.3.4.2",
                    "the highest rate at which all connections were opened",
                    f"found by {len(iterations)} of {wanted} repetitions",
                    len(iterations) == wanted if records else None)  # fmt: skip
        yield _judge_validation("5.3.3", iterations)
        yield common.check_repetitions(self.name, records)


class TcpCapacitySettings(CapacityRange):
    """Settings of the concurrent TCP connection capacity (RFC 3511 section 5.2)."""

    beyond: float = Field(0.1, ge=0, le=10, description="Excess connections over the capacity.")
    aging_s: float = Field(default=150.0, ge=0, le=86_400)
    """Longest wait for connections to expire [s]."""


class TcpCapacity(
    connections.CapacityBenchmark[TcpCapacityRecord, TcpCapacitySettings],
    TcpBenchmark[TcpCapacityRecord, TcpCapacitySettings],
):
    """Number of TCP connections that the device holds open (RFC 3511 section 5.2).

    The number of open connections grows until one fails; a binary search then halves the
    interval (RFC 8219 section 8).
    """

    name = "tcp-capacity"
    csv_model = TcpIteration
    record = TcpCapacityRecord
    order = 20
    settings_model = TcpCapacitySettings
    quick_settings = TcpCapacitySettings(first=10_000, most=500_000, error=2000, aging_s=15.0)

    def list_prerequisites(self, context: RunContext) -> tuple[str, ...]:
        return () if self.get_tcp(context).rate_cps is not None else (TcpRate.name,)

    def run(self, point: Point) -> Measurement:
        tcp = self.get_tcp(point.context)
        rate_cps, source = connections.choose_rate(
            point, TcpRate.name, "TCP connection rate", tcp.rate_share, tcp.rate_cps
        )
        if not rate_cps:
            raise NotMeasured("no TCP connection rate passed")
        settings, most = self.get_settings(point.context), self.find_max_connections(point.context)
        capacity = CapacitySpec(
            conditions=point.make_conditions(),
            first=min(settings.first, most),
            most=most,
            upper_bound_cps=rate_cps,
            upper_bound_reason="given",
            resolution_cps=rate_cps * RETRY_FACTOR,
            beta=RETRY_FACTOR,
            gamma=RETRY_FACTOR,
            error=settings.error,
            phase_one=self._make_phase_one(point),
            benchmark=self.name,
            fixed=True,
        )
        spec = TcpCapacitySpec(capacity, settings.beyond, settings.aging_s)
        result = measure_tcp_capacity(spec, point.measure, point.watch)
        search, find = result.search, point.find
        tries = list_iterations(search.attempts, find)
        overfull = None if result.overfull is None else make_iteration(result.overfull, find)
        found = [find(a.trial.key).connections for a in search.attempts]
        device: Mapping[str, Any] = next((c.device for c in found if c and c.device), {})
        record = connections.make_capacity_record(
            TcpCapacityRecord,
            search,
            point,
            result.after,
            attempt_rate_cps=search.spec.upper_bound_cps,
            rate_source=source,
            exchange=self._make_exchange(point.context),
            iterations=tries,
            decisive=max((o for o in tries if o.passed), key=lambda o: o.attempted, default=None),
            overfull=overfull,
            still_answered=None if overfull is None else overfull.answered,
            endings=[ending for a in result.after if (ending := _make_ending(a, find)) is not None],
            tcp_timeouts_s={name: s for name, s in device.items() if "tcp" in name},
        )
        after = list_iterations(result.after, find)
        return Measurement(record, self.list_trial_rows(point, [*tries, *after]))

    columns = (
        Column(_SYN_HEADING, lambda r: r.sizes),
        Column("maximum\nconnections", lambda r: r.capacity_text),
        Column("error", lambda r: r.error),
        Column("attempt rate\nconnections/s", lambda r: r.attempted_cps),
        *_EXCHANGE_COLUMNS,
        Column("steps", lambda r: str(len(r.steps)), wide=True),
    )

    def list_notes(self, records: Sequence[TcpCapacityRecord]) -> list[str]:
        return [_describe_exchange(records[0])]

    def make_tables(self, records: Sequence[TcpCapacityRecord]) -> Iterator[Table]:
        yield self.make_main_table(records)
        for r in records:
            if r.overfull is not None:
                note = (
                    f"Of the {r.overfull.established:,} connections that were established, "
                    f"{r.still_answered or 0:,} answered afterwards; the others ended as: "
                    f"{r.overfull.refusals or 'none'}."
                )
                notes = [note] if r.overfull.valid else [note, _INVALID_TRIAL_NOTE]
                yield make_table("Beyond the capacity", [r.overfull], _ITERATION_COLUMNS, notes)
            timeouts = ", ".join(f"{name} {s:g} s" for name, s in r.tcp_timeouts_s.items())
            notes = [f"The device's own time-outs: {timeouts}."] if timeouts else []
            yield make_table("Ends of connections", r.endings, _ENDING_COLUMNS, notes)

    def list_quantities(self, record: TcpCapacityRecord) -> Iterator[Quantity]:
        what = f"{record.title}, attempted at {format_count(record.attempted_cps)} a second"
        card = Card(record.capacity_text, "concurrent TCP connections", what)
        yield replace(connections.make_capacity_quantity(self.name, record), card=card)

    def find_warnings(self, record: TcpCapacityRecord) -> Iterator[tuple[str, str]]:
        if record.overfull is not None:
            over = record.overfull.attempted - record.capacity
            became = record.overfull.refusals or "all were established"
            if not record.overfull.valid:
                became = "not known, the tester failed"
            yield "beyond-capacity", f"{over:,} connections beyond the capacity: {became}"

    def check_clauses(
        self, data: RunData, records: Sequence[TcpCapacityRecord]
    ) -> Iterator[Ruling]:
        for r in records:
            yield judge("RFC 8219 section 8.1, RFC 3511 section 5.2.3",
                        "an iterative search for the maximum number of connections",
                        f"{len(r.steps)} numbers of connections; {r.end_text}", not r.at_least)  # fmt: skip
        yield _judge_validation("5.2.3", [r.decisive for r in records if r.decisive])


_ITERATION_COLUMNS: Sequence[Column[TcpIteration]] = (
    Column("attempted\nper second", lambda o: o.rate_cps),
    Column("attempted", lambda o: o.attempted),
    Column("completed", lambda o: o.established),
    Column("%", lambda o: _format_percent(o.established, o.attempted)),
    Column("refused\nby reset", lambda o: o.reset_refused),
    Column("by ICMP", lambda o: o.icmp_refused),
    Column("timed out", lambda o: o.timed_out + o.half_open),
    Column("requested", lambda o: o.requested),
    Column("returned", lambda o: o.answered),
    Column("%", lambda o: _format_percent(o.answered, o.requested)),
    Column("closed", lambda o: o.closed, wide=True),
    *_TIME_COLUMNS,
    Column("result", lambda o: o.outcome, text=True),
)


def _format_expiry(ending: ConnectionEnding) -> str:
    if ending.aged_s is not None:
        return format_seconds(ending.aged_s)
    if ending.sessions_after is None or not ending.waited_s:
        return "-"
    return f"not within {ending.waited_s:g} s"


_ENDING_COLUMNS: Sequence[Column[ConnectionEnding]] = (
    Column("ended by", lambda e: e.closing.upper(), text=True),
    Column("connections", lambda e: e.connections),
    Column("closed on\nboth sides", lambda e: e.closed),
    Column("DUT counts\nafterwards", lambda e: e.sessions_after, ",", absent=ABSENT),
    Column("forgotten\nafter", _format_expiry),
)


def _describe_exchange(record: TcpRateRecord | TcpCapacityRecord) -> str:
    e = record.exchange
    unanswered = (
        f"a SYN that is not answered within {e.timeout_s:g} s is sent again {e.retransmissions} times"
        if e.retransmissions
        else f"a connection whose first SYN is not answered within {e.timeout_s:g} s is not established"
    )
    end = "a reset" if e.closing == "rst" else "FIN"
    has_times = record.last is None or record.last.mean_s is not None
    return (
        f"{e.http} on both sides; every connection requests an object once all are open; {unanswered}; "
        f"connections end by {end}. {_TIMES_NOTE if has_times else _NO_TIMES_NOTE}"
    )


def _describe_loopback(trial: LoopbackTimes) -> str:
    times = (_format_milliseconds(s) for s in (trial.fastest_s, trial.mean_s, trial.slowest_s))
    return (
        f"Without a device the tester itself takes {' / '.join(times)} ms (min / mean / max) at "
        f"{trial.rate_cps:,.0f} connections a second, the fastest trial of its self-test that lost nothing."
    )


def _format_milliseconds(value_s: float | None) -> str:
    if value_s is None:
        return "-"
    return f"{1000 * value_s:,.3g}" if value_s < 0.1 else f"{1000 * value_s:,.0f}"


def _format_percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.4g}" if whole else "-"


def _judge_validation(section: str, iterations: Sequence[TcpIteration]) -> Ruling:
    right = [o.answered == o.requested == o.established for o in iterations]
    return judge(f"RFC 3511 section {section}", "every connection is validated by HTTP 1.1",
                 f"{sum(o.answered for o in iterations):,} objects for "
                 f"{sum(o.requested for o in iterations):,} requests",
                 right)  # fmt: skip


def list_iterations(attempts: Sequence[Attempt], find_result: FindResult) -> list[TcpIteration]:
    """Return the counts of all attempts that opened connections."""
    return [one for a in attempts if (one := make_iteration(a, find_result)) is not None]


def make_iteration(attempt: Attempt, find_result: FindResult) -> TcpIteration | None:
    """Count an attempt's connections by outcome; None if it opened none."""
    phase_one = find_result(attempt.trial.key).connections
    if phase_one is None or phase_one.tcp is None:
        return None
    return TcpIteration(
        **asdict(phase_one.tcp),
        trial=attempt.trial.key,
        rate_cps=attempt.trial.rate_fps,
        sessions=phase_one.sessions,
        passed=attempt.verdict.passed,
        valid=attempt.verdict.valid,
    )
