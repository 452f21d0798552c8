"""Debian's kernel with ip6_tunnel, and nftables: what is in the machine."""

from __future__ import annotations

from dataclasses import replace

from v6t.tests.jool.image import JOOL, KERNEL

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
