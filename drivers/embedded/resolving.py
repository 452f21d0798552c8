"""Trials of name resolution: a client on the left, an authoritative server on the right."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from v6t.base.errors import TesterError
from v6t.drivers import clock
from v6t.drivers.embedded.authority import AuthorityRole
from v6t.drivers.embedded.client import Client, Names
from v6t.drivers.embedded.played import lost_by
from v6t.drivers.embedded.sender import Pace
from v6t.drivers.lab.namespaces import LEFT, RIGHT
from v6t.drivers.lab.workers import DEADLINE_S, Worker
from v6t.intent.device import Links, Port, host_arguments
from v6t.profiles.dns.envelope import DnsLayout
from v6t.profiles.dns.zone import Zone
from v6t.trials.queries import Answers, Queries
from v6t.trials.result import ClassCount, DirectionResult, TrialResult
from v6t.trials.trial import Trial

LEAD_S = 0.05
"""Time between the order to ask and the first query."""
ASKED_BEFORE_QPS = 500.0
"""Rate at which names are asked that are to be in the cache: every server answers that."""
ROUNDS = 5
"""Times a name is asked beforehand that was not answered."""
BEFORE_TIMEOUT_S = 1.0


class Resolving:
    """Both roles, and the names that were used up."""

    def __init__(
        self,
        links: Links,
        zone: Zone,
        place: Mapping[str, Any],
        *,
        loopback: bool,
    ) -> None:
        """Start both workers.

        Args:
            links: the cables.
            zone: what is asked and answered.
            place: where workers run, and the longest frame there.
            loopback: the ports are joined: the server is asked directly, by its own version of IP.
        """
        self._zone = zone
        self._fresh = 0
        left, right = links.link_at(LEFT), links.link_at(RIGHT)
        behind = DnsLayout(zone.server.version, right.vlan)
        before = behind if loopback else DnsLayout(6, left.vlan)
        ends = (zone.asker, zone.server) if loopback else (zone.client, zone.resolver)
        header = before.header((left.tester_mac, left.dut_mac), *ends)
        common: dict[str, Any] = {**place, "zone": zone}

        def worker(role: str, role_class: type, side: Port, **more: Any) -> Worker:
            hosts = None if loopback else host_arguments(links.link_at(side))
            return Worker(role, role_class, interface=side, hosts=hosts, **common, **more)

        self._client = worker("client", Client, LEFT, layout=before, header=header)
        self._server = worker("authority", AuthorityRole, RIGHT, layout=behind)
        for made in (self._client, self._server):
            made.answer()

    def measure(self, trial: Trial) -> TrialResult:
        """Ask, wait for late answers, count."""
        asked = trial.queries
        if asked is None:
            raise TesterError("a name resolver does not forward frames", code="no-frames")
        for worker in (self._client, self._server):
            worker.ask("introduce")
        time.sleep(trial.pause_s)
        own_share = 1.0 if asked.is_selftest else asked.native_aaaa_share
        self._server.ask("arm", own_share=own_share, cached=asked.cached_names)
        known = self._ask_before(asked) if asked.cached_share else 0
        self._server.ask("recount")
        began = clock.read()
        started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        names = Names(self._first(asked), asked.cached_share, known)
        sent = self._ask(Pace.of(trial), names, own_share, asked.timeout_s, trial.residual_wait_s)
        self._fresh += names.fresh(trial.frames)
        heard = self._server.ask("report")
        count = ClassCount(
            "foreground",
            required=trial.frames,
            sent=sent["sent"],
            received=sent["received"],
            surplus=sent["surplus"],
            late=sent["late"],
        )
        reasons = sent["reasons"]
        result = DirectionResult(
            classes={"queries": count},
            sending_time_s=sent["sending_time_s"],
            control=sent["control"] + heard["control"],
            checked=count.received + sum(reasons.values()) - sent["late"] - sent["open"],
            matched=count.received,
            mismatch=sent["wrong"],
            delay_us=sent["delay_us"],
            answers=Answers(
                reasons, heard["aaaa"], heard["a"], heard["repeated"], heard["other"], known
            ),
        )
        return TrialResult(
            {"forward": result},
            faults=(
                *lost_by("client", sent),
                *lost_by("authoritative server", heard),
                *clock.faults_since(began),
            ),
            started=started,
            tester={
                role: {name: report[name] for name in ("ring_drops", "interface_drops", "control")}
                for role, report in (("client", sent), ("server", heard))
            }
            | {"lateness_s": round(sent["lateness_s"], 6)},
        )

    def _first(self, asked: Queries) -> int:
        """Number of the next name that was never asked; the first ones are for the cache."""
        kept = asked.cached_names
        return kept + self._fresh % (self._zone.count - kept)

    def _ask_before(self, asked: Queries) -> int:
        """Have names answered until all are in the cache: how many are, from the first on."""
        for _ in range(ROUNDS):
            pace = Pace(((asked.cached_names, ASKED_BEFORE_QPS),))
            found = self._ask(
                pace, Names(0), asked.native_aaaa_share, BEFORE_TIMEOUT_S, BEFORE_TIMEOUT_S
            )
            if not found["unanswered"]:
                return asked.cached_names
        # those before the first that is never answered
        return int(found["unanswered"][0])

    def _ask(
        self, pace: Pace, names: Names, own_share: float, timeout_s: float, wait_s: float
    ) -> dict[str, Any]:
        self._client.tell(
            "ask",
            pace=pace,
            start=time.monotonic() + LEAD_S,
            names=names,
            own_share=own_share,
            timeout_s=timeout_s,
            wait_s=wait_s,
        )
        deadline_s = math.ceil(2 * pace.time_of(pace.frames) + wait_s + DEADLINE_S)
        found: dict[str, Any] = self._client.answer(deadline_s)
        return found

    def close(self) -> None:
        """End both."""
        self._client.close()
        self._server.close()
