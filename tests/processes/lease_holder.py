"""A client process that wants a head for itself: lease_holder.py SOCKET SESSION NAME.

It waits for the lease, says its epoch on standard output, appends under it until it is
refused, and then says why. It counts on nothing but the lease: no `expected`.
"""

from __future__ import annotations

import sys

from sessiond_client import RpcError, connect_blocking

TTL_MS = 60_000
APPENDS_MAX = 100_000


if __name__ == "__main__":
    socket, session_id, name = sys.argv[1:]
    with connect_blocking(socket, client_id=name, timeout=60, connect_timeout=30) as client:
        lease = client.acquire(session_id, TTL_MS, wait_ms=50_000)
        print(lease.epoch, flush=True)  # noqa: T201 - what its starter waits for
        try:
            for number in range(APPENDS_MAX):
                content = f"{name} {lease.epoch} {number}"
                message = {"role": "assistant", "content": content}
                client.append(session_id, message=message, lease_id=lease.lease_id)
        except RpcError as refused:
            print(refused.kind, flush=True)  # noqa: T201
