"""Fixtures for devices that the tests of a module share."""

from __future__ import annotations

import pytest
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.session import Session

from . import field, sshserver
from .intents import ROUTER4


def _get_module_name(request) -> str:
    return request.module.__name__.rpartition("test_")[2].replace("_", "-")


@pytest.fixture(scope="module")
def server(request):
    """Start an sshd in its own namespaces for a module."""
    if sshserver.find_missing() is not None:
        pytest.skip(f"needs {sshserver.find_missing()}")
    server = sshserver.Server(_get_module_name(request))
    yield server
    sshserver.stop_server(server)


@pytest.fixture(scope="module")
def site(request, tmp_path_factory):
    """Start a device behind a router, and an operator's host, for a module."""
    if sshserver.find_missing() is not None:
        pytest.skip(f"needs {sshserver.find_missing()}")
    made = field.Field(_get_module_name(request), tmp_path_factory.mktemp("field"))
    yield made
    made.close()


@pytest.fixture
def login(server):
    """Log in to the server; closed at the end."""
    made = []

    def connect(**ssh):
        transport = server.login(**ssh)
        made.append(transport)
        transport.open()
        return transport

    yield connect
    for transport in made:
        transport.close()


@pytest.fixture
def make_session(server, tmp_path):
    """Return a factory of sessions of the command driver; they are closed at the end."""
    sessions = []

    def make(options, **ssh):
        driver = make_driver("command", {"base": False, **options})
        sessions.append(Session(driver, server.login(**ssh), ROUTER4, tmp_path / "keep"))
        return sessions[-1]

    yield make
    for session in sessions:
        session.close()
