"""`refil lab`."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def lab():
    """The address of a lab in a process of its own, and the process."""
    command = [sys.executable, "-m", "refil", "lab"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    first = process.stdout.readline()
    yield re.search(r"http://127\.0\.0\.1:(\d+)/ \(Ctrl-C ends it\)", first)[1], process
    process.kill()
    process.communicate()


def request(port: str, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders(body)
    response = connection.getresponse()
    return response.status, response.read().decode()


def test_the_server_answers_its_own_page_only(lab):
    port, _ = lab
    assert request(port, "GET", "/")[0] == 200
    assert json.loads(request(port, "POST", "/api/setup", b"{}")[1])["opened"] is None
    assert request(port, "POST", "/api/setup", b"{}", Origin="https://example.com")[0] == 403
    assert request(port, "GET", "/", Host="example.com")[0] == 421
    assert request(port, "GET", "/../pyproject.toml")[0] == 404


def test_a_body_of_100_megabytes_is_refused_before_it_is_sent(lab):
    connection = http.client.HTTPConnection("127.0.0.1", int(lab[0]), timeout=30)
    connection.putrequest("POST", "/api/battle")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", "100000000")
    connection.endheaders()
    response = connection.getresponse()
    assert response.status == 413
    assert "the lab reads up to 1 MB" in response.read().decode()


def test_only_this_machine_can_reach_it(lab):
    port, _ = lab
    listening = Path("/proc/net/tcp")
    if not listening.exists():
        pytest.skip("no /proc/net/tcp here")
    rows = [row.split()[1] for row in listening.read_text().splitlines()[1:]]
    assert [row.partition(":")[0] for row in rows if int(row.partition(":")[2], 16) == int(port)].count("0100007F") >= 1
    assert f"00000000:{int(port):04X}" not in rows


def test_ctrl_c_ends_it_cleanly(lab):
    _, process = lab
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=30)
    assert process.returncode == 0
    assert error.splitlines()[-1] == "refil: the lab has ended"
    assert "Traceback" not in out + error


def test_bad_arguments_are_refused(refil, tmp_path):
    assert "--port must be from 0 to 65535, not 70000" in refil("lab", "--port", "70000")[1]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} of this machine cannot be used" in refil("lab", "--port", str(port))[1]
    _, error, code = refil("lab", "no_such_thing")
    assert code == 2
    assert "no_such_thing" in error
    assert "holds no run" in refil("lab", str(tmp_path))[1]


def test_without_the_extra_one_sentence_names_it(refil, monkeypatch):
    monkeypatch.setitem(sys.modules, "starlette", None)
    _, error, code = refil("lab")
    assert code == 2
    assert error == "refil: refil lab needs the extra 'lab': pip install 'refil[lab]'\n"


def test_nothing_else_imports_the_extra():
    code = "import sys, refil.__main__ as m; sys.argv = ['refil', 'list']; m.main(); assert 'starlette' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
