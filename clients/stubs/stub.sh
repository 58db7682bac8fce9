#!/bin/sh
# A client of sessiond in one file, to copy and own: a POSIX shell and socat.
# Usage: stub.sh append SESSION TEXT | watch SESSION [CURSOR] | context SESSION | call METHOD PARAMS
#        | create SESSION | branch SESSION ENTRY | compact SESSION [SUMMARY]
socat -V >/dev/null && socket=${SESSIOND_SOCKET:-$(sessiond sockname)} || exit
case $socket in /*) ;; *) socket=$PWD/$socket ;; esac
version=0.1.1 told=0.1.1 # of the daemon that this file was made for, and the one that was told of last
limit=60 # seconds for an answer: a daemon that hangs is asked again
trap '' PIPE # writing to a daemon that is gone fails, and does not end the shell

quote() { # quote TEXT: print the text as JSON
    printf '%s\n' "$1" | LC_ALL=C awk '
        BEGIN { for (i = 1; i < 32; i++) code[sprintf("%c", i)] = sprintf("\\u%04x", i)
                code["\\"] = "\\\\"; code["\""] = "\\\""; printf "\"" }
        { if (NR > 1) printf "\\n"
          for (i = 1; i <= length($0); i++) { c = substr($0, i, 1); printf "%s", (c in code) ? code[c] : c } }
        END { printf "\"" }'
}
fits() { ls -ldn "$1" | awk -v me="$(id -u)" "!($2) { exit 1 }"; } # fits FILE CONDITION (on its mode and owner)
is_way_own() { # is_way_own FOLDER: whether nobody but us and root can put another folder in its place
    [ "$1" = / ] && return || set -- "$(dirname "$1")"
    fits "$1" '($3 == me || !$3) && !/^d(....w...|.......w)[^tT]/' && is_way_own "$1"
}
require_own() { # end if another user may listen: a shell cannot ask who does
    folder=$(dirname "$socket") && [ -e "$folder" ] || return 0 # nobody listens there
    fits "$folder" '/^drwx------/ && $3 == me' && is_way_own "$folder" && is_way_own "$(cd -P "$folder" && pwd -P)" &&
        { [ ! -e "$socket" ] && [ ! -L "$socket" ] || fits "$socket" '!/^l/ && ($3 == me || !$3)'; } && return
    echo "nothing was sent to $socket: the folder of the socket must be yours, with mode 0700 and no link" >&2; exit 1
}
tell_another() { # tell_another VERSION: say once that the daemon is of another version than this file
    [ "$1" != "$told" ] && told=$1 && [ "$1" != "$version" ] || return 0
    age=$(printf '%s\n' "$1" "$version" | sort -t. -k1,1n -k2,2n -k3,3n | sed -n "1s/^$version\$/newer/p")
    echo "the running daemon is ${age:-older} ($1) than this stub ($version): \`sessiond restart\` replaces it" >&2
}
try() { # try METHOD PARAMS: send a request on a new connection; set $result; what follows is on descriptor 4
    require_own
    pipes=$(mktemp -d) && mkfifo "$pipes/in" "$pipes/out" || exit
    exec 3>&- 4<&-
    socat -T "$limit" - "UNIX-CONNECT:$socket" <"$pipes/in" >"$pipes/out" 2>/dev/null &
    exec 3>"$pipes/in" 4<"$pipes/out" && rm -r "$pipes"
    printf '{"id":0,"method":"initialize","params":{}}\n{"id":1,"method":"%s","params":%s}\n' "$1" "$2" >&3 2>/dev/null
    while IFS= read -r line <&4; do
        case $line in
        '{"jsonrpc":"2.0","id":1,"result":'*) result=${line#*'"result":'}; result=${result%?}; return ;;
        '{"jsonrpc":"2.0","id":0,"result":'*)
            line=${line#*'"server_info":{'}; line=${line#*'"version":"'}; tell_another "${line%%'"'*}" ;;
        '{"jsonrpc":"2.0","id":'*'"retryable":true'*) return 1 ;;
        '{"jsonrpc":"2.0","id":1,"error":'*'"pages":true'*) result=; return ;; # larger than an answer
        '{"jsonrpc":"2.0","id":'*) line=${line#*'"error":'}; printf 'refused: %s\n' "${line%?}" >&2; exit 1 ;;
        esac
    done
    return 1
}
call() { # call METHOD PARAMS: send a request, again after a failure, and print the result
    failures=0
    until try "$1" "$2"; do
        [ $((failures += 1)) -lt 30 ] || { echo "no answer from $socket" >&2; exit 1; }
        sessiond start >/dev/null && sleep $((failures < 9 ? failures / 3 : 3)) || exit
    done
    [ -z "$result" ] || printf '%s\n' "$result" || exit
}
context() { # context SESSION: print what a model is sent; a context that is larger than an answer by pages, a line each
    page="\"session_id\":$(quote "$1")" cursor=
    call session/build_context "{$page}" && [ -z "$result" ] || return 0
    while call session/build_context "{$page,\"limit\":10000$cursor}"; do
        cursor=${result##*'"next_cursor":'} && [ "$cursor" != 'null}' ] || return 0
        cursor=",\"cursor\":${cursor%?}"
    done
}
watch() { # watch SESSION CURSOR: print every event behind the cursor, once and in order, also over restarts
    after=$2 limit=999999999 # a session may be quiet
    while call session/subscribe "{\"session_id\":$(quote "$1"),\"after\":$after}"; do
        while IFS= read -r line <&4; do
            case $line in
            '{"jsonrpc":"2.0","method":"session/event"'*)
                after=${line#*'"epoch":'}; after="{\"epoch\":${after%%,\"entry\":*}}" ;; # with epoch and seq
            '{"jsonrpc":"2.0","method":"session/closed"'* | '{"jsonrpc":"2.0","method":"server/draining"'*) break ;;
            esac
            printf '%s\n' "$line" || exit
        done
    done
}
id=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') session="\"session_id\":$(quote "${2-}")"
case ${1-}:$# in
append:3) # every try has the same entry id, so the daemon knows a repetition
    entry="{\"type\":\"message\",\"id\":\"$id\",\"message\":{\"role\":\"user\",\"content\":$(quote "$3")}}"
    call session/append "{$session,\"entry\":$entry}" ;;
watch:[23]) watch "$2" "${3:-"{\"seq\":0}"}" ;;
context:2) context "$2" ;;
call:3) call "$2" "$3" ;;
create:2) call session/create "{$session,\"cwd\":$(quote "$PWD"),\"persist\":\"immediate\",\"if_exists\":\"open\"}" ;;
branch:3) # from where main is now: a try behind one that was done is refused
    here=$(call session/get "{$session}") && here=${here#*'"leaf_id":'} &&
        call session/branch "{$session,\"entry_id\":$(quote "$3"),\"expected\":{\"leaf_id\":${here%%,*}}}" ;;
compact:[23]) # without a summary the daemon has one written
    call session/compact "{$session,\"idempotency_key\":\"$id\"${3+",\"summary\":$(quote "$3")"}}" ;;
*) sed -n 3,4p "$0" >&2; exit 2 ;;
esac
