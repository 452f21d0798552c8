"""Fixtures: devices shared by the tests of a module, sessions and shells."""

import shutil

import pytest
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.session import Session

from . import remote_site, sshserver
from .intents import ROUTER4
from .support import make_file_session


def _make_device_name(request) -> str:
    """Return a name for the device of a module, or skip its tests without sshd."""
    if missing := sshserver.find_missing():
        pytest.skip(f"needs {missing}")
    return request.module.__name__.rpartition("test_")[2].replace("_", "-")


@pytest.fixture(scope="module")
def server(request):
    """Start an sshd in its own namespaces for a module."""
    server = sshserver.Server(_make_device_name(request))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def site(request, tmp_path_factory):
    """Start a device behind a router, and an operator's host, for a module."""
    site = remote_site.RemoteSite(_make_device_name(request), tmp_path_factory.mktemp("site"))
    yield site
    site.close()


@pytest.fixture
def login(server, request):
    """Return a function that logs in to the server; the connections are closed at the end."""

    def connect(**ssh):
        transport = server.login(**ssh)
        request.addfinalizer(transport.close)
        transport.open()
        return transport

    return connect


@pytest.fixture
def make_session(server, request, tmp_path):
    """Return a factory of command driver sessions, which are closed at the end."""

    def make(options, **ssh):
        driver = make_driver("command", {"base": False, **options})
        session = Session(driver, server.login(**ssh), ROUTER4, tmp_path / "keep")
        request.addfinalizer(session.close)
        return session

    return make


@pytest.fixture
def open_device(request, tmp_path):
    """Return a factory of open sessions with a directory as device, which are closed at the end."""

    def open_session(*steps, **options):
        session = make_file_session(tmp_path, *steps, **options)
        request.addfinalizer(session.close)
        session.open()
        return session

    return open_session


@pytest.fixture(params=["dash", "busybox sh"])
def sh(request):
    """Return the command of a shell that devices have."""
    program, *words = request.param.split()
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    return [program, *words]
