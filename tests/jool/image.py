"""Images with Debian's kernel: one with Jool (DKMS), one with ip6_tunnel and nftables."""

from dataclasses import replace

from v6t.tests.machine import cpio
from v6t.tests.machine.image import Recipe

KERNEL = "cloud-amd64"
INIT = """\
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
chmod 755 /
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir -p /dev/pts
mount -t devpts none /dev/pts
mount -t tmpfs none /run
mkdir -p /run/sshd
[ ! -e /etc/v6t-built ] || depmod
modprobe virtio_pci
modprobe virtio_net
ip link set lo up
for d in /sys/class/net/*; do
  read mac <$d/address
  while read wanted name; do
    [ "$wanted" != "$mac" ] || ip link set dev ${d##*/} name $name
  done </etc/v6t-interfaces
done
ip addr add 10.0.2.15/24 dev mgmt
ip link set mgmt up
/usr/sbin/sshd -E /run/sshd.log
echo "v6t: sshd listens"
while :; do wait; sleep 1; done
"""
SSHD_CONFIG = """\
HostKey /etc/ssh/hostkey
AuthorizedKeysFile /etc/ssh/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
PrintMotd no
SetEnv PATH=/usr/sbin:/usr/bin:/sbin:/bin
"""
JOOL = Recipe(
    "jool",
    packages=(
        f"linux-image-{KERNEL}", f"linux-headers-{KERNEL}", "jool-dkms", "jool-tools", "kmod",
        "iproute2", "procps", "ethtool", "openssh-server", "busybox-static",
    ),
    programs=(
        "usr/bin/jool", "usr/bin/jool_siit", "usr/bin/ip", "usr/sbin/ethtool", "usr/sbin/sysctl",
        "usr/sbin/sshd", "usr/bin/kmod", "usr/bin/dash", "usr/bin/busybox",
    ),
    modules=("virtio_pci", "virtio_net", "jool", "jool_siit"),
    init=INIT,
    files=(
        cpio.make_file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nsshd:x:74:74::/var/empty:/bin/false\n"),
        cpio.make_file("etc/group", "root:x:0:\nsshd:x:74:\n"),
        cpio.make_file("etc/shadow", "root:*:19000:0:99999:7:::\n", 0o600),
        cpio.make_file("etc/nsswitch.conf", "passwd: files\ngroup: files\n"),
        cpio.make_file("etc/ssh/sshd_config", SSHD_CONFIG),
    ),
)  # fmt: skip
TUNNEL = replace(
    JOOL,
    name="ip6-tunnel",
    packages=(
        f"linux-image-{KERNEL}", "kmod", "iproute2", "procps", "ethtool", "nftables", "openssh-server",
        "busybox-static",
    ),
    programs=(*(name for name in JOOL.programs if "jool" not in name), "usr/sbin/nft"),
    modules=("virtio_pci", "virtio_net", "ip6_tunnel", "nf_tables"),
)  # fmt: skip
