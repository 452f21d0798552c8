"""TRex's own client of its stateful engine, ASTF, behind JSON lines: connections of TCP, step by step.

Like :mod:`v6t.drivers.trex.client_worker`, on which it stands, this runs in the interpreter that has
TRex's client. All connections have one program: open, wait until all are open, ask for an object, wait
until all have theirs, end. So the steps of a trial are looks at TRex's counters, at times that are
known beforehand.
"""

import base64
import time
from typing import Any, List

from v6t.drivers.trex.client_worker import Worker, import_client
from v6t.drivers.trex.service_worker import Trouble, main, plain

NEAR_S = 0.05
"""So long before a counter begins or ends to count it is looked at as often as possible."""
FAR_S = 0.05
"""Between two looks at other times."""
LOAD_S = 0.5
"""Between two looks at how busy TRex is, at such times."""
BEGINNING_S = 30.0
"""TRex takes no longer from the order to begin to the first SYN."""
PROFILE = "_"
"""TRex's name for the only one."""
SILENT_S = 65000
"""Connections that say nothing are asked after so long: TRex by itself asks every five seconds."""


class AstfWorker(Worker):
    def __init__(self):
        Worker.__init__(self)
        self.began = 0.0
        self.looks: List[Any] = []
        self.running = False

    def import_api(self, trex_dir):
        return import_client(trex_dir, "astf")

    def make_client(self, **how):
        return self.api.ASTFClient(**how)

    def acquire(self, ports, force):
        """Take all ports of a server that nobody else has."""
        self.client.reset()
        # which its stateless engine does by itself
        self.client.set_port_attr(ports=list(ports), promiscuous=True)
        self.ports = list(ports)
        return {"owners": {}}

    def begin(self, profile):
        """Start connections; return when the first SYN has left.

        profile: see v6t.drivers.trex.astf.profile. Trouble: none has left within BEGINNING_S seconds.
        """
        self.finish()
        self.client.load_profile(self._profile(profile))
        self.client.clear_stats()
        self.looks = []
        self._look("tcps_connattempt", 1)
        self.client.start(mult=1, duration=-1, block=False)
        self.running = True
        latest = time.monotonic() + BEGINNING_S
        while not self._look("tcps_connattempt", 1)[0]:
            if time.monotonic() > latest:
                raise Trouble("start", "TRex opened no connection within %g s" % BEGINNING_S)
            time.sleep(0.001)
        self.looks = self.looks[-2:]
        self.began = self.looks[0][0]

    def watch(self, counter, each, count, from_s, due_s, until_s, done):
        """Look at what the client counts until everything is done or the time is over.

        counter: of the client, each: counts of it that make a unit, count: units that are meant;
        from_s, due_s: when the first and the last of them are due, until_s: no longer than this, all
        from the first SYN [s]; done: {side: {counter: value}} where nothing more is to come.
        """
        client = self.client
        first, cpu, next_load = None, [], 0.0
        while True:
            units, seen = self._look(counter, each)
            at = time.monotonic() - self.began
            first = units if first is None else first
            over = at >= until_s
            if over or all(seen[s].get(c, 0) >= v for s in done for c, v in done[s].items()):
                break
            if not client.is_connected():
                raise Trouble("server", "the TRex server is gone")
            near = (not units and at > from_s - NEAR_S) or (
                units < count and due_s - NEAR_S < at < due_s + 10 * NEAR_S
            )
            if not near and at > next_load:
                next_load = at + LOAD_S
                cpu.append(client.get_stats(ports=self.ports)["global"].get("cpu_util_raw", 0.0))
            time.sleep(0.001 if near else FAR_S)
        stats = client.get_stats(ports=self.ports)
        looks, self.looks = self.looks, []
        return {
            "looks": looks,
            "first": first,
            "counters": plain({s: seen[s] for s in ("client", "server")}),
            "ports": {str(p): stats[p] for p in self.ports},
            "global": stats["global"],
            "cpu": cpu,
            "ago_s": time.monotonic() - self.began,
        }

    def finish(self):
        """Stop what is left."""
        if self.running:
            self.running = False
            # an order to stop is passed over by TRex's client that was not told of the start yet
            self.client.wait_for_profile_state(PROFILE, self.client.STATE_TX, timeout=BEGINNING_S)
            self.client.stop()

    # ------------------------------------------------------------------ inside

    def _leave(self, client):
        try:
            self.finish()
            self._fall_silent()
            client.release(force=True)
        finally:
            client.disconnect(stop_traffic=False, release_ports=False)

    def _look(self, counter, each):
        """Units and all counters, noted down with the times before and after."""
        before = time.monotonic()
        seen = self.client.get_traffic_stats()
        units = int(seen["client"].get(counter, 0)) // each
        self.looks.append([before, {"0": units}, time.monotonic()])
        return units, seen

    def _profile(self, wanted):
        api = self.api
        request, response = (base64.b64decode(wanted[n]) for n in ("request", "response"))
        client, server = api.ASTFProgram(), api.ASTFProgram()
        client.connect()
        client.delay(wanted["hold_us"])
        client.send(request)
        client.recv(len(response))
        client.delay(wanted["after_us"])
        if wanted["closing"] == "rst":
            client.reset()
        server.accept()
        server.recv(len(request))
        server.send(response)
        server.wait_for_peer_close()
        addresses = api.ASTFIPGen(
            glob=api.ASTFIPGenGlobal(ip_offset="0.0.0.0"),  # noqa: S104  (no address)
            dist_client=api.ASTFIPGenDist(ip_range=wanted["clients"], distribution="seq"),
            dist_server=api.ASTFIPGenDist(ip_range=wanted["servers"], distribution="seq"),
        )
        opened = api.ASTFTCPClientTemplate(
            program=client,
            ip_gen=addresses,
            cps=wanted["rate_cps"],
            limit=wanted["count"],
            port=wanted["port"],
            glob_info=self._of_clients(wanted),
        )
        answered = api.ASTFTCPServerTemplate(
            program=server, assoc=api.ASTFAssociationRule(port=wanted["port"])
        )
        return api.ASTFProfile(
            default_ip_gen=addresses,
            default_c_glob_info=self._settings(wanted),
            default_s_glob_info=self._settings(wanted),
            templates=[api.ASTFTemplate(client_template=opened, server_template=answered)],
        )

    def _of_clients(self, wanted):
        """What only clients are told: servers answer as they are asked."""
        settings = self.api.ASTFGlobalInfoPerTemplate()
        if wanted["prefixes"]:
            settings.ipv6.enable = 1
            settings.ipv6.src_msb, settings.ipv6.dst_msb = wanted["prefixes"]
        return settings

    def _settings(self, wanted):
        settings = self.api.ASTFGlobalInfo()
        settings.tcp.no_delay = 1
        settings.tcp.mss = wanted["segment_octets"]
        settings.tcp.keepinit = wanted["given_up_s"]
        settings.tcp.keepidle = settings.tcp.keepintvl = SILENT_S
        return settings


if __name__ == "__main__":
    main(AstfWorker())
