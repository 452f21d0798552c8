# Run undo.sh after a time without signs of life, or after a fixed time. Steps of the clock have no effect.
# Needs process.sh.
: "${directory:?}" "${token:?}" "${limit_s:?}" "${holder:?}" "${counts:?}"

owns_timer() {
    [ "$(cat guard/token 2>/dev/null)" = "$token" ]
}

take_over() { # end the process that holds the lock, and take the lock
    if locked=$(readlink lock); then
        process=${locked%% *}
        ! is_running "$process" || { kill "${process%%:*}" && sleep 1; }
        if [ "$(readlink lock)" = "$locked" ]; then
            ! is_running "$process" || kill -9 "${process%%:*}"
            rm -f lock
        fi
    fi
    ln -s "$(identify_process $$) $holder" lock
}

undo_everything() { # succeeds if nothing is left to undo
    owns_timer || return 0
    if sh undo.sh >guard/said 2>&1; then result=everything; else result="not everything, see guard/said"; fi
    if [ "$counts" = silence ]; then reason="of silence"; else reason="without a confirmation"; fi
    echo "rolled back after $limit_s s $reason: undid $result" >guard/fired
    [ "$result" = everything ]
}

run_timer() {
    trap '' HUP PIPE
    umask 077
    PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin LC_ALL=C
    export PATH LC_ALL
    cd "$directory" || exit 1
    owns_timer && echo "$limit_s" >guard/remaining && write_process guard/pid
    last='' idle=0 tries=0
    while sleep 1 && owns_timer; do
        beat=$(cat beat 2>/dev/null)
        if [ "$counts" = time ] || [ "$beat" = "$last" ]; then idle=$((idle + 1)); else last=$beat idle=0; fi
        echo $((limit_s - idle)) >guard/remaining
        [ $idle -ge "$limit_s" ] || continue
        idle=0
        take_over || continue
        undo_everything
        undone=$?
        rm -f lock
        tries=$((tries + 1))
        [ $undone != 0 ] && [ $tries -lt 3 ] || exit 0
    done
}
