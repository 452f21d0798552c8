"""Binding a run validates every parameter once."""

import pytest
from v6t.core.config.plugins import load_plugin
from v6t.core.config.resolve import resolve
from v6t.tests.core.support import v6t

NEEDED = {"--no-report": 1, "--report": 1}
"""When the run is bound."""


@pytest.fixture
def validations(monkeypatch):
    """Count the validations of a technology's parameters."""
    count = []

    def watch(plugin):
        model = load_plugin(plugin).params_model
        real = model.model_validate

        def counted(*given, **named):
            count.append(plugin)
            return real(*given, **named)

        monkeypatch.setattr(model, "model_validate", counted)
        return count

    return watch


@pytest.mark.slow
@pytest.mark.parametrize("report", NEEDED)
@pytest.mark.parametrize("plugin", ["mape-br", "nat44"])
def test_parameters_are_validated_as_often_as_needed(plugin, report, validations, tmp_path):
    count = validations(plugin)
    run = ("run", "--plugin", plugin, "--tester", "sim", "--reps", "1", "--mode", "forward")
    assert v6t(*run, report, "-o", tmp_path / "out").status == 0
    assert len(count) == NEEDED[report]
    count.clear()
    assert v6t(*run, "--dry-run").status == 0
    assert len(count) == 1


def test_device_params_are_validated_separately(validations):
    count = validations("mape-br")
    run = ("run", "--plugin", "mape-br", "--set-dut", "psid_offset=4", "--dry-run")
    assert v6t(*run).status == 0
    assert len(count) == 2


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
