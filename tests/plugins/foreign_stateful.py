"""Variants of NAT44 for connections of protocols other than UDP."""

from pydantic import Field
from v6t.plugins import four_tuples
from v6t.plugins.nat44 import Nat44, Nat44Params
from v6t.plugins.ports import Ports
from v6t.profiles.model import Layer


class NoPorts(Ports):
    min: int = Field(ge=0, le=0)
    max: int = Field(ge=0, le=0)


class TcpParams(Nat44Params):
    transport = "TCP"


class TcpNat(Nat44):
    name = "nat44-tcp"
    title = "TCP behind public IPv4 addresses"
    params_model = TcpParams
    default_frame_sizes = (128,)
    rfc_frame_sizes = (128, 512, 1518)
    default_driver = None


class QueryParams(Nat44Params):
    transport = "ICMP"
    initiator_ports: Ports = Field(
        Ports(min=1024, max=5119), description="identifiers of the Initiator's queries"
    )
    responder_ports: Ports = Field(
        NoPorts(min=0, max=0), description="unused: queries have an identifier only"
    )

    def list_port_fields(self):
        """Return the identifier, which both sides share."""
        ports = self.initiator_ports
        return [four_tuples.TupleField("identifiers", "ICMP.id", 15, ports.min, ports.count)]


class QueryNat(Nat44):
    name = "nat44-queries"
    title = "ICMP queries behind public IPv4 addresses"
    params_model = QueryParams
    default_driver = None

    def make_client_transport(self):
        return Layer("ICMP", {"type": 8, "id": self.params.initiator_ports.min, "seq": 1})

    def make_server_transport(self):
        return Layer("ICMP", {"type": 0, "id": self.params.public_pool.ports.min, "seq": 1})


ALL = (TcpNat, QueryNat)
