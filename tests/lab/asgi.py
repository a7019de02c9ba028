"""Requests to an ASGI application in this process, without a server."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Answer:
    """What the application has sent."""

    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def status(self) -> int:
        return self.messages[0]["status"]

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode().lower(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def text(self) -> str:
        return b"".join(message.get("body", b"") for message in self.messages[1:]).decode()

    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Client:
    """Asks an application that believes to be at `host`; headers of None are left out."""

    app: Any
    host: str

    def get(self, path: str, **headers: str | None) -> Answer:
        return self._ask("GET", path, b"", headers)

    def post(self, path: str, body: bytes = b"{}", **headers: str | None) -> Answer:
        return self._ask("POST", path, body, {"Content_Type": "application/json", **headers})

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str | None]) -> Answer:
        named = {"Host": self.host, "Content_Length": str(len(body)), **headers}
        pairs = [(name.replace("_", "-").lower().encode(), text.encode()) for name, text in named.items() if text is not None]
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": pairs,
        }
        answer = Answer()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            answer.messages.append(message)

        asyncio.run(self.app(scope, receive, send))
        return answer
