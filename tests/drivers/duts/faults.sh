#!/bin/sh
# Apply the fault of /run/fault-kind once, in the phase $1 if it is that of /run/fault-at; or reboot.
cut() {
    for p in $(ps -eo pid,args | awk '/sshd: root/ && !/awk/ {print $1}'); do kill -9 "$p"; done
}
start_sshd() { /usr/sbin/sshd -f /run/v6t-lab/sshd_config -E /run/v6t-lab/log; }

if [ "$1" = reboot ]; then
    # seen from outside: no answer, an empty /run, another boot identifier
    sleep 0.2
    kill "$(cat /run/sshd.pid)"
    cut
    ip link del v6tdummy
    rm -rf /run/v6t
    sleep 0.5
    cat /proc/sys/kernel/random/uuid >/run/boot
    start_sshd
    exit
fi
[ "$(cat /run/fault-at 2>/dev/null)" = "$1" ] || { echo fine; exit 0; }
rm /run/fault-at
case "$(cat /run/fault-kind)" in
refused) kill "$(cat /run/sshd.pid)"; cut;;
"authentication failure") : >/run/v6t-lab/authorized_keys; cut;;
"changed host key")
    kill "$(cat /run/sshd.pid)"; sleep 0.2; rm /run/v6t-lab/hostkey
    ssh-keygen -q -t ed25519 -N '' -f /run/v6t-lab/hostkey
    start_sshd; sleep 0.2; cut;;
hang) sleep 60;;
"drop in the middle") cut; sleep 60;;
"partial output") printf 'fi'; cut; sleep 60;;
"wrong exit status") echo fine; exit 7;;
"no UTF-8") printf 'fine\377';;
"no permission") echo fine >/sys/kernel/notes;;
reboot)
    ip link del v6tdummy 2>/dev/null; sysctl -q -w net.ipv4.conf.lo.forwarding=0
    rm -rf /run/v6t; echo second >/run/boot; cut; sleep 60;;
esac
