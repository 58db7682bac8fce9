#!/usr/bin/env python3
"""A client of sessiond in one file, to copy and own: Python 3.10, standard library only.
Usage: stub.py append SESSION TEXT | watch SESSION [CURSOR] | context SESSION
       | create SESSION | branch SESSION ENTRY | compact SESSION [SUMMARY]"""

import functools, json, os, re, socket, struct, subprocess, sys, time

VERSION = "0.1.1"  # of the daemon that this file was made for
HELLO = b'{"id":0,"method":"initialize","params":{}}\n'


@functools.cache
def tell_another(version):
    """Say once that the daemon is of another version than this file."""
    if version != VERSION:
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


def ask(method, session_id, **params):
    """Return the result of a request that is safe to send again."""
    return next(exchange(method, {"session_id": session_id, **params}))


def append(session_id, message):
    """Store a message exactly once: each try has the same key, so a repetition is known."""
    return ask("session/append", session_id, message=message, idempotency_key=os.urandom(16).hex())


def context(session_id):
    """Return what a model is sent; a context that is larger than an answer comes by pages."""
    try:
        return ask("session/build_context", session_id)
    except RuntimeError as error:
        if not error.args[0]["data"].get("pages"):
            raise
    whole = page = ask("session/build_context", session_id, limit=10_000)
    while cursor := page["next_cursor"]:
        page = ask("session/build_context", session_id, limit=10_000, cursor=cursor)
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
            results = [append(session, {"role": "user", "content": text})]
        case ["watch", session, *cursor]:
            results = watch(session, json.loads(*cursor or ['{"seq": 0}']))
        case ["context", session]:
            results = [context(session)]
        case ["create", session]:  # or open the session that has the id
            here = {"cwd": os.getcwd(), "persist": "immediate"}
            results = [ask("session/create", session, if_exists="open", **here)]
        case ["branch", session, entry]:  # refused behind a try that was done
            here = {"leaf_id": ask("session/get", session)["session"]["leaf_id"]}
            results = [ask("session/branch", session, entry_id=entry, expected=here)]
        case ["compact", session, *summary]:  # without a summary the daemon has one written
            key, given = os.urandom(16).hex(), {"summary": summary[0]} if summary else {}
            results = [ask("session/compact", session, idempotency_key=key, **given)]
        case _:
            sys.exit(__doc__)
    for result in results:
        print(json.dumps(result), flush=True)
