"""Run file, testbed file, preset and flags: precedence, rejected values and their positions."""

import json
import re

import pytest
from v6t.base.errors import UsageError
from v6t.core.config.compatibility import list_technologies
from v6t.core.config.plugins import load_technology_type
from v6t.core.config.resolve import resolve, resolve_setup
from v6t.core.config.run_setup import make_setup
from v6t.core.config.settings import Settings, is_demonstration, make_preset_settings
from v6t.core.config.warnings import list_result_warnings
from v6t.core.config.yaml_file import YamlFile
from v6t.drivers.duts.registry import list_driver_names
from v6t.plugins.base import JUMBO_SIZES
from v6t.plugins.mape_br import MapEParams
from v6t.procedures.trial_runner import SHARED_CORES_WARNING
from v6t.tests.expect import expect_error


def resolve_texts(tmp_path, run=None, bed=None, **flags):
    """Resolve a run from the texts of files, with the simulated tester by default."""
    paths = [None, None]
    for index, (name, text) in enumerate((("run.yaml", run), ("bed.yaml", bed))):
        if text is not None:
            paths[index] = tmp_path / name
            paths[index].write_text(text)
    return resolve(*paths, **{"plugin": "mape-br", "tester": "sim", **flags})


# -- precedence --------------------------------------------------------------------------------


def test_defaults_are_the_quick_preset_on_the_embedded_tester():
    run = resolve(plugin="mape-br")
    assert (run.preset, run.tester.kind, run.dut.driver) == ("quick", "embedded", "reference")
    assert (run.frame_sizes, run.benchmarks) == ((104,), ("throughput",))
    assert run.modes == ("bidirectional", "forward", "reverse")
    assert run.line_rate_bps == 10e9
    assert is_demonstration(make_setup(run))


def test_preset_then_file_then_flags(tmp_path):
    text = "procedure: {repetitions: 7, residual_wait_s: 3}"
    run = resolve_texts(tmp_path, text, procedure={"repetitions": 9})
    assert run.procedure.repetitions == 9
    assert run.procedure.residual_wait_s == 3
    assert run.procedure.trial_duration_s == make_preset_settings("quick")["trial_duration_s"]


def test_flags_win_over_every_setting_of_the_files(tmp_path):
    run = resolve_texts(
        tmp_path,
        "plugin: nobody\nparams: {ea_len: 13, psid_offset: 4}\npreset: rfc\nmodes: [forward]\n"
        "frame_sizes: [168]\nseed: 5\nlabel: file",
        "tester: {kind: trex, options: {capacity_fps: 5, surplus: 1}}\n"
        "dut: {options: {params: {psid_offset: 1, ea_len: 12}}}",
        params={"psid_offset": "0", "fw_dport.min": "5", "fw_dport.max": "9"},
        preset="quick", modes=["reverse"], frame_sizes=[552], seed=0, label="flag",
        tester_options={"capacity_fps": "7"}, dut_params={"psid_offset": "3"},
    )  # fmt: skip
    ports = {"min": "5", "max": "9"}
    assert run.params == {"ea_len": 13, "psid_offset": "0", "fw_dport": ports}
    assert (run.preset, run.modes, run.frame_sizes) == ("quick", ("reverse",), (552,))
    assert (run.seed, run.label) == (0, "flag")
    assert run.tester.kind == "sim"
    assert run.tester.options == {"capacity_fps": "7", "surplus": 1}
    assert run.dut.options["params"] == {"psid_offset": "3", "ea_len": 12}
    params = make_setup(run).technology.params
    assert isinstance(params, MapEParams)
    assert (params.psid_offset, params.ea_len, params.fw_dport.max) == (0, 13, 9)


def test_text_is_converted_to_number_or_boolean(tmp_path):
    text = "procedure: {connections: {count: '12', validate_connections: no}}"
    connections = resolve_texts(tmp_path, text).procedure.connections
    assert (connections.count, connections.validate_connections) == (12, False)


def test_links_of_the_testbed_reach_the_technology(tmp_path):
    bed = "links: {left: {vlan: 7, mtu: 9000, dut_mac: 0200.0000.0909}}\nline_rate: 2.5G"
    run = resolve_texts(tmp_path, None, bed, frame_sizes=[1500])
    links = make_setup(run).technology.links
    assert (links.left.vlan, links.left.mtu) == (7, 9000)
    assert links.left.dut_mac == "02:00:00:00:09:09"
    assert (links.right.vlan, links.right.mtu) == (None, 1500)
    assert run.line_rate_bps == 2.5e9


def test_resolved_run_does_not_need_its_file(tmp_path):
    run = resolve_texts(tmp_path, "params: {ces: all}\nlabel: 2001-01-01", "line_rate: 1G")
    config = run.to_json()
    assert {"links_left", "links_right", "line_rate_bps", "suited"} <= config.keys()
    assert not {"links", "line_rate", "driver_defaults"} & config.keys()
    again = Settings.from_config(json.loads(json.dumps(config)))
    assert again == run
    assert again.label == "2001-01-01"


def test_trex_gives_warnings_about_cores_trailer_and_marks():
    flags = {"plugin": "mape-br", "tester": "trex", "preset": "rfc"}
    cores, trailer, marks = list_result_warnings(
        resolve_setup(**flags, tester_options={"lab": "true"})
    )
    assert cores == SHARED_CORES_WARNING
    assert "trailer" in trailer
    assert "option marks" in marks
    assert "of its ports" in " ".join(list_result_warnings(resolve_setup(**flags)))


def test_warnings_name_every_departure_from_the_rfc(tmp_path):
    run = resolve_texts(tmp_path, procedure={"loss_tolerance": 0.01})
    warnings = " ".join(list_result_warnings(make_setup(run)))
    words = ("SIMULATED", "DEMONSTRATION", "2 repetitions", "loss tolerance 1.0000%", "2 % longer")
    assert [word for word in words if word not in warnings] == []


@pytest.mark.parametrize(("tags", "warned"), [(250, True), (499, True), (500, False)])
def test_fewer_tags_than_rfc_requires_give_a_warning(tmp_path, tags, warned):
    latency = {"duration_s": 2.0, "first_tag_s": 0.5, "tags": tags}
    run = resolve_texts(tmp_path, "benchmarks: [latency]", procedure={"latency": latency})
    warnings = " ".join(list_result_warnings(make_setup(run)))
    assert (f"latency by {tags} tagged" in warnings) == warned


def test_another_driver_keeps_the_shared_options_of_the_testbed_file(tmp_path):
    (tmp_path / "bed.yaml").write_text(
        "dut: {driver: iptables, options: {ssh: {host: box}, version: 1.8.9, own: 1}}"
    )
    setup = resolve_setup(None, tmp_path / "bed.yaml", plugin="nat44", tester="sim", dut="nftables")
    assert setup.settings.dut.options == {"ssh": {"host": "box"}}
    (warning,) = setup.resolution_warnings
    assert "own, version" in warning


def test_testbed_options_apply_to_driver_of_command_line(tmp_path):
    bed = "dut: {options: {ssh: {host: box}}}"
    run = resolve_texts(tmp_path, None, bed, plugin="nat44", dut="nftables")
    assert run.dut.options == {"ssh": {"host": "box"}}


# -- defaults of drivers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("technology", "driver"), [(t, d) for d in list_driver_names() for t in list_technologies(d)]
)
def test_every_driver_plans_its_technologies_and_lists_replaced_defaults(technology, driver):
    setup = resolve_setup(plugin=technology, dut=driver)
    plan = setup.driver.plan(setup.intent, setup.driver.make_example_facts(setup.intent))
    assert plan.steps or not setup.driver.configures_device
    overrides = setup.driver.get_parameter_overrides(technology)
    assert set(setup.settings.driver_defaults) == set(overrides)
    fields = load_technology_type(technology).params_model.model_fields
    for name, override in overrides.items():
        assert setup.settings.params[name] == override.value != fields[name].get_default()
        warnings = list_result_warnings(setup)
        assert any(name in warning and override.reason in warning for warning in warnings)


def test_user_values_override_driver_defaults():
    params = {"rule_ipv6": "2001:db9::/40"}
    settings = resolve_setup(plugin="mapt-br", dut="vpp", params=params).settings
    assert settings.params["rule_ipv6"] == "2001:db9::/40"
    assert settings.driver_defaults == ("dmr",)


# -- invalid values and their positions --------------------------------------------------------

# more files: tests/docs/test_messages.py; types of values: tests/base/test_errors.py
INVALID_FILES = [
    ("", "empty-file", "run.yaml", ""),
    ("text", "not-a-section", "run.yaml", ""),
    ("a: b: c", "invalid-yaml", "run.yaml:1", ""),
    ("params:\n  n: 1\nparams:\n  n: 2", "duplicate", "run.yaml:3", "params"),
    ("a: 1\n---\nb: 2", "invalid-yaml", "run.yaml:2", ""),
    ("a: 1\nb: \x07", "not-text", "run.yaml:2", ""),
    ("a: *b", "invalid-yaml", "run.yaml:1", ""),
    ("paramz: 1", "unknown-setting", "run.yaml:1", "paramz"),
    ("seed: 1\n? [1]\n: 2", "invalid-yaml", "run.yaml:2", ""),
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
    ("params: {br_address: true}", "not-an-address", "run.yaml:1", "params.br_address"),
    ("procedure: {latency: 5}", "not-a-section", "run.yaml:1", "procedure.latency"),
    ("seed: 1\nbenchmarks: []", "wrong-length", "run.yaml:2", "benchmarks"),
    ("params:\n  domains:\n  - rule_ipv7: x",
     "unknown-setting", "run.yaml:3", "params.domains.0.rule_ipv7"),
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


@pytest.mark.parametrize(("text", "code", "place", "path"), INVALID_FILES, ids=repr)
def test_invalid_file_has_code_line_and_path(text, code, place, path, tmp_path):
    name = "run" if place.startswith("run") else "bed"
    with pytest.raises(UsageError) as caught:
        resolve_texts(tmp_path, **{name: text})
    error = caught.value
    assert re.search(r"(?:run|bed)\.yaml(?::\d+)?", error.message)[0] == place
    assert (error.code, ".".join(map(str, error.path))) == (code, path)


@pytest.mark.parametrize(
    ("run", "bed", "flags", "code", "path"),
    [
        ("seed: 1\nplugin: mapebr", None, {"plugin": None}, "unknown-name", ["plugin"]),
        (None, "tester: {kind: simm}", {"tester": None}, "unknown-name", ["tester", "kind"]),
        (None, "tester: {options: {corse: 1}}", {"tester": "trex"},
         "unknown-setting", ["tester", "options", "corse"]),
    ],
)  # fmt: skip
def test_unknown_plugin_tester_or_option_of_a_file_is_rejected(
    run, bed, flags, code, path, tmp_path
):
    with expect_error(code, path=path):
        resolve_texts(tmp_path, run, bed, **flags)


@pytest.mark.parametrize("flags", [
    {"params": {"psid_ofset": "1"}}, {"params": {"psid_offset": "77"}}, {"plugin": "mapee"},
    {"procedure": {"repetitions": 0}}, {"modes": ["fwd"]}, {"frame_sizes": [1]}, {"dut": "cisco"},
    {"tester": "simm"}, {"tester_options": {"x": "1"}}, {"dut_params": {"psid_offset": "77"}},
], ids=repr)  # fmt: skip
def test_invalid_option_error_does_not_name_the_file(flags, tmp_path):
    run = "params: {ea_len: 13}\nprocedure: {repetitions: 2}\nmodes: [forward]\nframe_sizes: [168]"
    bed = "dut: {options: {params: {ea_len: 13}}}\ntester: {options: {surplus: 1}}"
    with pytest.raises(UsageError) as caught:
        resolve_texts(tmp_path, run, bed, **flags)
    assert "yaml" not in caught.value.message


@pytest.mark.parametrize(
    "data", [b"\xff\xfe\x00", b"\x80", "plugin: mape-br".encode("utf-16")], ids=repr
)
def test_binary_file_is_rejected(data, tmp_path):
    (tmp_path / "run.yaml").write_bytes(data)
    with expect_error("not-text", mentions="run.yaml"):
        YamlFile(tmp_path / "run.yaml")
