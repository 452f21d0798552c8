"""DNS64 servers that run as a separate process: BIND 9, Knot Resolver, PowerDNS Recursor and Unbound."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import Field
from v6t.base.errors import DutError, UsageError
from v6t.drivers.duts import plan, steps
from v6t.drivers.duts.driver import make_unsupported_error
from v6t.drivers.duts.facts import Facts, parse_version
from v6t.drivers.duts.kinds.addresses import EXAMPLE_PREFIX
from v6t.drivers.duts.kinds.linux.base import LinuxDriver
from v6t.drivers.duts.kinds.linux.telemetry import make_process_reading
from v6t.drivers.duts.options import LinuxOptions
from v6t.drivers.duts.os.linux import make_link_up_step
from v6t.drivers.duts.readings import LossReason, Reading, make_sum_parser
from v6t.intent.families import Dns64Config


class Dns64ServerOptions(LinuxOptions):
    """Options of all DNS64 servers."""

    threads: int = Field(default=1, ge=1, le=256)  #: Threads that answer queries.


class Dns64Server(LinuxDriver):
    """Base of drivers of DNS64 servers, which run in addition to the device's own DNS service."""

    supported_configurations = (Dns64Config,)
    options_model = Dns64ServerOptions
    notes = ("the cache is emptied before each trial",)
    process_name: ClassVar[str]  # as the kernel shows it
    start_command: ClassVar[str] = ""  # template of the foreground command
    control_command: ClassVar[str] = ""  # template, without the verb
    flush_verb: ClassVar[str] = "flush"
    status_verb: ClassVar[str] = "status"
    expected_status: ClassVar[plan.Expectation]  # expected output of the status verb
    config_file_name: ClassVar[str] = "server.conf"  # name of the configuration file
    configuration: ClassVar[str]  # template of this file; ``{{`` stands for a brace
    prefix_lengths: ClassVar[Sequence[int]] = (32, 40, 48, 56, 64, 96)  # of the NAT64 prefix

    def fill_in(self, template: str, directory: str, dns64: Dns64Config | None = None) -> str:
        """Return a template with the placeholders of its fields replaced."""
        config = f"{directory}/{self.config_file_name}"
        fields = {"options": self.options, "directory": directory, "config": config}
        return self.format_template(template, dns64=dns64, **fields)

    def make_flush_step(self, directory: str) -> plan.Step:
        """Return the step that flushes the cache and checks that the server answers."""
        verbs = self.flush_verb, self.status_verb
        flush, status = (self.fill_in(f"{self.control_command} {v}", directory) for v in verbs)
        proof = plan.Check(status, self.expected_status)
        return plan.Step(flush, "flush the DNS cache", proof=proof)

    def make_stop_command(self, pid: str) -> str:
        return steps.make_process_stop_command(pid, self.process_name)

    def make_preparation_steps(self, directory: str) -> Sequence[plan.Step]:
        """Return the steps between creating the directory and writing the configuration."""
        return ()

    def check_device(self, intent: plan.Intent, facts: Facts) -> None:
        super().check_device(intent, facts)
        prefix = intent.get_configuration(Dns64Config).prefix
        if prefix.prefixlen not in self.prefix_lengths:
            supported = " or ".join(f"/{length}" for length in self.prefix_lengths)
            problem = f"{self.name} supports a prefix of {supported} only, not {prefix}"
            hint = "set the plugin's parameter prefix"
            raise make_unsupported_error(problem, hint, params={"prefix": EXAMPLE_PREFIX})

    def get_telemetry_readings(self, intent: plan.Intent) -> Mapping[str, Reading]:
        command = "grep -hE '^Udp6?(InDatagrams|InErrors|RcvbufErrors)' /proc/net/snmp6"
        parse = make_sum_parser(r"^[ \t]*(\S+)[ \t]+(\d+)[ \t]*$")
        words = "received queries, and those dropped at a full socket (`/proc/net/snmp6`)"
        losses = {"Udp6?RcvbufErrors": LossReason.QUEUE, "Udp6?InErrors": LossReason.TOTAL}
        process = make_process_reading(f"{self.options.state_dir}/dns/{self.name}.pid")
        readings = {"udp": Reading(command, parse, words, losses), "process": process}
        return {**super().get_telemetry_readings(intent), **readings}

    def plan_configuration(self, intent: plan.Intent, facts: Facts) -> plan.Plan:
        dns64, directory = intent.get_configuration(Dns64Config), f"{self.options.state_dir}/dns"
        file, pid = f"{directory}/{self.config_file_name}", f"{directory}/{self.name}.pid"
        log, run = f"{directory}/{self.name}.log", self.fill_in(self.start_command, directory)
        text = self.fill_in(self.configuration, directory, dns64)
        socket = f"[{dns64.resolver}]:53"

        def is_listening(output: str) -> bool:
            name, _, sockets = output.partition("\n")
            return name == self.process_name and plan.find_line(sockets, socket) is not None

        server = steps.make_daemon_step(
            f"cd {directory} && {{ setsid {run} >{log} 2>&1 </dev/null & echo $! >{pid}; }}",
            pid,
            self.process_name,
            "the server itself",
            probe=f"ss -Hlun src '{socket}'",
            expected=plan.expect_output(is_listening, f"{self.process_name}, listening"),
            log=log,
            stop=self.make_stop_command(pid),
        )
        setup_steps = [
            steps.make_directory_step(directory, "a directory for the server's files"),
            *self.make_preparation_steps(directory),
            steps.make_config_file_step(file, text, f"{self.title}: configuration"),
            server,
        ]
        return self.assemble_plan(intent, facts, setup_steps, [self.make_flush_step(directory)])


class Bind9Options(Dns64ServerOptions):
    """Options of BIND."""

    control_port: int = Field(default=19_953, ge=1, le=65_535)
    """Port on the device's loopback address at which rndc reaches it."""


class Bind9(Dns64Server):
    """Driver of BIND 9 (``named``), controlled by ``rndc``."""

    name = "bind9"
    title = "BIND 9"
    test_status = "configured, verified, measured and restored (Debian's 9.18)"
    versions = ("9.18",)
    options_model = Bind9Options
    programs: Mapping[str, str] = {
        "named": "bind9", "rndc": "bind9-utils", "rndc-confgen": "bind9-utils",
    }  # fmt: skip
    version_command = "named -v"
    version_pattern = r"BIND (\d[\w.~+-]*)"
    process_name = "named"
    start_command = "named -f -n {options.threads} -c {config}"
    control_command = "rndc -k {directory}/rndc.key -s 127.0.0.1 -p {options.control_port}"
    expected_status = plan.expect_lines("server is up and running")
    configuration = """\
include "{directory}/rndc.key";
controls {{ inet 127.0.0.1 port {options.control_port} allow {{ 127.0.0.1; }} keys {{ "rndc-key"; }}; }};
logging {{ category default {{ null; }}; category unmatched {{ null; }}; }};
options {{
  directory "{directory}";
  pid-file none;
  session-keyfile none;
  managed-keys-directory "{directory}";
  listen-on {{ none; }};
  listen-on-v6 port 53 {{ {dns64.resolver}; }};
  allow-query {{ {dns64.clients}; }};
  allow-recursion {{ {dns64.clients}; }};
  allow-query-cache {{ {dns64.clients}; }};
  recursion yes;
  dnssec-validation no;
  empty-zones-enable no;
  minimal-responses yes;
  recursive-clients 100000;
  dns64 {dns64.prefix} {{ clients {{ any; }}; }};
}};
zone "{dns64.zone}" {{ type static-stub; server-addresses {{ {dns64.server}; }}; }};
"""

    def make_preparation_steps(self, directory: str) -> Sequence[plan.Step]:
        file = f"{directory}/rndc.key"
        return (
            plan.Step(
                f"rndc-confgen -a -c {file}",
                "a key for rndc",
                read=f"cat {file}",
                expected=plan.expect_lines('key "rndc-key" {'),
                undo=f"rm -f {file}",
                existing=plan.IfExists.NONE,
            ),
            make_link_up_step("lo", "rndc reaches named by the loopback interface"),
        )


CACHE_FILE_NAME = "data.mdb"  # LMDB's file in the working directory of kresd


class KnotOptions(Dns64ServerOptions):
    """Options of Knot Resolver."""

    cache_mib: int = Field(default=200, ge=1, le=1 << 20)
    """Size of the cache [MiB]: a file in ``state_dir``, allocated when kresd starts."""

    @property
    def fork_option(self) -> str:
        """The undocumented option of kresd for several workers; empty for a single one."""
        return f" -f {self.threads}" if self.threads > 1 else ""


class KnotResolver(Dns64Server):
    """Driver of Knot Resolver, whose worker processes (``kresd``) share one cache."""

    name = "knot-resolver"
    title = "Knot Resolver"
    test_status = "configured, verified, measured and restored (Debian's 5.6.0)"
    versions = ("5.6.0",)
    programs: Mapping[str, str] = {"kresd": "knot-resolver"}
    version_command = "kresd -V"
    version_pattern = r"version (\d[\w.]*)"
    process_name = "kresd"
    start_command = "kresd -n{options.fork_option} -c {config} {directory}"
    prefix_lengths = (96,)
    options_model = KnotOptions
    configuration = """\
net.ipv4, net.ipv6 = true, true
net.listen('{dns64.resolver}', 53, {{ kind = 'dns' }})
cache.open({options.cache_mib} * MB, 'lmdb://{directory}')
trust_anchors.remove('.')
modules.unload('priming')
modules.unload('detect_time_skew')
modules.unload('detect_time_jump')
modules.load('dns64')
dns64.config('{dns64.prefix.network_address}')
log_level('crit')
policy.add(policy.suffix(policy.FORWARD({{'{dns64.server}'}}), {{todname('{dns64.zone}')}}))
event.recurrent(50, function()
  local asked = io.open('{directory}/empty')
  if asked then asked:close() cache.clear() os.remove('{directory}/empty') end
end)
"""

    def get_survey_commands(self) -> Mapping[str, str]:
        up = 'while [ ! -d "$d" ]; do d=${d%/*}; d=${d:-/}; done'
        current_size = f"du -k {self.options.state_dir}/dns/{CACHE_FILE_NAME} 2>/dev/null"
        summed = "awk '{n += $1} END {if (NR) printf \"%.0f\\n\", n}'"
        free = "df -Pk $d | awk 'NR == 2 {print $4}'"
        room = f"d={self.options.state_dir}; {up}; {{ {free}; {current_size}; }} | {summed}"
        return {**super().get_survey_commands(), "room": room}

    def check_device(self, intent: plan.Intent, facts: Facts) -> None:
        super().check_device(intent, facts)
        cache_mib, room = self.options.cache_mib, facts.parse_number("room")
        if room is not None and room < cache_mib << 10:
            free = f"{room >> 10} MiB are free in {self.options.state_dir}"
            problem = f"Knot Resolver's cache takes {cache_mib} MiB, and {free}"
            hint = "set dut.options.cache_mib, or state_dir to a directory with more space"
            raise DutError(problem, hint, code="resource-missing")

    def make_stop_command(self, pid: str) -> str:
        if self.options.threads == 1:
            return super().make_stop_command(pid)
        return steps.make_group_stop_command(pid, self.process_name)

    def make_flush_step(self, directory: str) -> plan.Step:
        """Return the step that requests a flush by creating a file, which kresd detects and removes."""
        file = f"{directory}/empty"
        wait = f"n=0; while [ -e {file} ] && [ $n -lt 50 ]; do n=$((n+1)); sleep 0.1; done"
        removed = plan.Check(f"{wait}; ls {file} 2>/dev/null || true", plan.expect_text(""))
        return plan.Step(f"touch {file}", "flush the DNS cache", proof=removed)


FIRST_SUPPORTED_VERSION = (4, 4)  # first with the setting dns64-prefix
FIRST_YAML_VERSION = (5, 2)  # first that expects YAML settings by default


class PdnsRecursor(Dns64Server):
    """Driver of PowerDNS Recursor, configured by old-style settings instead of YAML."""

    name = "pdns-recursor"
    title = "PowerDNS Recursor"
    test_status = "configured, verified, measured and restored (Debian's 4.8)"
    versions = ("4.8",)
    programs: Mapping[str, str] = {"pdns_recursor": "pdns-recursor", "rec_control": "pdns-recursor"}
    version_command = "pdns_recursor --version 2>&1"
    version_pattern = r"PowerDNS Recursor (\d[\w.]*)"
    process_name = "pdns_recursor"
    start_command = "pdns_recursor --config-dir={directory} --config-name=v6t"
    control_command = (
        "rec_control --socket-dir={directory} --config-dir={directory} --config-name=v6t"
    )
    flush_verb, status_verb = "wipe-cache $", "ping"
    expected_status = plan.expect_lines("pong")
    config_file_name = "recursor-v6t.conf"
    prefix_lengths = (96,)
    configuration = """\
config-dir={directory}
socket-dir={directory}
daemon=no
write-pid=no
local-address={dns64.resolver}
local-port=53
query-local-address=0.0.0.0, ::
allow-from={dns64.clients}
dont-query=
forward-zones={dns64.zone}={dns64.server}
dns64-prefix={dns64.prefix}
dnssec=off
hint-file=no
security-poll-suffix=
threads={options.threads}
max-mthreads=8192
server-down-max-fails=0
loglevel=0
quiet=yes
"""

    def check_device(self, intent: plan.Intent, facts: Facts) -> None:
        super().check_device(intent, facts)
        version = parse_version(facts.version)
        if version and not FIRST_SUPPORTED_VERSION <= version < FIRST_YAML_VERSION:
            problem = f"the driver configures PowerDNS Recursor 4.4 to 5.1, not {facts.version}"
            hint = "install one of these versions, or choose another DNS64 server"
            raise UsageError(problem, hint, code="unsupported-by-version")


class Unbound(Dns64Server):
    """Driver of NLnet Labs' Unbound with its module dns64."""

    name = "unbound"
    title = "Unbound"
    test_status = "configured, verified, measured and restored (Debian's 1.17.1)"
    versions = ("1.17.1",)
    programs: Mapping[str, str] = {"unbound": "unbound", "unbound-control": "unbound"}
    version_command = "unbound -V"
    version_pattern = r"Version (\d[\w.]*)"
    process_name = "unbound"
    start_command = "unbound -d -c {config}"
    control_command = "unbound-control -c {config}"
    flush_verb = "reload"  # unlike ``flush``, it also clears the server timings
    expected_status = plan.expect_matching_line(
        r"unbound \(pid \d+\) is running\.\.\.", "'is running'"
    )
    # without Unbound's built-in answers for ``test.`` (RFC 6761)
    configuration = """\
server:
  interface: {dns64.resolver}
  port: 53
  access-control: {dns64.clients} allow
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "{directory}"
  pidfile: ""
  use-syslog: no
  logfile: ""
  verbosity: 0
  num-threads: {options.threads}
  outgoing-range: 8192
  num-queries-per-thread: 4096
  so-rcvbuf: 4m
  msg-cache-size: 64m
  rrset-cache-size: 128m
  do-not-query-localhost: no
  local-zone: "test." nodefault
  qname-minimisation: no
  minimal-responses: yes
  module-config: "dns64 iterator"
  dns64-prefix: {dns64.prefix}
stub-zone:
  name: "{dns64.zone}"
  stub-addr: {dns64.server}
remote-control:
  control-enable: yes
  control-interface: {directory}/unbound.control
  control-use-cert: no
"""
