#!/usr/bin/env bash
# netns.sh COMMAND…: runs the command in a network namespace that has the loopback interface alone.
# Real agents run in the tests; there, traffic to the outside must be impossible, not merely
# switched off. So this never runs the command with a network: it fails and says why.
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

# True where no route leads out: loopback needs none in these tables. (/proc/net follows the
# process's namespace; /sys/class/net shows the one that was mounted.)
loopback_only() {
  local tables=(/proc/self/net/route)
  if [[ -e /proc/self/net/ipv6_route ]]; then tables+=(/proc/self/net/ipv6_route); fi
  awk '
    FILENAME ~ /ipv6_route$/ { if ($NF != "lo") out = 1; next }
    FNR > 1 && $1 != "lo" { out = 1 }
    END { exit out }
  ' "${tables[@]}"
}

# Brings loopback up where it is not. Python rather than `ip`, which minimal systems lack.
lo_up() {
  python3 -c '
import fcntl, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
request = struct.pack("16s16x", b"lo")
flags, = struct.unpack_from("H", fcntl.ioctl(s, 0x8913, request), 16)  # SIOCGIFFLAGS
if not flags & 1:
    fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", b"lo", flags | 1))  # SIOCSIFFLAGS, IFF_UP
'
}

(($#)) || die "usage: netns.sh COMMAND…"
[[ -r /proc/self/net/route ]] || die "network namespaces need Linux with /proc mounted"
need python3 "install Python 3"

if loopback_only; then
  lo_up || die "the loopback interface is down and could not be brought up: run as root"
  exec "$@"
fi

# Set on the second pass: the namespace was made, and still a route leads out of it.
[[ -z ${MADO_IN_NETNS:-} ]] || die "the new network namespace still has a route to the outside"
need unshare "install util-linux"
export MADO_IN_NETNS=1
if unshare -n true 2>/dev/null; then
  exec unshare -n "$0" "$@"
elif unshare -rn true 2>/dev/null; then
  exec unshare -rn "$0" "$@"
fi
die "cannot make a network namespace, and the tests must not reach a network: run as root, or allow" \
  "unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, and on Ubuntu" \
  "kernel.apparmor_restrict_unprivileged_userns=0)"
