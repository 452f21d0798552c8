# The state directory of v6t on a device: undo record and rollback timer; needs process.sh.
: "${directory:?}"

enter_directory() { # exit without output if it does not exist, and with an error if it is not accessible
    [ -d "$directory" ] || exit 0
    cd "$directory" || exit 1
}

read_record() { # print "record" and the record, or "lost" ["script"] if only other files show changes
    enter_directory
    if [ -s record.json ]; then
        echo record
        cat record.json || exit 1
    elif [ -s progress ] && ! grep -qx all undone 2>/dev/null; then
        echo lost
        [ ! -s undo.sh ] || echo script
    fi
}

list_parts() { # print the records of parts of a chain
    enter_directory
    ls -d part-*/record.json 2>/dev/null || true
}

clear_progress() { # discard the progress of an earlier run
    cd "$directory" && rm -f record.json progress undone
}

note_verified() {
    (umask 077 && echo verified >>"$directory/progress")
}

write_file() { # NAME: store the standard input and print the stored file
    umask 077
    cd "$directory" && cat >"$1.part" && sync && mv "$1.part" "$1" && cat "$1"
}

mark_for_undo() { # NUMBER...: have undo.sh repeat the undo of these steps, whose state differs
    umask 077
    cd "$directory" || exit 1
    for number in all "$@"; do
        grep -vx -e "$number" -e "again-$number" undone >undone.part
        mv undone.part undone
    done
    printf "again-%s\n" "$@" >>undone
}

remove_record() { # delete the list of undone steps last; print remaining files of others
    cd "$directory" && rm -f record.json record.json.part && rm -f undo.sh undo.sh.part &&
        rm -f progress undone undoing doing token.part timer.part && rm -rf guard.[0-9]* || exit 1
    # shellcheck disable=SC2010
    ls -A | grep -vx -e lock -e beat -e 'part-.*' || true
}

remove_timer() { # rename it first, so that the timer writes nothing more
    [ ! -e "$directory/guard" ] || {
        mv "$directory/guard" "$directory/guard.$$" && rm -rf "$directory/guard.$$"
    }
    [ ! -e "$directory/guard" ]
}

start_timer() { # TOKEN; standard input: the program of the timer
    umask 077
    # an earlier timer runs until the new one is stored
    if ! { echo "$1" >"$directory/token.part" && cat >"$directory/timer.part"; }; then
        rm -f "$directory/token.part" "$directory/timer.part"
        exit 1
    fi
    remove_timer && mkdir "$directory/guard" &&
        mv "$directory/timer.part" "$directory/guard/timer.sh" &&
        mv "$directory/token.part" "$directory/guard/token" || exit 1
    $(command -v setsid) sh "$directory/guard/timer.sh" </dev/null >/dev/null 2>&1 &
    tries=0
    while [ $tries -lt 50 ]; do
        running_process "$directory/guard/pid" >/dev/null && exit 0
        tries=$((tries + 1))
        sleep 0.1
    done
    exit 1
}

read_state() { # print the lock, the timer's remaining seconds or its result, and the steps begun and undone
    enter_directory
    echo "lock $(readlink lock)"
    [ ! -e progress ] || sed 's/^/begun /' progress
    [ ! -e undone ] || sed 's/^/undone /' undone
    if [ -e guard/fired ]; then
        echo "fired $(cat guard/fired)"
    elif running_process guard/pid >/dev/null; then
        echo "remaining $(cat guard/remaining 2>/dev/null)"
    fi
}
