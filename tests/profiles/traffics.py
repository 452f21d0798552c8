"""Traffic for several tests of the compiler."""

from dataclasses import dataclass

from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.model import (
    Expression,
    Kind,
    Layer,
    Role,
    Traffic,
    TrafficClass,
    Variable,
    VariableBits,
)

ETHER = Layer("Ether", {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"})
IPV6 = Layer("IPv6", {"src": "2001:db8:ce:0:0:c000:200:0", "dst": "2001:db8:ffff::1"})
IPV4 = Layer("IP", {"src": "192.0.2.0", "dst": "198.51.100.1", "flags": "DF", "ttl": 64})
UDP = Layer("UDP", {"sport": 0, "dport": 12345})
VLAN = Layer("Dot1Q", {"vlan": 42})
FOUR_IN_SIX = (ETHER, IPV6, IPV4, UDP)
UDP6 = (ETHER, IPV6, UDP)
UDP4 = (ETHER, IPV4, UDP)


@dataclass(frozen=True)
class Binding:
    variable: str
    field: str
    first: int
    last: int
    var_first: int = 0
    var_last: int | None = None
    add: int = 0

    def bits(self, variables):
        """Return the bound bits of the named variable."""
        variable = next(v for v in variables if v.name == self.variable)
        length = self.last - self.first + 1
        return VariableBits(variable, self.first, length, self.var_first, self.add)


def bind_fields(layers, variables, bindings):
    """Return the layers with expressions for all bindings."""
    layers, names = list(layers), [layer.name for layer in layers]
    for binding in bindings:
        path, name = binding.field.split(".")
        label, _, nth = path.partition(":")
        at = [k for k, layer_name in enumerate(names) if layer_name == label][int(nth or 0)]
        value = layers[at].fields.get(name, 0)
        if not isinstance(value, Expression):
            value = Expression(value, ())
        value = Expression(value.base, (*value.bits, binding.bits(variables)))
        layers[at] = layers[at].replace(**{name: value})
    return tuple(layers)


def make_class(variables, bindings, layers=UDP6, frame_size=128):
    """Make a class whose variables are drawn in the given order."""
    order = tuple(v.name for v in variables)
    layers = bind_fields(layers, variables, bindings)
    return TrafficClass("fg", Role.FOREGROUND, layers, frame_size, draw_order=order)


MAPE_BINDINGS = (
    Binding("ea", "IPv6.src", 51, 63), Binding("ea", "IPv6.src", 104, 111, 0, 7),
    Binding("ea", "IPv6.src", 123, 127, 8, 12), Binding("ea", "IP.src", 24, 31, 0, 7),
    Binding("ea", "UDP.sport", 0, 4, 8, 12), Binding("low", "UDP.sport", 5, 15),
)  # fmt: skip


def make_mape(kind=Kind.UNIFORM, layers=FOUR_IN_SIX):
    """Make the class of Figure 8 of Mapperf: 2001:db8:ce::/51, 192.0.2.0/24, EA length 13."""
    return make_class((Variable("ea", 13, kind), Variable("low", 11)), MAPE_BINDINGS, layers, 104)


def make_background(weight=1):
    """Make a class of native IPv6 traffic with the ports of RFC 4814."""
    sport, dport = Variable("sport", 16, low=1024), Variable("dport", 16, low=1, high=49151)
    layers = (ETHER, IPV6, Layer("UDP", {"sport": sport, "dport": dport}))
    return TrafficClass("bg", Role.BACKGROUND, layers, 104, weight=weight)


def make_traffic(*variables, bind, layers=UDP6, frame_size=128, seed=1):
    return Traffic("forward", (make_class(variables, bind, layers, frame_size),), seed)


def compile_stream(*variables, bind, frames=None, cores=1, **keys):
    """Compile traffic of a single class to its stream."""
    traffic = make_traffic(*variables, bind=bind, **keys)
    return compile_traffic(traffic, frames=frames, cores=cores).streams[0]
