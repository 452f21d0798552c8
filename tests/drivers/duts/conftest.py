"""Fixtures: devices shared by the tests of a module, sessions and shells."""

import shutil
from contextlib import ExitStack

import pytest
from v6t.drivers.duts.registry import make_driver
from v6t.drivers.duts.session.session import Session

from . import remote_site, sshserver
from .intents import ROUTER4
from .support import make_file_session


def _require_sshd() -> None:
    if missing := sshserver.find_missing():
        pytest.skip(f"needs {missing}")


def _get_module_name(request) -> str:
    return request.module.__name__.rpartition("test_")[2].replace("_", "-")


@pytest.fixture(scope="module")
def server(request):
    """Start an sshd in its own namespaces for a module."""
    _require_sshd()
    server = sshserver.Server(_get_module_name(request))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def site(request, tmp_path_factory):
    """Start a device behind a router, and an operator's host, for a module."""
    _require_sshd()
    site = remote_site.RemoteSite(_get_module_name(request), tmp_path_factory.mktemp("site"))
    yield site
    site.close()


@pytest.fixture
def login(server):
    """Return a function that logs in to the server; the connections are closed at the end."""
    with ExitStack() as stack:

        def connect(**ssh):
            transport = server.login(**ssh)
            stack.callback(transport.close)
            transport.open()
            return transport

        yield connect


@pytest.fixture
def make_session(server, tmp_path):
    """Return a factory of command driver sessions, which are closed at the end."""
    with ExitStack() as stack:

        def make(options, **ssh):
            driver = make_driver("command", {"base": False, **options})
            session = Session(driver, server.login(**ssh), ROUTER4, tmp_path / "keep")
            stack.callback(session.close)
            return session

        yield make


@pytest.fixture
def open_device(tmp_path):
    """Return a factory of open sessions with a directory as device, which are closed at the end."""
    with ExitStack() as stack:

        def open_session(*steps, **options):
            session = make_file_session(tmp_path, *steps, **options)
            stack.callback(session.close)
            session.open()
            return session

        yield open_session


SHELLS = {"dash": ["dash"], "busybox": ["busybox", "sh"]}


@pytest.fixture(params=SHELLS)
def sh(request):
    """Return the command of a shell that devices have."""
    if shutil.which(SHELLS[request.param][0]) is None:
        pytest.skip(f"needs {request.param}")
    return SHELLS[request.param]
