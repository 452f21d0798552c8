"""Impossible addresses in any command or file are rejected with status 2."""

import pytest
from v6t.tests.core.support import v6t
from v6t.tests.expect import expect_refusal

BACKGROUND = """\
links:
  left: {{vlan: 100, background: {{vlan: 200, {}}}}}
  right: {{vlan: 100, background: {{vlan: 200}}}}
"""


@pytest.mark.parametrize(
    "words",
    [
        ("nat44", "pool_first=255.255.255.250", "pool_count=10"),
        ("nat44", "responder_ipv4=240.0.0.1"),
        ("mape-br", "server_ipv4=240.0.0.1"),
        ("ipv4-router", "left_ipv4=240.0.0.2"),
        ("mape-br", "rule_ipv6=ff00::/51"),
        ("mapt-br", "dmr=fe80::/64"),
        ("mape-br", "rule_ipv4=126.0.0.0/7", "ea_len=30", "rule_ipv6=2001:d00::/34", "ces=all"),
        ("nat64", "tester_left_ipv6=fe80::2%eth0"),
        ("mape-br", "rule_ipv6=2001:db8:ce::%eth0/51"),
        ("mape-br", "tester_left_ipv6=2001:db8:9::64"),
        ("nat64", "initiator_ipv6=2001:db8::ffff:ffff:ffff:fffe", "initiator_count=10",
         "responder_count=2", "responder_ipv4=198.19.0.20", "enumerate_ips=3",
         "initiator_ports={min: 1024, max: 1033}", "responder_ports={min: 1, max: 1}"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["run", "compile"])
def test_impossible_address_is_refused(command, words):
    plugin, *given = words
    more = {"run": ["--dry-run"], "compile": ["--count", "8"]}[command]
    settings = [word for text in given for word in ("--set", text)]
    expect_refusal(v6t(command, "--plugin", plugin, *settings, *more))


@pytest.mark.parametrize(
    "background",
    [
        "tester: '2001:2:0:b000::2%eth0'",
        "device: '2001:2:0:b000::1%eth0/64'",
        "tester: '2001:2:0:b009::2'",
        "device: '2001:db8:a::1/64', tester: '2001:db8:a::1'",
        "device: '2001:2:0:f000::9/64', tester: '2001:2:0:f000::8'",
        "device: '2001:2:0:f001::9/64', tester: '2001:2:0:f001::8'",
    ],
)
def test_background_vlan_of_the_testbed_file_is_checked(tmp_path, background):
    testbed = tmp_path / "testbed.yaml"
    testbed.write_text(BACKGROUND.format(background))
    done = v6t("run", "--plugin", "ipv6-router", "--testbed", str(testbed), "--dry-run")
    expect_refusal(done)


def test_parameter_of_a_run_file_is_named_with_its_line(tmp_path):
    run = tmp_path / "run.yaml"
    run.write_text("plugin: mape-br\nparams:\n  tester_left_ipv6: 2001:db8:9::2\n")
    assert expect_refusal(v6t("run", str(run), "--dry-run"), "invalid-intent").startswith(
        f"v6t: {run}:3: "
    )


def test_parameter_that_the_device_alone_has_is_checked():
    wrong = ("--set-dut", "tester_left_ipv6=2001:db8:9::2")
    expect_refusal(
        v6t("run", "--plugin", "mape-br", "--dut", "reference", *wrong, "--dry-run"),
        "invalid-intent",
    )
