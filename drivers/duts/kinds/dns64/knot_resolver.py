"""Knot Resolver as a DNS64 server."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field
from v6t.base.errors import DutError
from v6t.drivers.duts.facts import Facts
from v6t.drivers.duts.kinds.dns64.server import Dns64Server, Dns64ServerOptions
from v6t.drivers.duts.plan import Check, Intent, Step, expect_text
from v6t.drivers.duts.steps import make_group_stop_command

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

    def check_device(self, intent: Intent, facts: Facts) -> None:
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
        return make_group_stop_command(pid, self.process_name)

    def make_flush_step(self, directory: str) -> Step:
        """Return the step that requests a flush by creating a file, which kresd detects and removes."""
        file = f"{directory}/empty"
        wait = f"n=0; while [ -e {file} ] && [ $n -lt 50 ]; do n=$((n+1)); sleep 0.1; done"
        removed = Check(f"{wait}; ls {file} 2>/dev/null || true", expect_text(""))
        return Step(f"touch {file}", "flush the DNS cache", proof=removed)
