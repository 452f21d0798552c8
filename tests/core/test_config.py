"""Run file, testbed file, preset and flags: precedence, rejected values and their positions."""

import json
import re

import pytest
from v6t.base.errors import UsageError
from v6t.core.config.compatibility import list_technologies
from v6t.core.config.plugins import load_technology_type
from v6t.core.config.resolve import resolve_setup
from v6t.core.config.run_setup import make_setup
from v6t.core.config.settings import Settings, make_preset_settings
from v6t.core.config.warnings import find_short_trials, list_result_warnings
from v6t.core.config.yaml_file import YamlFile
from v6t.drivers.duts.registry import list_driver_names
from v6t.plugins.base import JUMBO_SIZES
from v6t.plugins.mape_br import MapEParams
from v6t.procedures.trial_runner import SHARED_CORES_WARNING
from v6t.tests.core.support import read_vectors
from v6t.tests.expect import expect_error
from v6t.tests.settings import resolve


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
    assert (run.modes, run.line_rate_bps) == (("bidirectional", "forward", "reverse"), 10e9)
    assert find_short_trials(make_setup(run))


def test_flags_override_file_and_file_overrides_preset(tmp_path):
    text = "procedure: {repetitions: 7, residual_wait_s: 3}"
    run = resolve_texts(tmp_path, text, procedure={"repetitions": 9})
    assert (run.procedure.repetitions, run.procedure.residual_wait_s) == (9, 3)
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
    assert run.params == {"ea_len": 13, "psid_offset": "0", "fw_dport": {"min": "5", "max": "9"}}
    assert (run.preset, run.modes, run.frame_sizes) == ("quick", ("reverse",), (552,))
    assert (run.seed, run.label) == (0, "flag")
    assert run.tester.kind == "sim" and run.tester.options == {"capacity_fps": "7", "surplus": 1}
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
    assert again == run and again.label == "2001-01-01"


def test_trex_gives_warnings_about_cores_trailer_and_marks():
    flags = {"plugin": "mape-br", "tester": "trex", "preset": "rfc"}
    in_lab = resolve_setup(**flags, tester_options={"lab": "true"})
    cores, trailer, marks = list_result_warnings(in_lab)
    assert cores == SHARED_CORES_WARNING
    assert "trailer" in trailer
    assert "option marks" in marks
    assert "of its ports" in " ".join(list_result_warnings(resolve_setup(**flags)))


def test_another_driver_keeps_the_shared_options_of_the_testbed_file(tmp_path):
    bed = "dut: {driver: iptables, options: {ssh: {host: box}, version: 1.8.9, own: 1}}"
    (tmp_path / "bed.yaml").write_text(bed)
    setup = resolve_setup(None, tmp_path / "bed.yaml", plugin="nat44", tester="sim", dut="nftables")
    assert setup.settings.dut.options == {"ssh": {"host": "box"}}
    (warning,) = setup.resolution_warnings
    assert "own, version" in warning
    bed = "dut: {options: {ssh: {host: box}}}"  # without a driver
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
    assert (settings.params["rule_ipv6"], settings.driver_defaults) == ("2001:db9::/40", ("dmr",))


# -- invalid values and their positions --------------------------------------------------------


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
    assert known[0] == plain[0] + 4 and known[1:] == list(plain[1:])


def test_rfc_preset_with_jumbo_links_measures_jumbo_frames(tmp_path):
    (tmp_path / "bed.yaml").write_text("links: {left: {mtu: 9216}, right: {mtu: 9216}}\n")
    run = resolve(None, tmp_path / "bed.yaml", plugin="siit", preset="rfc")
    assert run.frame_sizes == (84, 128, 256, 512, 768, 1024, 1280, 1518, *JUMBO_SIZES)


# more files: tests/docs/test_messages.py; types of values: tests/base/test_errors.py
@pytest.mark.parametrize(("text", "code", "place", "path"), read_vectors("invalid_files"), ids=repr)
def test_invalid_file_has_code_line_and_path(text, code, place, path, tmp_path):
    name = "run" if place.startswith("run") else "bed"
    with pytest.raises(UsageError) as caught:
        resolve_texts(tmp_path, **{name: text})
    error = caught.value
    assert re.search(r"(?:run|bed)\.yaml(?::\d+)?", error.message)[0] == place
    assert (error.code, ".".join(map(str, error.path))) == (code, path)


@pytest.mark.parametrize(("run", "bed", "flags", "code", "path"), [
    ("seed: 1\nplugin: mapebr", None, {"plugin": None}, "unknown-name", ["plugin"]),
    (None, "tester: {kind: simm}", {"tester": None}, "unknown-name", ["tester", "kind"]),
    (None, "tester: {options: {corse: 1}}", {"tester": "trex"},
     "unknown-setting", ["tester", "options", "corse"]),
])  # fmt: skip
def test_unknown_name_in_a_file_is_rejected(run, bed, flags, code, path, tmp_path):
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


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"\x80", "x: y".encode("utf-16")], ids=repr)
def test_binary_file_is_rejected(data, tmp_path):
    (tmp_path / "run.yaml").write_bytes(data)
    with expect_error("not-text", mentions="run.yaml"):
        YamlFile(tmp_path / "run.yaml")


def flatten(values, above=""):
    for name, value in values.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{above}{name}.")
        else:
            yield above + name, value


def test_every_value_of_the_rfc_preset_has_its_clause():
    """A new setting needs an entry in rfc_preset.yaml: its value, under the clause that it follows."""
    run = resolve(plugin="mape-br", preset="rfc")
    values = [s for settings in read_vectors("rfc_preset").values() for s in settings.items()]
    assert dict(flatten(run.model_dump(mode="json")["procedure"])) == dict(values)
    assert len(dict(values)) == len(values)
    # RFC 8219, section 5.3: both directions at once, and each alone
    assert run.modes == ("bidirectional", "forward", "reverse")
    assert run.frame_sizes == (104, 168, 296, 552, 808, 1064, 1320, 1518)
    assert not find_short_trials(make_setup(run))


def test_bursts_of_30_s_can_be_searched():
    """RFC 9004 section 6.2: the longest burst MUST be configurable to 30 s."""
    run = resolve(plugin="mape-br", preset="rfc", procedure={"back_to_back.longest_s": "30"})
    assert run.procedure.back_to_back.longest_s == 30.0
