"""Run file, testbed file, preset and flags: precedence, rejected values and their positions."""

import json
import re

import pytest
from v6t.base.errors import UsageError
from v6t.core.config.resolve import resolve, resolve_setup
from v6t.core.config.run_setup import make_setup
from v6t.core.config.settings import Settings, is_demonstration, make_preset_settings
from v6t.core.config.warnings import list_result_warnings
from v6t.core.config.yaml_file import YamlFile
from v6t.plugins.base import JUMBO_SIZES
from v6t.plugins.mape_br import MapEParams
from v6t.procedures.trial_runner import SHARED_CORES_WARNING
from v6t.tests.expect import expect_error


def resolved(tmp_path, run=None, bed=None, **flags):
    """Resolve a run from the texts of files, with the simulated tester by default."""
    paths = []
    for name, text in (("run.yaml", run), ("bed.yaml", bed)):
        path = None
        if text is not None:
            path = tmp_path / name
            path.write_text(text)
        paths.append(path)
    return resolve(*paths, **{"plugin": "mape-br", "tester": "sim", **flags})


# -- which wins --------------------------------------------------------------------------------


def test_defaults_are_the_quick_preset_on_the_embedded_tester():
    run = resolve(plugin="mape-br")
    assert run.preset == "quick"
    assert run.tester.kind == "embedded"
    assert run.dut.driver == "reference"
    assert run.frame_sizes == (104,)
    assert run.modes == ("bidirectional", "forward", "reverse")
    assert run.benchmarks == ("throughput",)
    assert run.line_rate_bps == 10e9
    assert is_demonstration(run)


def test_preset_then_file_then_flags(tmp_path):
    text = "procedure: {repetitions: 7, residual_wait_s: 3}"
    run = resolved(tmp_path, text, procedure={"repetitions": 9})
    assert run.procedure.repetitions == 9
    assert run.procedure.residual_wait_s == 3
    assert run.procedure.trial_duration_s == make_preset_settings("quick")["trial_duration_s"]


def test_flags_win_over_every_setting_of_the_files(tmp_path):
    run = resolved(
        tmp_path,
        "plugin: nobody\nparams: {ea_len: 13, psid_offset: 4}\npreset: rfc\nmodes: [forward]\n"
        "frame_sizes: [168]\nseed: 5\nlabel: file",
        "tester: {kind: trex, options: {capacity_fps: 5, surplus: 1}}\n"
        "dut: {options: {params: {psid_offset: 1, ea_len: 12}}}",
        params={"psid_offset": "0", "fw_dport.min": "5", "fw_dport.max": "9"},
        preset="quick",
        modes=["reverse"],
        frame_sizes=[552],
        seed=0,
        label="flag",
        tester_options={"capacity_fps": "7"},
        dut_params={"psid_offset": "3"},
    )
    assert run.params == {
        **{"ea_len": 13, "psid_offset": "0"},
        "fw_dport": {"min": "5", "max": "9"},
    }
    assert (run.preset, run.modes, run.frame_sizes) == ("quick", ("reverse",), (552,))
    assert (run.seed, run.label) == (0, "flag")
    assert run.tester.kind == "sim"
    assert run.tester.options == {"capacity_fps": "7", "surplus": 1}
    assert run.dut.options["params"] == {"psid_offset": "3", "ea_len": 12}
    params = make_setup(run).technology.params
    assert isinstance(params, MapEParams)
    assert (params.psid_offset, params.ea_len, params.fw_dport.max) == (0, 13, 9)


@pytest.mark.parametrize("field", ["count", "validate_connections"])
def test_text_is_converted_to_number_or_boolean(field, tmp_path):
    values = {"count": ("'12'", 12), "validate_connections": ("no", False)}
    text, expected = values[field]
    run = resolved(tmp_path, f"procedure: {{connections: {{{field}: {text}}}}}")
    assert getattr(run.procedure.connections, field) == expected


def test_values_of_flags_may_be_yaml():
    domains = "[{rule_ipv6: 2001:db8:d::/51, rule_ipv4: 198.51.100.0/24, share: 3}]"
    run = resolve(plugin="mape-br", params={"domains": domains})
    params = make_setup(run).technology.params
    assert isinstance(params, MapEParams)
    assert [d.share for d in params.all_domains] == [1, 3]


def test_links_of_the_testbed_reach_the_technology(tmp_path):
    bed = "links: {left: {vlan: 7, mtu: 9000, dut_mac: 0200.0000.0909}}\nline_rate: 2.5G"
    run = resolved(tmp_path, None, bed, frame_sizes=[1500])
    links = make_setup(run).technology.links
    assert (links.left.vlan, links.left.mtu) == (7, 9000)
    assert links.left.dut_mac == "02:00:00:00:09:09"
    assert (links.right.vlan, links.right.mtu) == (None, 1500)
    assert run.line_rate_bps == 2.5e9


def test_resolved_run_does_not_need_its_file(tmp_path):
    run = resolved(tmp_path, "params: {ces: all}\nlabel: 2001-01-01", "line_rate: 1G")
    config = run.to_json()
    assert {"links_left", "links_right", "line_rate_bps", "suited"} <= config.keys()
    assert not {"links", "line_rate", "driver_defaults"} & config.keys()
    again = Settings.from_config(json.loads(json.dumps(config)))
    assert again == run
    assert again.label == "2001-01-01"


def test_warnings_name_every_departure_from_the_rfc(tmp_path):
    lab = {"lab": "true"}
    # no departure: where, and how frames are counted
    shared, told, marks = list_result_warnings(
        resolve_setup(plugin="mape-br", tester="trex", tester_options=lab, preset="rfc")
    )
    assert shared == SHARED_CORES_WARNING
    assert "trailer" in told
    assert "option marks" in marks
    assert "of its ports" in " ".join(
        list_result_warnings(resolve_setup(plugin="mape-br", tester="trex", preset="rfc"))
    )
    quick = resolved(tmp_path, procedure={"loss_tolerance": 0.01})
    said = " ".join(list_result_warnings(make_setup(quick)))
    words = ("SIMULATED", "DEMONSTRATION", "2 repetitions", "loss tolerance 1.0000%", "2 % longer")
    assert [word for word in words if word not in said] == []


@pytest.mark.parametrize(("tags", "told"), [(250, True), (499, True), (500, False)])
def test_fewer_tags_than_rfc_requires_give_a_warning(tmp_path, tags, told):
    latency = {"duration_s": 2.0, "first_tag_s": 0.5, "tags": tags}
    run = resolved(tmp_path, "benchmarks: [latency]", procedure={"latency": latency})
    said = " ".join(list_result_warnings(make_setup(run)))
    assert (f"latency by {tags} tagged" in said) == told


SHARED = "dut: {driver: iptables, options: {ssh: {host: box}, version: 1.8.9, own: 1}}"


def test_another_driver_keeps_the_shared_options_of_the_testbed_file(tmp_path):
    (tmp_path / "bed.yaml").write_text(SHARED)
    setup = resolve_setup(None, tmp_path / "bed.yaml", plugin="nat44", tester="sim", dut="nftables")
    assert setup.settings.dut.options == {"ssh": {"host": "box"}}
    (warning,) = setup.resolution_warnings
    assert "own, version" in warning


def test_testbed_options_apply_to_driver_of_command_line(tmp_path):
    bed = "dut: {options: {ssh: {host: box}}}"
    run = resolved(tmp_path, None, bed, plugin="nat44", dut="nftables")
    assert run.dut.options == {"ssh": {"host": "box"}}


# -- rejected values and their positions -------------------------------------------------------

PLACE = re.compile(r"(?:run|bed)\.yaml(?::\d+)?")

# the files of tests/docs/test_messages.py are not repeated here
RUN_COMPLAINTS = [
    ("", "empty-file", "run.yaml", ""),
    ("text", "not-a-section", "run.yaml", ""),
    ("a: b: c", "invalid-yaml", "run.yaml:1", ""),
    ("plugin: x\nplugin: y", "duplicate", "run.yaml:2", "plugin"),
    ("params:\n  n: 1\nparams:\n  n: 2", "duplicate", "run.yaml:3", "params"),
    ("a: 1\n---\nb: 2", "invalid-yaml", "run.yaml:2", ""),
    ("a: 1\nb: \x07", "not-text", "run.yaml:2", ""),
    ("a: *b", "invalid-yaml", "run.yaml:1", ""),
    ("paramz: 1", "unknown-setting", "run.yaml:1", "paramz"),
    ("seed: 1\n? [1]\n: 2", "invalid-yaml", "run.yaml:2", ""),
    ("seed: x", "not-a-number", "run.yaml:1", "seed"),
    ("seed: .inf", "not-a-number", "run.yaml:1", "seed"),
    ("label: [1]", "not-text", "run.yaml:1", "label"),
    ("preset: fast", "unknown-name", "run.yaml:1", "preset"),
    ("procedure: {search: binry}", "unknown-name", "run.yaml:1", "procedure.search"),
    ("params: {br_address: 2001:db8::x}", "not-an-address", "run.yaml:1", "params.br_address"),
    ("procedure: {confirmations: -1}", "out-of-range", "run.yaml:1", "procedure.confirmations"),
    ("procedure: {connections: {validate_connections: 7}}",
     "not-a-boolean", "run.yaml:1", "procedure.connections.validate_connections"),
    ("tester: {kind: sim}\nline_rate: 1G", "wrong-kind-of-file", "run.yaml", ""),
    ("modes:\n- forwards", "unknown-name", "run.yaml:2", "modes.0"),
    ("benchmarks: [thruput]", "unknown-name", "run.yaml:1", "benchmarks.0"),
    ("frame_sizes: 104", "not-a-list", "run.yaml:1", "frame_sizes"),
    ("frame_sizes:\n- 104\n- 1.5", "not-a-number", "run.yaml:3", "frame_sizes.1"),
    ("frame_sizes:\n- 104\n- 5", "frame-too-small", "run.yaml:3", "frame_sizes.1"),
    ("frame_sizes: [104, 104]", "duplicate", "run.yaml:1", "frame_sizes"),
    ("params: 5", "not-a-section", "run.yaml:1", "params"),
    ("params:\n  ces: 1\n  psid_ofset: 1", "unknown-setting", "run.yaml:3", "params.psid_ofset"),
    ("params:\n  rule_ipv6: foo", "not-a-prefix", "run.yaml:2", "params.rule_ipv6"),
    ("params: {fw_dport: {min: 5, max: 1}}", "empty-range", "run.yaml:1", "params.fw_dport"),
    ("procedure: {latency: 5}", "not-a-section", "run.yaml:1", "procedure.latency"),
    ("seed: 1\nbenchmarks: []", "wrong-length", "run.yaml:2", "benchmarks"),
    ("params: {br_address: true}", "not-an-address", "run.yaml:1", "params.br_address"),
    ("params: {ea_len: true}", "not-a-number", "run.yaml:1", "params.ea_len"),
    ("seed: true", "not-a-number", "run.yaml:1", "seed"),
    ("params:\n  domains:\n  - rule_ipv7: x",
     "unknown-setting", "run.yaml:3", "params.domains.0.rule_ipv7"),
]  # fmt: skip

BED_COMPLAINTS = [
    ("dut:\n  options:\n    faults:\n      drop_every: x",
     "not-a-number", "bed.yaml:4", "dut.options.faults.drop_every"),
    ("tester:\n  options:\n    cores: 1\n    capacity_fps: -1",
     "out-of-range", "bed.yaml:4", "tester.options.capacity_fps"),
    ("tester: sim", "not-a-section", "bed.yaml:1", "tester"),
    ("tester:\n  options:\n    capacty_fps: 1",
     "unknown-setting", "bed.yaml:3", "tester.options.capacty_fps"),
    ("tester: {options: {capacity_fps: null}}",
     "not-a-number", "bed.yaml:1", "tester.options.capacity_fps"),
    ("dut:\n  driver: frr", "unknown-name", "bed.yaml:2", "dut.driver"),
    ("dut: {option: 5}", "unknown-setting", "bed.yaml:1", "dut.option"),
    ("dut: {options: {params: 5}}", "not-a-section", "bed.yaml:1", "dut.options.params"),
    ("dut:\n  options:\n    params:\n      psid_ofset: 1",
     "unknown-setting", "bed.yaml:4", "dut.options.params.psid_ofset"),
    ("dut:\n  options:\n    params:\n      psid_offset: 17",
     "out-of-range", "bed.yaml:3", "dut.options.params"),
    ("dut: {options: {faults: 5}}", "not-a-section", "bed.yaml:1", "dut.options.faults"),
    ("dut: {options: {faults: {corrupt: 1}}}",
     "unknown-setting", "bed.yaml:1", "dut.options.faults.corrupt"),
    ("links: {middle: {}}", "unknown-setting", "bed.yaml:1", "links.middle"),
    ("links:\n  left: {vlan: 5, background: {vlan: 5}}\n  right: {vlan: 6, background: {vlan: 7}}",
     "missing-setting", "bed.yaml:2", "links.left.background"),
    ("links:\n  left: {background: {vlan: 5}}",
     "missing-setting", "bed.yaml:2", "links.left.background"),
    ("links:\n  left: {vlan: 4, background: {vlan: 5}}", "missing-setting", "bed.yaml:1", "links"),
    ("links:\n  left: {vlan: 4, background: {vlan: 5, device: 1.2.3.4/5}}",
     "not-an-address", "bed.yaml:2", "links.left.background.device"),
    ("links:\n  left:\n    vlan: 5000", "out-of-range", "bed.yaml:3", "links.left.vlan"),
    ("links: {left: {vlan: [100, 200]}}", "invalid-value", "bed.yaml:1", "links.left.vlan"),
    ("links:\n  left:\n    vlan: true", "not-a-number", "bed.yaml:3", "links.left.vlan"),
    ("plugin: mape-br\nseed: 1", "wrong-kind-of-file", "bed.yaml", ""),
    ("seed: 1\nline_rate: 1G", "unknown-setting", "bed.yaml:1", "seed"),
    ("line_rate: 1e9999", "not-a-number", "bed.yaml:1", "line_rate"),
    ("line_rate: 100bps", "out-of-range", "bed.yaml:1", "line_rate"),
    ("line_rate: [10]", "not-a-number", "bed.yaml:1", "line_rate"),
    ("line_rate: true", "not-a-number", "bed.yaml:1", "line_rate"),
]  # fmt: skip


def test_driver_without_background_vlans_rejects_them(tmp_path):
    links = "left: {vlan: 5, background: {vlan: 6}}, right: {vlan: 5, background: {vlan: 6}}"
    (tmp_path / "bed.yaml").write_text(f"dut: {{driver: openbsd-pf}}\nlinks: {{{links}}}")
    with expect_error("no-background", path=["dut", "driver"]):
        resolve(None, tmp_path / "bed.yaml", plugin="ipv4-router")


@pytest.mark.parametrize("preset", ["quick", "rfc"])
@pytest.mark.parametrize("name", ["ipv4-router", "ipv6-router", "mape-br", "nat64", "siit"])
def test_default_frame_sizes_fit_tagged_links(name, preset, tmp_path):
    """The smallest frame is longer by its tag; the others are those of RFC 8219 section 5.1.1."""
    (tmp_path / "bed.yaml").write_text("links: {left: {vlan: 5}, right: {vlan: 6}}")
    plain = resolve(plugin=name, preset=preset).frame_sizes
    tagged = resolve(None, tmp_path / "bed.yaml", plugin=name, preset=preset).frame_sizes
    known = [size for size in tagged if size != 1522]
    assert known[0] == plain[0] + 4
    assert known[1:] == list(plain[1:])


def test_rfc_preset_with_jumbo_links_measures_jumbo_frames(tmp_path):
    (tmp_path / "bed.yaml").write_text("links: {left: {mtu: 9216}, right: {mtu: 9216}}\n")
    run = resolve(None, tmp_path / "bed.yaml", plugin="siit", preset="rfc")
    assert run.frame_sizes == (84, 128, 256, 512, 768, 1024, 1280, 1518, *JUMBO_SIZES)


@pytest.mark.parametrize(
    ("text", "code", "place", "path"), [*RUN_COMPLAINTS, *BED_COMPLAINTS], ids=repr
)
def test_wrong_file_has_code_line_and_path(text, code, place, path, tmp_path):
    files = (text, None) if place.startswith("run") else (None, text)
    with pytest.raises(UsageError) as caught:
        resolved(tmp_path, *files)
    error = caught.value
    assert (error.code, PLACE.search(error.message)[0]) == (code, place)
    assert ".".join(map(str, error.path)) == path


def test_a_plugin_or_tester_of_a_file_that_does_not_exist(tmp_path):
    with expect_error("unknown-name", path=["plugin"]):
        resolved(tmp_path, "seed: 1\nplugin: mapebr", plugin=None)
    with expect_error("unknown-name", path=["tester", "kind"]):
        resolved(tmp_path, None, "tester:\n  kind: simm", tester=None)
    with expect_error("unknown-setting", path=["tester", "options", "corse"]):
        resolved(tmp_path, None, "tester:\n  options: {corse: 1}", tester="trex")


def test_invalid_option_error_does_not_name_the_file(tmp_path):
    run = "params: {ea_len: 13}\nprocedure: {repetitions: 2}\nmodes: [forward]\nframe_sizes: [168]"
    bed = "dut: {options: {params: {ea_len: 13}}}\ntester: {options: {surplus: 1}}"
    for flags in (
        {"params": {"psid_ofset": "1"}},
        {"params": {"psid_offset": "77"}},
        {"procedure": {"repetitions": 0}},
        {"modes": ["fwd"]},
        {"frame_sizes": [1]},
        {"plugin": "mapee"},
        {"tester": "simm"},
        {"tester_options": {"x": "1"}},
        {"dut": "cisco"},
        {"dut_params": {"psid_offset": "77"}},
    ):
        with pytest.raises(UsageError) as caught:
            resolved(tmp_path, run, bed, **flags)
        assert "yaml" not in caught.value.message, flags


@pytest.mark.parametrize(
    "data", [b"\xff\xfe\x00", b"\x80", "plugin: mape-br".encode("utf-16")], ids=repr
)
def test_binary_file_is_rejected(data, tmp_path):
    (tmp_path / "run.yaml").write_bytes(data)
    with expect_error("not-text", mentions="run.yaml"):
        YamlFile(tmp_path / "run.yaml")
