"""Documents of sessions in memory, and pages as a parser sees them."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from sessiond.rpc.progress import NO_PROGRESS
from sessiond.service.exporting.documents.document import DocumentRequest, document
from sessiond.service.exporting.documents.source import State
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import head_infos
from tests.kit.in_memory import NATIVE_HEADER, opened
from tests.kit.sessions import stored_entry

__all__ = ["HOSTILE", "Page", "everywhere", "made", "native"]

HOSTILE = [
    "<script>canary()</script>",
    "</script><script>canary()</script>",
    "</style><img src=x onerror=canary()>",
    '"><svg onload=canary()><a xlink:href="javascript:canary()">',
    "' onmouseover='canary()",
    "[x](javascript:canary()) [x](JaVaScRiPt:canary()) [x](data:text/html,<script>canary()</script>)",
    "<javascript:canary()> <https://x.invalid/\"onclick='canary()'>",
    "![x](https://canary.invalid/a.png) ![x](data:image/svg+xml,<svg/onload=canary()>)",
    "[x]: javascript:canary()\n\n[x] &lt;b&gt; &#x3c;script&#x3e;canary()&#x3c;/script&#x3e;",
    '```x" onclick="canary()\n</code></pre><script>canary()</script>\n```',
    "{{ 7*7 }}{% include 'page.css' %}{# x #}",
    "<!-- --><!--><script>canary()</script>-->",
    "]]><![CDATA[<script>canary()</script>",
    "\u202e\u2066\x00\x1b]0;x\x07\u2028<b>",
    "&amp;lt;script&gt;",
    "<meta http-equiv=refresh content='0;url=https://canary.invalid'>",
    "<base href='https://canary.invalid/'><link rel=stylesheet href='https://canary.invalid/x'>",
]


def native(*entries: dict[str, Any], **header: Any) -> OpenSession:
    """Return a native session of these entries."""
    return opened(list(entries), NATIVE_HEADER | header)


def made(session: OpenSession, form: Any, leaf: str | None = None, **wanted: Any) -> str:
    """Return the document of a session, at the leaf of main or at another one."""
    index = session.session
    at = index.heads["main"].leaf if leaf is None else index.ids[leaf]
    state = State(index.seq, at, head_infos(index), session.whole())
    return b"".join(document(session, state, DocumentRequest(form, **wanted), NO_PROGRESS)).decode()


def everywhere(said: str) -> Any:
    """Return a session that says a text in every field that a page shows."""
    call = {"type": "tool_use", "id": said, "name": said, "input": {said: said}}
    image = {"type": "image", "mimeType": said, "data": said}
    address = {"type": "image_url", "image_url": {"url": said}}
    thought = {"type": "thinking", "thinking": said, "signature": said}
    usage = {"input_tokens": 1, "total_tokens": 1}
    answer = {
        "role": "assistant",
        "model": said,
        "provider": said,
        "stop_reason": "error",
        "content": [{"type": "text", "text": said}, thought, call, image, address, {"type": said}],
        "usage": usage,
    }
    result = {"role": "tool", "tool_call_id": said, "tool_name": said, "content": said}
    return native(
        stored_entry("message", said, None, message={"role": "user", "content": said}),
        stored_entry("message", "a1", said, message=answer),
        stored_entry("message", "t1", "a1", message=result),
        stored_entry("message", "t2", "a1", message={"role": said, "content": said}),
        stored_entry("compaction", "k1", "t1", summary=said, first_kept_entry_id=said),
        stored_entry("branch_summary", "b1", "k1", summary=said, from_id=said),
        stored_entry("model_change", "m1", "b1", provider=said, model_id=said),
        stored_entry("thinking_level_change", "h1", "m1", thinking_level=said),
        stored_entry("custom", "c1", "h1", custom_type=said, data={said: [said]}),
        stored_entry("custom_message", "e1", "c1", custom_type=said, content=said, display=True),
        stored_entry("x" + said, "o1", "e1", field=said),
        stored_entry("label", "l1", "o1", target_id="a1", label=said),
        stored_entry("session_info", "i1", "o1", name=said, tags=[said], status=said, agent=said),
        cwd="/" + said,
    )


class Page(HTMLParser):
    """Elements and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.comments: list[str] = []
        self._inside: list[str] = []
        self.raw: dict[str, str] = {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_data(self, data: str) -> None:
        if self._inside and self._inside[-1] in {"script", "style"}:
            self.raw[self._inside[-1]] = self.raw.get(self._inside[-1], "") + data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        """Return all text of the page, without its script and style."""
        return "".join(self.texts)

    def all(self, tag: str) -> list[dict[str, str]]:
        """Return the attributes of each element with this name."""
        return [attributes for name, attributes in self.elements if name == tag]
