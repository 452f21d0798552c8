"""The modifiers of RFC 2544, section 11."""

from dataclasses import replace

from v6t.base.errors import UsageError
from v6t.core.modifiers.base import Action, Modifier
from v6t.drivers.device import DeviceSession
from v6t.drivers.duts.plan import Plan
from v6t.intent.device import DeviceRequirements, Links
from v6t.procedures.preflight import BENCHMARK as PREFLIGHT
from v6t.profiles.model import Layer, Role, Traffic, TrafficClass
from v6t.trials.trial import Trial

FRAMES_PER_BROADCAST = 99  # test frames between two broadcasts
BROADCAST_ETHERTYPE = 0x88B5  # for local experiments (IEEE 802): a router must drop the frame
ROUTE_INTERVAL_S = 30.0  # between two route updates (RFC 2544, appendix C.2.3)


class Broadcast(Modifier):
    """Modifier that makes every hundredth frame a broadcast that the device must drop (section 11.1)."""

    name = "broadcast"
    source = "RFC 2544 section 11.1"
    description = "1 % of the frames are broadcasts of an unknown protocol, in place of test frames"

    def add_frames(self, traffic: Traffic, links: Links) -> Traffic:
        link = links.left if traffic.direction == "forward" else links.right
        kind: dict[str, object] = {"type": BROADCAST_ETHERTYPE}
        addresses = {"src": link.tester_mac, "dst": "ff:ff:ff:ff:ff:ff"}
        layers: tuple[Layer, ...] = (Layer("Ether", {**addresses, **kind}),)
        if link.vlan is not None:
            layers = (Layer("Ether", addresses), Layer("Dot1Q", {"vlan": link.vlan, **kind}))
        classes = tuple(replace(c, weight=FRAMES_PER_BROADCAST * c.weight) for c in traffic.classes)
        weight = sum(c.weight for c in traffic.classes)
        octets = traffic.classes[0].frame_size
        broadcasts = TrafficClass(self.name, Role.NEGATIVE, layers, octets, weight=weight)
        return replace(traffic, classes=(*classes, broadcasts))


class Management(Modifier):
    """Modifier that reads the device's configuration every second through the driver (section 11.2)."""

    name = "management"
    source = "RFC 2544 section 11.2"
    needs_driver = True
    needs_stream = True
    description = "every second, the driver reads the configuration back over its own connection"

    def check_plan(self, plan: Plan) -> None:
        if not plan.all_checks:
            problem = f"the {plan.driver} driver does not read back any configuration"
            hint = "give its steps a check, or leave the modifier out"
            raise UsageError(problem, hint, code="unsupported-operation")

    def make_action(self, trial: Trial, session: DeviceSession) -> Action:
        devices = [device for _, device in session.get_sessions()]
        for device in devices:
            device.management_check  # noqa: B018  (raises before any frame is sent)
        return lambda: "; ".join([device.check_management_query() for device in devices])


class Snmp(Management):
    """Modifier that queries the forwarding state of the device by SNMP every second (section 11.2)."""

    name = "snmp"
    requirements = DeviceRequirements(snmp_agent=True)
    description = "every second, an SNMP query is sent on the device itself: ipForwarding must be 1"

    def check_plan(self, plan: Plan) -> None:
        """Accept every plan, because the driver starts the agent."""


class Routing(Modifier):
    """Modifier that updates a route every 30 s; no test frame takes the route (section 11.3)."""

    name = "routing"
    source = "RFC 2544 section 11.3"
    needs_driver = True
    needs_stream = True
    requirements = DeviceRequirements(route_updates=True)
    interval_s = ROUTE_INTERVAL_S
    description = (
        f"in each trial, at once and every {ROUTE_INTERVAL_S:g} s, an unused route changes"
    )

    def make_action(self, trial: Trial, session: DeviceSession) -> Action | None:
        # Not in the preflight: each of its two frames would always meet the same state.
        return None if trial.benchmark == PREFLIGHT else session.update_routes


class Bgp(Routing):
    """Modifier that updates a route by BGP, with a speaker started by the driver (section 11.3)."""

    name = "bgp"
    requirements = DeviceRequirements(route_updates=True, bgp_speaker=True)
    description = f"{Routing.description}, by BGP from a speaker on the device itself"


class OneFilter(Modifier):
    """Modifier that adds a filter per direction and IP version for the test traffic (section 11.4)."""

    name = "filters-1"
    source = "RFC 2544 section 11.4, RFC 5180 section 6.2.2"
    needs_driver = True
    requirements = DeviceRequirements(filters=1)
    description = "one filter per direction and IP version permits the test traffic and no other"


class ManyFilters(OneFilter):
    """Modifier that adds 25 filters per direction; one accepts the test traffic (section 11.4)."""

    name = "filters-25"
    requirements = DeviceRequirements(filters=25)
    description = (
        "25 filters per direction: the one for the test traffic, 12 before and 12 after it"
    )
