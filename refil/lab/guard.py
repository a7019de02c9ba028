"""The guard of the lab's server: only pages of the lab itself may talk to it, and only in short messages."""

import json
from collections.abc import Callable
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 1_000_000  # bytes
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class TooLargeError(Exception):
    """The body of a request is longer than `MAX_BODY`."""


def reply(content: Any, status: int = 200) -> Response:
    """Return JSON in ASCII, which can hold any text that a user has typed."""
    return Response(json.dumps(content, allow_nan=False), status, media_type="application/json")


def complaint(text: str, status: int) -> Response:
    """Return a sentence about what is wrong with a request."""
    return reply({"error": text}, status)


class Guard:
    """Refuses requests with a foreign Host or Origin, and bodies that are too long, before anything else sees them.

    A page of another site can send requests to this machine, and by changing the address of its own name even read the
    answers. Such requests name that site in Origin or in Host.
    """

    def __init__(self, app: ASGIApp, hosts: Callable[[], set[str]]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = self._refusal(scope)
        try:
            await (refusal or self.app)(scope, _limited(receive), _with_headers(send, closing=refusal is not None))
        except TooLargeError:
            await _too_large()(scope, receive, _with_headers(send, closing=True))

    def _refusal(self, scope: Scope) -> Response | None:
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        host, origin = headers.get("host", []), headers.get("origin", [])
        if len(host) != 1 or host[0].lower() not in self.hosts():
            return complaint("this server answers only requests to its own address on this machine", 421)
        if origin and origin != [f"http://{host[0]}"]:
            return complaint("this server answers only its own page, not pages of other sites", 403)
        if scope["path"] != "/" and headers.get("sec-fetch-site", ["same-origin"])[0] not in ("same-origin", "none"):
            return complaint("this server answers only its own page, not pages of other sites", 403)
        if scope["method"] == "POST" and headers.get("content-type", [""])[0].partition(";")[0] != "application/json":
            return complaint("the body of a request must be of type application/json", 415)
        length = headers.get("content-length", ["0"])[0]
        if not length.isdecimal() or int(length) > MAX_BODY:
            return _too_large()
        return None


def _too_large() -> Response:
    return complaint(f"the request is too large; the lab reads up to {MAX_BODY // 1_000_000} MB", 413)


def _limited(receive: Receive) -> Receive:
    """Count the bytes of a body, whose length a request may not have announced."""
    total = 0

    async def counted() -> Message:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        if total > MAX_BODY:
            raise TooLargeError
        return message

    return counted


def _with_headers(send: Send, closing: bool) -> Send:
    extra = HEADERS | ({"Connection": "close"} if closing else {})  # the rest of a refused body is not read

    async def extended(message: Message) -> None:
        if message["type"] == "http.response.start":
            added = [(name.lower().encode(), value.encode()) for name, value in extra.items()]
            message = {**message, "headers": [*message.get("headers", []), *added]}
        await send(message)

    return extended
