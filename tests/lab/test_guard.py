"""The guard: who may ask, and how much."""

import asyncio

import pytest
from starlette.responses import PlainTextResponse

from refil.lab import guard
from refil.lab.guard import Guard
from tests.lab.asgi import Client

HOST = "127.0.0.1:8000"


async def answer(scope, receive, send):
    body = b""
    if scope["method"] == "POST":
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
    await PlainTextResponse(f"read {len(body)}")(scope, receive, send)


@pytest.fixture
def client():
    return Client(Guard(answer, lambda: {HOST, "localhost:8000"}), HOST)


def post(client, body=b"{}", **headers):
    return client.post("/api/x", body, **headers)


def test_its_own_page_is_answered(client):
    assert client.get("/").text == "read 0"
    assert post(client).text == "read 2"
    assert post(client, Origin=f"http://{HOST}", Sec_Fetch_Site="same-origin").status == 200
    assert post(client, Host="localhost:8000", Origin="http://localhost:8000").status == 200


@pytest.mark.parametrize(
    "origin", ["https://example.com", "null", "http://127.0.0.1:9000", f"https://{HOST}", "http://localhost:8000"]
)
def test_a_foreign_origin_is_refused(client, origin):
    response = post(client, Origin=origin)
    assert response.status == 403
    assert response.json() == {"error": "this server answers only its own page, not pages of other sites"}
    assert "access-control-allow-origin" not in response.headers


HOSTS = ["example.com", "example.com:8000", "127.0.0.1", "127.0.0.1:80", "127.0.0.1.example.com:8000", "", None]


@pytest.mark.parametrize("host", HOSTS)
def test_a_foreign_host_is_refused(client, host):
    for response in (client.get("/", Host=host), post(client, Host=host)):
        assert response.status == 421
        assert "only requests to its own address" in response.json()["error"]


def test_requests_from_other_sites_are_refused(client):
    assert post(client, Sec_Fetch_Site="cross-site").status == 403
    assert post(client, Sec_Fetch_Site="same-site").status == 403
    assert client.get("/", Sec_Fetch_Site="cross-site").status == 200  # a link to the page


def test_forms_are_refused(client):
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain", None):
        assert post(client, Content_Type=kind).status == 415


def test_a_body_of_100_megabytes_is_refused():
    """Without reading it where its length is announced, and after a megabyte where it is not."""
    for announced in (True, False):
        read, sent = [], []
        headers = [(b"host", HOST.encode()), (b"content-type", b"application/json")]
        headers += [(b"content-length", b"100000000")] if announced else []
        scope = {"type": "http", "method": "POST", "path": "/api/x", "headers": headers}

        async def receive(read=read):
            read.append(100_000)
            return {"type": "http.request", "body": b"x" * 100_000, "more_body": len(read) < 1000}

        async def send(message, sent=sent):
            sent.append(message)

        asyncio.run(Guard(answer, lambda: {HOST})(scope, receive, send))
        assert sent[0]["status"] == 413
        assert b"the request is too large; the lab reads up to 1 MB" in sent[1]["body"]
        assert (b"connection", b"close") in sent[0]["headers"]
        assert len(read) == (0 if announced else 11)


def test_lengths_that_are_no_numbers_are_refused(client):
    assert post(client, Content_Length="-1").status == 413


def test_websockets_are_closed():
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(Guard(answer, lambda: {HOST})({"type": "websocket"}, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_answers_forbid_caching_and_framing(client):
    for response in (client.get("/"), client.get("/", Host="example.com")):
        for name, value in guard.HEADERS.items():
            assert response.headers[name.lower()] == value


def test_any_text_can_be_sent():
    assert guard.reply({"error": "\ud800"}).body == b'{"error": "\\ud800"}'
    assert guard.complaint("no", 400).status_code == 400
