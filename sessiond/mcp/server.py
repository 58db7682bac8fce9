"""The SDK between a client on standard input and output and the daemon."""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, cast

import anyio
from anyio.abc import TaskGroup
from mcp import MCPError, stdio_server, types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY

from sessiond import __version__
from sessiond.build import BUILD
from sessiond.mcp.arguments import faults
from sessiond.mcp.calls import call_tool, next_step, refusal, refused
from sessiond.mcp.prompts import PROMPTS, complete, get_prompt, schema_of
from sessiond.mcp.resources import TEMPLATES, list_resources, read_resource
from sessiond.mcp.telling import ClientLog
from sessiond.mcp.tools import READING, WRITING
from sessiond.mcp.uris import BadUri, parse_uri
from sessiond.mcp.watching import LIST_CHANGED, Watch
from sessiond_client import Client, RpcError, SessiondClientError, connect, difference
from sessiond_client.connect_options import ConnectOptions

_CALL_SECONDS: Final = 10.0

_LOG: Final = logging.getLogger(__name__)

_Context = ServerRequestContext[Any]


def serve(socket: Path, options: ConnectOptions, *, may_write: bool) -> None:
    """Serve until the client closes standard input or output. SIGTERM ends the process with 0.

    `options` say how a daemon is started anew where one ended.
    """
    # The SDK logs messages that it could not read, with their content.
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    # Nothing waits here that would have to be saved: the daemon has acknowledged it or not.
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_leave_with_reader, args=(os.dup(1),), daemon=True).start()
    try:
        anyio.run(_serve, socket, options, may_write)
    except* (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # An answer to a client that is gone.


def _leave(_: int, __: FrameType | None) -> None:
    os._exit(0)


def _leave_with_reader(output: int) -> None:
    """End the process once its output is closed: the SDK would wait for the end of input."""
    errors = select.poll()
    errors.register(output, 0)
    errors.poll()
    os._exit(0)


async def _serve(socket: Path, options: ConnectOptions, may_write: bool) -> None:  # noqa: FBT001 - for anyio.run
    own: ConnectOptions = {
        **options,
        "timeout": _CALL_SECONDS,
        "client_id": "sessiond-mcp",
        "access": "write" if may_write else "read",
        "on_daemon": _log_another,
    }
    async with connect(socket, **own) as client, anyio.create_task_group() as tasks:
        log = ClientLog(tasks)
        logging.getLogger("sessiond").addHandler(log)
        server = _Handlers(client, tasks, log, may_write=may_write).server()
        async with stdio_server() as (read, write):
            hello = server.create_initialization_options(
                NotificationOptions(resources_changed=True)
            )
            await server.run(read, write, hello)
        tasks.cancel_scope.cancel()


def _log_another(version: str, build: str) -> None:
    if (text := difference(version, build, BUILD)) is not None:
        _LOG.warning("%s", text)


class _Server(Server[Any]):
    """The SDK's server, which announces what it serves.

    The SDK announces changes of every list to a client of the newest version because one list
    changes, and a log that this version does not ask for by `logging/setLevel`.
    """

    def get_capabilities(self, *args: Any, **options: Any) -> types.ServerCapabilities:
        """Return the capabilities for a version of the protocol."""
        found = super().get_capabilities(*args, **options)
        for part in (found.tools, found.prompts):
            if part is not None:
                part.list_changed = False
        if options.get("protocol_version") is not None:
            found.logging = None
        return found


class _Handlers:
    """Answers to the requests of one client."""

    def __init__(
        self, client: Client, tasks: TaskGroup, log: ClientLog, *, may_write: bool
    ) -> None:
        self._client = client
        self._tasks = tasks
        self._log = log
        self._may_write = may_write
        self._watch: Watch | None = None

    def server(self) -> Server[Any]:
        """Return the SDK's server with these handlers."""
        server = _Server(
            "sessiond",
            version=__version__,
            instructions="Sessions of coding agents: list, search and read them in pages.",
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._listen,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
        )
        # Not among the parameters above, where the SDK warns of what the newest version lacks.
        server.add_request_handler(
            "logging/setLevel", types.SetLevelRequestParams, self._take_level
        )
        server.add_notification_handler(
            "notifications/initialized", types.NotificationParams, self._initialized
        )
        return server

    async def _list_tools(self, _: _Context, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self._tools())

    def _tools(self) -> list[types.Tool]:
        return [*READING, *(WRITING if self._may_write else ())]

    async def _call_tool(
        self, context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if not self._may_write and params.name in {tool.name for tool in WRITING}:
            text = f"{params.name} is refused: start the server as `sessiond mcp --write`"
            return refusal(text)
        names = [tool.name for tool in self._tools()]
        if params.name not in names:
            text = f"no tool has this name; there are {', '.join(names)}"
            raise MCPError(types.INVALID_PARAMS, text)
        async with _progress(context) as options:
            result: types.CallToolResult = await call_tool(
                self._client, params.name, params.arguments or {}, **options
            )
        _LOG.debug("%s: %s", params.name, "refused" if result.is_error else "answered")
        return result

    async def _list_prompts(self, _: _Context, __: object) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[*PROMPTS])

    async def _get_prompt(
        self, context: _Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        prompt = next((one for one in PROMPTS if one.name == params.name), None)
        if prompt is None:
            names = ", ".join(one.name for one in PROMPTS)
            raise MCPError(types.INVALID_PARAMS, f"no prompt has this name; there are {names}")
        given, schema = params.arguments or {}, schema_of(prompt)
        said = faults(prompt.name, schema, given)
        if said is None:
            async with _progress(context) as options:
                try:
                    return await get_prompt(self._client, prompt.name, given, **options)
                except SessiondClientError as error:
                    said = refused(prompt.name, schema, given, error)
        raise MCPError(types.INVALID_PARAMS, said)

    async def _complete(
        self, _: _Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        async with _refusals():
            found = await complete(self._client, params.ref, params.argument)
        return types.CompleteResult(completion=found)

    async def _take_level(
        self, context: _Context, params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        self._log.begin(context.session)
        self._log.take_level(params.level)
        return types.EmptyResult()

    async def _list_resources(
        self, _: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        async with _refusals():
            return await list_resources(self._client, params.cursor if params else None)

    async def _list_templates(self, _: _Context, __: object) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=TEMPLATES)

    async def _read_resource(
        self, context: _Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        async with _refusals(), _progress(context) as options:
            return await read_resource(self._client, str(params.uri), **options)

    async def _subscribe(
        self, context: _Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        async with _refusals():
            uri = str(params.uri)
            await self._watch_for(context).add(uri, parse_uri(uri).session_id)
        return types.EmptyResult()

    async def _unsubscribe(
        self, context: _Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        self._watch_for(context).remove(str(params.uri))
        return types.EmptyResult()

    async def _initialized(self, context: _Context, _: object) -> None:
        self._log.begin(context.session)
        await self._watch_for(context).add_list()

    def _watch_for(self, context: _Context) -> Watch:
        if self._watch is None:
            session = context.session

            async def send(mark: str) -> None:
                if mark == LIST_CHANGED:
                    await session.send_resource_list_changed()
                else:
                    await session.send_resource_updated(mark)

            self._watch = Watch(self._client, self._tasks, send)
            self._tasks.start_soon(self._watch.run)
        return self._watch

    async def _listen(
        self, context: _Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        asked, number = params.notifications, context.request_id
        uris, wants_list = asked.resource_subscriptions or [], asked.resources_list_changed
        meta: Any = {SUBSCRIPTION_ID_META_KEY: number}

        async def send(mark: str) -> None:
            told: Any = (
                types.ResourceListChangedNotification(params=types.NotificationParams(_meta=meta))
                if mark == LIST_CHANGED
                else types.ResourceUpdatedNotification(
                    params=types.ResourceUpdatedNotificationParams(uri=mark, _meta=meta)
                )
            )
            await context.session.send_notification(told, related_request_id=number)

        honoured = types.SubscriptionFilter(
            resource_subscriptions=uris or None, resources_list_changed=wants_list or None
        )
        async with _refusals(), anyio.create_task_group() as tasks:
            watch = Watch(self._client, tasks, send)
            for uri in uris:
                await watch.add(uri, parse_uri(uri).session_id)
            if wants_list:
                await watch.add_list()
            told = types.SubscriptionsAcknowledgedNotificationParams(
                notifications=honoured, _meta=meta
            )
            await context.session.send_notification(
                types.SubscriptionsAcknowledgedNotification(params=told),
                related_request_id=number,
            )
            await watch.run()
        return types.SubscriptionsListenResult(_meta=meta)


@asynccontextmanager
async def _refusals() -> AsyncGenerator[None]:
    """Turn refusals into errors of the protocol, with what to do next."""
    try:
        yield
    except Exception as error:
        told = _told(error)
        if told is None:
            raise
        raise told from None


def _told(error: Exception) -> MCPError | None:
    """Return the error of the protocol for a refusal; None for any other error."""
    if isinstance(error, ExceptionGroup):  # of the tasks of a request
        told = [_told(one) for one in cast("ExceptionGroup[Exception]", error).exceptions]
        return told[0] if None not in told else None
    match error:
        case BadUri():
            return MCPError(types.INVALID_PARAMS, str(error))
        case RpcError():
            text = f"{error.message}; {next_step(error)}"
            return MCPError(types.INVALID_PARAMS, text, {"kind": error.kind})
        case SessiondClientError():
            return MCPError(types.INTERNAL_ERROR, f"{error}; {next_step(error)}")
        case _:
            return None


@asynccontextmanager
async def _progress(context: _Context) -> AsyncGenerator[dict[str, Any]]:
    """Pass the daemon's progress on, the newest report only, if the client asked for progress."""
    if (context.meta or {}).get("progress_token") is None:
        yield {}
        return
    newest: list[tuple[int, int | None, str]] = []
    news = anyio.Event()

    def report(done: int, total: int | None, unit: str) -> None:
        newest[:] = [(done, total, unit)]
        news.set()

    async def send() -> None:
        nonlocal news
        while True:
            await news.wait()
            news = anyio.Event()
            done, total, unit = newest.pop()
            await context.session.report_progress(done, total, unit)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        yield {"on_progress": report}
        tasks.cancel_scope.cancel()
