"""The number of connections of runs with subscribers."""

import pytest
from v6t.core.config.resolve import resolve

SUBSCRIBERS = {"subscribers": "1000", "connections_per_subscriber": "200"}


@pytest.mark.parametrize("preset", ["quick", "rfc"])
@pytest.mark.parametrize(
    ("plugin", "device"),
    [("nat44", "nftables"), ("nat64", "jool"), ("dslite-aftr", "vpp")],
)
def test_connection_count_with_subscribers_is_their_product(plugin, device, preset):
    options = {"start": "true"} if device == "vpp" else {}
    assert (
        resolve(
            plugin=plugin, dut=device, dut_params=options, params=SUBSCRIBERS, preset=preset
        ).procedure.connections.count
        == 200_000
    )


def test_connection_count_given_with_subscribers_is_kept():
    assert (
        resolve(
            plugin="nat44", tester="sim", params=SUBSCRIBERS, procedure={"connections.count": "9"}
        ).procedure.connections.count
        == 9
    )
