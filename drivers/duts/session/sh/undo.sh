# Undo the steps of a plan; needs process.sh.
: "${directory:?}" "${netns?}" "${patience_s:?}"

has() { # NAME of a function
    command -v "$1" >/dev/null
}

begin_undo() { # replace an earlier undo, and wait for a step in progress
    trap '' HUP PIPE
    PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin LC_ALL=C
    export PATH LC_ALL
    if [ -n "$netns" ] && [ -z "$V6T_NETNS" ]; then
        V6T_NETNS=1
        export V6T_NETNS
        exec ip netns exec "$netns" sh "$0"
    fi
    cd "$directory" || exit 1
    if pid=$(running_process undoing); then kill_tree "$pid"; fi
    (umask 077 && touch progress undone)
    write_process undoing
    trap end_undo EXIT
    tries=0
    while pid=$(running_process doing); do
        [ $tries -lt $((patience_s * 10)) ] || { kill_tree "$pid" && break; }
        tries=$((tries + 1))
        sleep 0.1
    done
    rm -f doing
    failed=0
}

end_undo() { # the file may belong to an undo that has replaced this one
    [ "$(running_process undoing)" != $$ ] || rm -f undoing
}

is_pending() { # NUMBER of a step
    grep -qx "$1" progress && ! grep -qx "$1" undone
}

is_restored() { # NUMBER STATE BEFORE
    has "state_$1" && [ "$( ("state_$1") 2>/dev/null)" = "$2" ]
}

undo_step() { # NUMBER [STATE BEFORE]: call undo_NUMBER once; print "left NUMBER" if it fails
    is_pending "$1" || return 0
    # repeat an undo that succeeded but left another state, if that state still exists
    if grep -qx "again-$1" undone; then again=1; else again=0; fi
    if { has "is_gone_$1" && ("is_gone_$1"); } || { [ $again = 1 ] && is_restored "$1" "$2"; }; then
        status=0
    else
        ("undo_$1")
        status=$?
    fi
    # the state decides, since another undo may have removed the change; a repeated undo may find nothing
    if [ $status = 0 ] || [ $again = 1 ] || is_restored "$1" "$2"; then
        echo "$1" >>undone
    else
        echo "left $1"
        failed=1
    fi
}

finish_undo() {
    [ "$failed" != 0 ] || grep -qx all undone || echo all >>undone
    exit "$failed"
}
