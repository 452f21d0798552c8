# Hold the lock of a device while its owner sends signs of life.
: "${directory:?}" "${owner:?}" "${silence_s:?}"

in_user_namespace() { # of one user: root outside it, the owner of /, has no number here
    grep -q '^ *0 .* 1$' /proc/self/uid_map 2>/dev/null
}

foreign_access() { # PATH: print the reason if others can change the path or a directory above it
    path=$1
    user=$(id -u)
    while :; do
        # shellcheck disable=SC2046
        set -- $(ls -ldn "$path")
        case $1 in d* | l*) ;; *) echo "$path is not a directory" && return ;; esac
        case $3 in
        0 | "$user") ;;
        *) if [ "$path" != / ] || ! in_user_namespace; then echo "$path belongs to user $3" && return; fi ;;
        esac
        case $1 in
        l*) ;;
        ?????w???[!tT]* | ????????w[!tT]*) echo "others may write to $path" && return ;;
        esac
        [ "$path" != / ] || return
        path=${path%/*}
        path=${path:-/}
    done
}

check_directory() { # print "foreign REASON" and exit if others can change the directory
    case $(ls -ldn "$directory") in
    d*) why=$(foreign_access "$directory") ;;
    *) why="$directory is not a directory" ;;
    esac
    [ -n "$why" ] || why=$(foreign_access "$(cd "$directory" && pwd -P)")
    [ -z "$why" ] || { echo "foreign $why" && exit 0; }
    chmod 700 "$directory" || exit 1
}

owns_lock() {
    [ "$(readlink "$directory/lock")" = "$this $owner" ]
}

remove_lock() {
    owns_lock && rm -f "$directory/beat" "$directory/lock"
}

take_lock() { # print "busy PID OWNER" and exit if a process of another owner holds the lock
    tries=0
    this=$(identify_process $$)
    until ln -s "$this $owner" "$directory/lock" 2>/dev/null; do
        holder=$(readlink "$directory/lock")
        process=${holder%% *}
        pid=${process%%:*}
        tries=$((tries + 1))
        [ $tries -le 40 ] || exit 1
        if [ -n "$holder" ] && ! is_running "$process"; then
            rm -f "$directory/lock"
        elif [ -n "$holder" ] && [ "${holder#* }" != "$owner" ]; then
            echo "busy $pid ${holder#* }"
            exit 0
        else # the process of an earlier connection of this owner will soon exit
            [ -z "$holder" ] || [ $tries -lt 20 ] || kill "$pid"
            sleep 0.1
        fi
    done
}

watch_owner() { # remove the lock and end its process after silence_s seconds without a sign of life
    last='' idle=0
    while sleep 1 && owns_lock; do
        beat=$(cat "$directory/beat")
        if [ "$beat" = "$last" ]; then idle=$((idle + 1)); else last=$beat idle=0; fi
        [ $idle -ge "$silence_s" ] || continue
        kill $$
        sleep 1
        remove_lock
        return
    done
}

release_lock() {
    kill "$watcher" 2>/dev/null
    remove_lock
    exit 0
}

hold_lock() { # print "locked", then each line that the owner sends
    umask 077
    mkdir -p "$directory" || exit 1
    check_directory
    take_lock
    echo 0 >"$directory/beat"
    watch_owner </dev/null >/dev/null 2>&1 &
    watcher=$!
    trap release_lock HUP TERM PIPE
    echo locked
    while read -r line; do
        echo "$line" >"$directory/beat"
        echo "$line"
    done
    release_lock
}
