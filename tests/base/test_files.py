"""Atomic writes and locks of directories."""

import errno
import multiprocessing
import os
import signal
import subprocess
import sys

import pytest
from v6t.base.errors import UsageError
from v6t.base.files import (
    LOCK_NAME,
    acquire_lock,
    hold_lock,
    locate_cache,
    read_json,
    read_text,
    report_write_errors,
    write_atomically,
)
from v6t.tests.expect import expect_error

HOLDER = """
import sys, time
from pathlib import Path
from v6t.base.files import acquire_lock
lock = acquire_lock(Path(sys.argv[1]))
print("locked", flush=True)
time.sleep(60)
"""


def fail_with(number):
    def fail(*arguments):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("durable", [False, True])
def test_write_replaces_content_and_leaves_no_part(durable, tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    write_atomically(path, "new", durable=durable)
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["file"]


def test_error_on_a_full_disk_names_the_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    monkeypatch.setattr(os, "fsync", fail_with(errno.ENOSPC))
    with pytest.raises(OSError, match="file") as caught:
        write_atomically(path, "new", durable=True)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(path))
    assert os.listdir(tmp_path) == []


def test_failed_write_keeps_the_old_content(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o640)])
def test_mode_of_a_file_follows_the_umask_unless_it_is_private(private, mode, tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "file", "text", private=private)
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == mode


def test_lock_is_exclusive_within_a_process_and_reusable(tmp_path):
    with hold_lock(tmp_path), pytest.raises(UsageError):
        acquire_lock(tmp_path)
    acquire_lock(tmp_path).release()


def test_lock_is_refused_until_its_process_is_killed(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(UsageError):
            acquire_lock(tmp_path)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    acquire_lock(tmp_path).release()


def test_forked_child_that_ends_keeps_the_lock_of_its_parent(tmp_path):
    with hold_lock(tmp_path):
        child = multiprocessing.get_context("fork").Process(target=int)
        child.start()
        child.join()
        with pytest.raises(UsageError):
            acquire_lock(tmp_path)


def test_lock_in_an_absent_directory_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError):
        acquire_lock(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


def test_lock_file_is_private(tmp_path):
    with hold_lock(tmp_path):
        assert (tmp_path / LOCK_NAME).stat().st_mode & 0o777 == 0o600


def test_cache_directory_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert locate_cache() == tmp_path / "v6t"


def test_windows_files_are_read_without_bom_and_carriage_returns(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b'\xef\xbb\xbf{"a":\r\n 1}')
    assert read_text(path) == '{"a":\n 1}'
    assert read_json(path) == {"a": 1}


@pytest.mark.parametrize(
    ("number", "code", "status"),
    [(errno.ENOSPC, "disk-full", 3), (errno.EACCES, "file-unwritable", 2)],
)
def test_full_disk_and_denied_write_have_different_codes(tmp_path, number, code, status):
    with expect_error(code) as error, report_write_errors(tmp_path):
        raise OSError(number, os.strerror(number))
    assert error.value.exit_code == status
