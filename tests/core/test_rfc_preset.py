"""The preset ``rfc``: every value and the clause that it follows."""

from v6t.core.config.resolve import resolve
from v6t.core.config.run_setup import make_setup
from v6t.core.config.settings import is_demonstration

GOAL = {
    **{"exceed_ratio": 0.0, "width": 0.005, "preceding_targets": 2, "expansion_coefficient": 2},
    **{"final_trial_s": None, "initial_trial_s": None, "duration_sum_s": None},
}
# fmt: off
SETTINGS = {
    "RFC 2544 section 23 d": {"residual_wait_s": 2.0},
    "RFC 2544 section 23 e: 5 s at least; 10 s in the papers": {"pause_s": 10.0},
    "RFC 2544 section 24: every trial is a full one": {
        "trial_duration_s": 60.0, "final_duration_s": None, "frame_loss.duration_s": None},
    "RFC 2544 section 26.1": {"loss_tolerance": 0.0},
    "RFC 2544 section 26.3: all rates from the maximum down": {
        "frame_loss.step": 0.1, "frame_loss.rates_fps": None},
    "RFC 2544 section 26.4, RFC 9004 section 6.3": {"back_to_back.repetitions": 50},
    "RFC 2544 section 26.5": {"system_recovery.overload_s": 60.0},
    "RFC 3511 section 5.2.2.1: below the rate that was found": {
        "tcp.rate_cps": None, "tcp.rate_share": 0.5},
    "RFC 3511 sections 5.2.3, 5.3.3": {"tcp.closing": "rst"},
    "RFC 6201 section 1.4: several, averaged": {"reset.repetitions": 5},
    "RFC 6201 section 4.2": {"reset.hook": "software-reset"},
    "RFC 8219 section 7.2: the throughput, which is the median of 20": {
        "rate_from": "median", "latency.rate_fps": None, "latency.rate_bps": None},
    "RFC 8219 section 7.2: 500 tags at least; LAT-04": {
        "latency.duration_s": 120.0, "latency.tags": 50_000, "latency.first_tag_s": 60.0},
    "RFC 8219 sections 7.2, 7.3.1, 7.3.2: a fixed number": {"repetitions": 20, "adaptive": None},
    "RFC 8219 sections 7.3.1, 7.3.2: the throughput": {
        "delay_variation.rate_bps": None, "delay_variation.rate_fps": None,
        "delay_variation.duration_s": 60.0},
    "RFC 8219 section 9.2": {"resolution.timeout_s": 1.0},
    "RFC 8219 section 9.2: the required combination alone": {
        "resolution.cached": [0], "resolution.own_aaaa": [0]},
    "RFC 8219 section 9.2.1": {"resolution.delta": 0.1},
    "RFC 8219 section 10.2.1: n and further benchmarks are the user's": {
        "flows.counts": [1, 10, 100], "flows.also": []},
    "RFC 8219 sections 10.2.1, 10.2.2": {
        "flows.starts": ["together", "successive"], "flows.also_starts": ["together", "successive"]},
    "RFC 8219 section 10.2.2: t is the user's, quarters MAY be measured": {
        "flows.interval_s": 1.0, "flows.quarters": False},
    "RFC 9004 section 6.2: the smallest gap, with loss verification, and the step is reported": {
        "back_to_back.longest_s": 2.0, "back_to_back.resolution_frames": 64,
        "back_to_back.residual_wait_s": 2.0, "back_to_back.verifications": 1,
        "back_to_back.at": "media"},
    "RFC 9693 section 4.6": {"connections.validate_connections": True},
    "GEN-17: as repetitions": {
        "frame_loss.repetitions": None, "system_recovery.repetitions": None,
        "teardown.repetitions": None},
    "GEN-20": {"means": False},
    "GEN-23": {
        "sending_time_tolerance": 1.00001, "invalid_retries": 2,
        "back_to_back.sending_time_tolerance": None},
    "SELF-02": {"selftest_margin": 0.1},
    "SELF-03": {"selftest": "cached"},
    "ST-02: every trial makes its own connections": {"connections.keep": False},
    "ST-03: all of them": {
        "connections.entries": None, "connections.wait_ms": 500.0, "connections.gap_ms": 0.0},
    "ST-04": {"connections.count": 4_000_000},
    "ST-05": {"connections.reading": "pseudorandom"},
    "ST-06: up to the medium's or the tester's rate": {
        "connections.upper_cps": None, "connections.resolution_cps": 1000.0,
        "capacity.resolution_cps": None},
    "ST-07": {"connections.alpha": 1.0},
    "ST-08": {"connections.retakes": 3},
    "ST-09: a share of the rate that was found": {
        "connections.rate_cps": None, "connections.rate_share": 0.5},
    "ST-12: C0, as many as there are four-tuples, beta, gamma, E": {
        "capacity.first": 1_000_000, "capacity.most": None, "capacity.beta": 0.1,
        "capacity.gamma": 0.5, "capacity.error": 1},
    "TP-02": {"resolution_fps": 1000.0, "search": "binary"},
    "TP-04": {"confirmations": 0},
    "TP-06: off": {"frame_timeout.deadline_ms": None},
    "TP-07; RFC 9971 section 4.10.2": {
        "mlrsearch.goals": [{**GOAL, "name": "NDR", "loss_ratio": 0.0},
                            {**GOAL, "name": "PDR", "loss_ratio": 0.005}]},
    "draft-vpolak-bmwg-plrsearch-03: Target Loss Ratio, Measurement Delay": {
        "critical_load.target": 1e-7, "critical_load.first_s": 5.1, "critical_load.longer_s": 0.1},
    "FD.io CSIT: 30 minutes": {"critical_load.search_s": 1800.0},
    "no clause: v6t's own choice": {
        "resolution_ratio": 0.001,  # not used where resolution_fps is
        "resolution.cached_names": 1000,  # RFC 8219 section 9.2: late and early enough
        "resolution.resolution_qps": None,  # resolution_ratio of the upper bound
        "system_recovery.afterwards_s": 60.0, "reset.duration_s": 120.0, "reset.at_s": 20.0,
        "tcp.object_octets": 64,  # RFC 3511 section 5.2.2.2 has it reported
        "tcp.timeout_s": 1.0,  # the first time-out of RFC 6298
        "tcp.retransmissions": 0,  # no second try makes a rate look higher
        "tcp_capacity.first": 1_000_000, "tcp_capacity.most": None, "tcp_capacity.error": 1,
        "tcp_capacity.beyond": 0.1,
        "tcp_capacity.aging_s": 150.0,  # more than the 120 s that Linux waits
        "mlrsearch.min_load_fps": None, "watch_device": False, "read_device": True},
    "no RFC: a rate below the throughput": {
        "reconfiguration.share": 0.9, "reconfiguration.rate_fps": None,
        "reconfiguration.duration_s": 20.0, "reconfiguration.at_s": 5.0,
        "reconfiguration.repetitions": 5, "soak.rate_fps": None, "soak.share": 0.9},
    "no RFC: two hours, in trials of 60 s as in RFC 2544 section 24": {
        "soak.duration_s": 7200.0, "soak.stretch_s": 60.0},
}
# fmt: on


def flatten(values, above=""):
    for name, value in values.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{above}{name}.")
        else:
            yield above + name, value


def test_every_value_of_the_rfc_preset_has_its_clause():
    """A new setting needs an entry above: its value in the preset under the clause it follows."""
    run = resolve(plugin="mape-br", preset="rfc")
    values = [setting for settings in SETTINGS.values() for setting in settings.items()]
    assert dict(flatten(run.model_dump(mode="json")["procedure"])) == dict(values)
    assert len(dict(values)) == len(values)
    # RFC 8219, section 5.3: both directions at once, and each alone
    assert run.modes == ("bidirectional", "forward", "reverse")
    assert run.frame_sizes == (104, 168, 296, 552, 808, 1064, 1320, 1518)
    assert not is_demonstration(make_setup(run))


def test_bursts_of_30_s_can_be_searched():
    """RFC 9004 section 6.2: the longest burst MUST be configurable to as much."""
    bursts = {"back_to_back": {"longest_s": 30.0}}
    run = resolve(plugin="mape-br", preset="rfc", procedure=bursts)
    assert run.procedure.back_to_back.longest_s == 30.0
