"""What is allowed and yet probably not meant: said before a run, with what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from v6t.base.ethernet import max_frame_rate_fps
from v6t.benchmarks import registry
from v6t.core.config.connection_checks import on_tester
from v6t.core.config.presets import procedure_of
from v6t.core.config.settings import ResolvedRun, procedure_model
from v6t.drivers.transport.ssh_client import no_client
from v6t.plugins.address_mappings import WELL_KNOWN

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun

MUCH_LOSS = 0.01
SHORT_WAIT_S = 0.05
TRUSTED_CLOCKS = frozenset({"tsc", "kvm-clock", "arch_sys_counter"})
"""Clock sources of Linux that are counters of the processor, read without a system call."""


def cautions(bound: BoundRun) -> list[str]:
    """One sentence for each thing that should be looked at twice; none for a sound run."""
    return [
        *bound.notes,
        *_well_known_prefix(bound),
        *_settings(bound),
        *_links(bound),
        *_device(bound),
    ]


def of_medium(
    run: ResolvedRun, tester: Mapping[str, Any] | None, *, in_lab: bool = False
) -> list[str]:
    """Yield what the opened tester says against its own figures, and against the testbed (SELF-05).

    Its ports' speed, addresses, NUMA nodes and promiscuity, the clock, whom it displaced, and a
    server that is open though it should not be.

    Args:
        run: the run.
        tester: what the tester says of itself.
        in_lab: its cables are v6t's own, whose interfaces take frames to any address.
    """
    cautions = [
        f"port {port} was taken by force from {owner}"
        for port, owner in ((tester or {}).get("displaced") or {}).items()
    ]
    if (tester or {}).get("fence_failed"):
        cautions.append(
            "the tester's server could not be closed to other hosts (nftables): whoever reaches its "
            "host can command it; `v6t doctor` says why"
        )
    ports = (tester or {}).get("ports") or []
    cautions += _of_hosts(ports, (tester or {}).get("clock_source"))
    cautions += () if in_lab else _deaf(run, ports)
    cautions += [
        f"port {p['index']} of the tester has the MAC address {p['hw_mac']}, but links say tester_mac "
        f"{p['tester_mac']}: a NIC may drop frames to another address than its own"
        for p in ports
        if p.get("tester_mac")
        and p.get("hw_mac")
        and not p.get("virtual")
        and p["hw_mac"].lower() != p["tester_mac"].lower()
    ]
    speeds = [p["speed"] * 1e9 for p in ports if p.get("speed") and not p.get("virtual")]
    slowest = min(speeds, default=run.line_rate_bps)
    if slowest < run.line_rate_bps:
        return [
            *cautions,
            f"line_rate is {run.line_rate_bps / 1e9:g} Gbit/s, but a port of the tester has "
            f"{slowest / 1e9:g} Gbit/s: set line_rate to the slowest medium",
        ]
    return cautions


def _of_hosts(ports: Sequence[Mapping[str, Any]], clock: object) -> Iterator[str]:
    nodes = {p["numa"] for p in ports if isinstance(p.get("numa"), int) and p["numa"] >= 0}
    if len(nodes) > 1:
        yield (
            f"the tester's ports are on NUMA nodes {' and '.join(map(str, sorted(nodes)))}: frames "
            "cross between processors, which costs rate and adds delay"
        )
    if clock and clock not in TRUSTED_CLOCKS:
        yield (
            f"the kernel's clock source is {clock}: it is slow to read, or its counter is not "
            "trusted; compare delays with a loopback run"
        )


def _deaf(run: ResolvedRun, ports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    ours = {run.links_left.tester_mac, run.links_right.tester_mac}
    deaf = [
        f"{p.get('index')}"
        for p in ports
        if p.get("prom") == "off" and str(p.get("hw_mac")).lower() not in ours
    ]
    if deaf:
        several = len(deaf) > 1
        yield (
            f"port{'s' if several else ''} {' and '.join(deaf)} of the tester "
            f"{'are' if several else 'is'} not promiscuous, and no link of the testbed has "
            f"{'their' if several else 'its'} MAC address: the NIC may drop all that comes back; use "
            "its own address as tester_mac"
        )


def _well_known_prefix(bound: BoundRun) -> Iterator[str]:
    for name, (prefix, addresses) in bound.technology.params.embedded_addresses.items():
        private = next((a for a in addresses if not a.is_global), None)
        if prefix == WELL_KNOWN and private is not None:
            yield (
                f"{name}: the well-known prefix {WELL_KNOWN} must not stand for {private}, which is "
                "not a global address (RFC 6052, section 3.1); a device may drop it: use another prefix"
            )


def _settings(bound: BoundRun) -> Iterator[str]:
    run, p = bound.settings, bound.settings.procedure
    preset = procedure_model().model_validate(procedure_of(run.preset))
    measured = registry.wanted(bound)
    wanted = [*measured, *(part for b in measured for part in b.carries_out(bound))]
    for name in registry.sections():
        if getattr(p, name) != getattr(preset, name) and all(
            name not in b.sections() for b in wanted
        ):
            whose = registry.of_section(name)
            yield (
                f"procedure.{name} is set, but has no effect: {' and '.join(whose)} "
                f"{'is' if len(whose) == 1 else 'are'} not measured (--measure)"
            )
    for benchmark in wanted:
        yield from benchmark.cautions(bound)
    if p.loss_tolerance > MUCH_LOSS:
        yield (
            f"a loss tolerance of {p.loss_tolerance:.1%} lets much loss pass: it is a share, "
            "0.01 is one per cent"
        )
    if p.residual_wait_s < SHORT_WAIT_S:
        yield (
            f"a residual wait of {1000 * p.residual_wait_s:g} ms counts frames as lost that are "
            "still on their way: RFC 2544 waits 2 s"
        )
    slack_s = p.trial_duration_s * (p.sending_time_tolerance - 1)
    error_s = bound.tester.sending_error_s
    if slack_s < error_s:
        yield (
            f"a trial of {p.trial_duration_s:g} s may take {1e6 * slack_s:,.0f} µs longer, but the tester "
            f"may know its sending time to {1e6 * error_s:,.0f} µs only: a trial that is not proven to "
            "be in time is invalid (procedure.sending_time_tolerance)"
        )
    if p.rate_from != preset.rate_from and all("rate_from" not in b.heeds for b in wanted):
        yield "procedure.rate_from is set, but has no effect: nothing is measured at that rate"


def _links(bound: BoundRun) -> Iterator[str]:
    run = bound.settings
    for side in ("left", "right"):
        link = getattr(run, f"links_{side}")
        if link.tester_mac.lower() == link.dut_mac.lower():
            yield f"links.{side}: tester and device have the same MAC address {link.dut_mac}"
        for end in ("tester_mac", "dut_mac"):
            if not getattr(link, end).strip("0:"):
                yield (
                    f"links.{side}.{end}: {getattr(link, end)} stands for an address that is not "
                    "known yet: set the address of the interface"
                )
            elif int(getattr(link, end)[:2], 16) & 1:
                yield (
                    f"links.{side}.{end}: {getattr(link, end)} is a group address, which no "
                    "device has: its second digit must be even"
                )
    left, right = run.links_left, run.links_right
    if not bound.tester.loops_back and left.dut_mac == right.dut_mac:
        yield (
            f"both of the device's interfaces have the MAC address {left.dut_mac}: name its own "
            "in links.left.dut_mac and links.right.dut_mac"
        )


def _device(bound: BoundRun) -> Iterator[str]:
    if not bound.tester.loops_back and not bound.driver.configures and not bound.driver.absent:
        yield (
            "no driver configures the device (dut.driver): it must be what `--dry-run` prints "
            "before this run begins"
        )
    lacking = no_client() if bound.driven and any(bound.driver.logins(bound.intent)) else None
    if lacking is not None:
        yield f"{lacking.message}, but the device is reached over it: {lacking.hint}"
    timed = {"tags", "every-frame"}
    wants = [b.name for b in registry.wanted(bound) if timed & b.needs(bound)]
    yield from bound.tester.cautions(wants)
    yield from _rates(bound)
    if bound.settings.connects:
        yield from on_tester(bound, [registry.load(n) for n in bound.settings.benchmarks])


def _rates(bound: BoundRun) -> Iterator[str]:
    """Benchmarks that the tester cannot measure at every rate that the medium carries."""
    run = bound.settings
    media = max(
        max_frame_rate_fps(run.line_rate_bps, bound.technology.sizes_of(size).longest)
        for size in run.frame_sizes
    )
    for benchmark in registry.wanted(bound):
        needs = benchmark.needs(bound)
        most_fps = min(bound.tester.most_fps(needs, mode) for mode in run.modes)
        if most_fps < media:
            yield (
                f"{benchmark.name}: the {run.tester.kind} tester can do that up to {most_fps:,.0f} fps "
                "per direction; where it would take more it is not measured"
            )
