#!/usr/bin/env python3
"""A client of sessiond in one file, to copy and own: Python 3.10, standard library only.
Usage: stub.py append SESSION TEXT | watch SESSION [CURSOR] | context SESSION"""

import json, os, re, socket, struct, subprocess, sys, time

VERSION = "0.1.1"  # of the daemon that this file was made for
HELLO = b'{"id":0,"method":"initialize","params":{}}\n'
told = {VERSION}


def tell_another(version):
    """Say once that the daemon is of another version than this file."""
    if version not in told:
        told.add(version)
        ours, theirs = (list(map(int, re.findall(r"\d+", one))) for one in (VERSION, version))
        age = f"{'newer' if theirs > ours else 'older'} ({version}) than this stub ({VERSION})"
        print(f"the running daemon is {age}: `sessiond restart` replaces it", file=sys.stderr)


def exchange(method, params):
    """Send a request; yield the result and what follows. After a failure, send it again."""
    path = os.environ.get("SESSIOND_SOCKET") or subprocess.getoutput("sessiond sockname")
    peer = (socket.SOL_SOCKET, socket.SO_PEERCRED) if sys.platform == "linux" else (0, 1)
    failures = 0
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(60)  # for the answer: a daemon that hangs is asked again
                link.connect(path)
                _, uid = struct.unpack("2I", link.getsockopt(*peer, 8))
                if uid not in {os.geteuid(), 0}:  # root: a system manager's socket
                    sys.exit(f"nothing was sent to {path}: another user listens there (uid {uid})")
                request = {"id": 1, "method": method, "params": params}
                link.sendall(HELLO + json.dumps(request, separators=(",", ":")).encode() + b"\n")
                for message in map(json.loads, link.makefile("rb")):
                    if error := message.get("error"):
                        raise (OSError if error["data"]["retryable"] else RuntimeError)(error)
                    if message.get("method") in {"session/closed", "server/draining"}:
                        break
                    if message.get("id") == 0:
                        tell_another(message["result"]["server_info"]["version"])
                        continue
                    failures = 0
                    link.settimeout(None)
                    yield message.get("result", message)
            raise ConnectionError("the daemon ended the connection")
        except (OSError, ValueError):  # a ValueError is half a line
            if (failures := failures + 1) == 30:
                raise
        subprocess.run(["sessiond", "start"], check=True, stdout=subprocess.DEVNULL)
        time.sleep(min(0.1 * 2**failures, 3))


def append(session_id, message):
    """Store a message exactly once: each try has the same entry id, so a repetition is known."""
    entry = {"type": "message", "id": os.urandom(16).hex(), "message": message}
    return next(exchange("session/append", {"session_id": session_id, "entry": entry}))


def context(session_id):
    """Return what a model is sent; a context that is larger than an answer comes by pages."""
    params = {"session_id": session_id}
    try:
        return next(exchange("session/build_context", params))
    except RuntimeError as error:
        if not error.args[0]["data"].get("pages"):
            raise
    params["limit"] = 10_000
    whole = page = next(exchange("session/build_context", params))
    while page["next_cursor"]:
        params["cursor"] = page["next_cursor"]
        page = next(exchange("session/build_context", params))
        whole["messages"] += page["messages"]
        whole["sources"] += page["sources"]
    return {name: value for name, value in whole.items() if name != "next_cursor"}


def watch(session_id, cursor):
    """Yield every event behind the cursor, once and in order, also over restarts of the daemon."""
    params = {"session_id": session_id, "after": cursor}
    for message in exchange("session/subscribe", params):
        if message.get("method") == "session/event":
            params["after"] = {name: message["params"][name] for name in ("seq", "epoch")}
        yield message


if __name__ == "__main__":
    sys.tracebacklimit = 0  # an error is one line
    match sys.argv[1:]:
        case ["append", session, text]:
            print(json.dumps(append(session, {"role": "user", "content": text})))
        case ["watch", session, *cursor]:
            for message in watch(session, json.loads(*cursor or ['{"seq": 0}'])):
                print(json.dumps(message), flush=True)
        case ["context", session]:
            print(json.dumps(context(session)))
        case _:
            sys.exit(__doc__)
