# Identify processes by number and start time, because numbers are reused.

start_of() { # LINE of /proc/PID/stat, or of ps: print the start time of the process, or nothing for a zombie
    case $1 in
    *')'*)
        # shellcheck disable=SC2086
        set -- ${1##*)}
        [ "$1" = Z ] || echo "${20}"
        ;;
    Z*) ;;
    *)
        # shellcheck disable=SC2086
        set -- $1
        [ $# -lt 2 ] || { shift && echo "$*"; }
        ;;
    esac
}

identify_process() { # PID: print number and start time, or nothing if the process has ended
    now=$(cat "/proc/$1/stat" || ps -o stat= -o lstart= -p "$1") && start=$(start_of "$now") &&
        [ -n "$start" ] && echo "$1:$start" | tr ' ' -
} 2>/dev/null

is_running() { # NUMBER:START as printed by identify_process
    [ -n "$1" ] && [ "$(identify_process "${1%%:*}")" = "$1" ]
}

write_process() { # FILE: store the identity of this shell
    (umask 077 && identify_process $$ >"$1") 2>/dev/null
}

running_process() { # FILE: print the number stored by write_process if the process still runs
    { read -r process <"$1" && is_running "$process" && echo "${process%%:*}"; } 2>/dev/null
}

list_processes() { # print number and parent of each process; BusyBox's ps may have no options
    ps -Ao pid,ppid 2>/dev/null || for file in /proc/[0-9]*/stat; do
        read -r line <"$file" || continue
        # shellcheck disable=SC2086
        set -- ${line##*)}
        echo "${line%% *} $2"
    done
}

stop_tree() { # PID: stop a process and its descendants except this one; print their numbers
    [ "$1" != $$ ] || return 0
    kill -STOP "$1"
    echo "$1"
    list_processes | while read -r child parent; do
        [ "$parent" != "$1" ] || stop_tree "$child"
    done
}

kill_tree() { # PID
    # shellcheck disable=SC2046
    kill -9 $(stop_tree "$1")
} 2>/dev/null
