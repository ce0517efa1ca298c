from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sparkmirror.lab.certificates import write_certificates
from sparkmirror.lab.trust import trust_options
from sparkmirror.spark.java import find_java


def test_java_reads_the_authorities_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keytool = find_java().home / "bin" / "keytool"
    if not keytool.exists():
        pytest.skip("this Java has no keytool to ask")
    write_certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    options = dict(option.removeprefix("-Djavax.net.ssl.").split("=") for option in trust_options(tmp_path))
    listed = subprocess.run(
        [keytool, "-list", "-keystore", options["trustStore"], "-storepass", options["trustStorePassword"]],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "authority-0" in listed
    assert "trustedCertEntry" in listed


def test_a_machine_without_a_list_of_authorities_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert trust_options(tmp_path) == ()
