from __future__ import annotations

import json
from importlib.metadata import distributions

import pytest

from sparkmirror.lab.package_hashes import read_hashes
from sparkmirror.lab.sbom import bill, licences, main, needed, normal


def test_what_a_run_needs_is_told_from_what_only_extras_need() -> None:
    requirements = {
        "sparkmirror": ["rich>=13.9", 'pytest>=8; extra == "dev"'],
        "rich": ["Markdown_it.py (>=2)", 'absent; python_version < "3"'],
        "markdown-it-py": ["rich"],
        "pytest": ["rich"],
    }
    assert needed(requirements) == {"sparkmirror", "rich", "markdown-it-py"}


@pytest.mark.parametrize(
    ("stated", "shown"),
    [
        (("MIT", ("License :: OSI Approved :: BSD License",), "BSD"), [{"expression": "MIT"}]),
        (("", ("License :: OSI Approved :: BSD License",), "BSD"), [{"license": {"name": "BSD License"}}]),
        (("", (), " ISC \nPermission to use"), [{"license": {"name": "ISC"}}]),
        (("", (), "Permission to use " * 9), []),
        (("", (), ""), []),
    ],
)
def test_a_licence_is_told_as_exactly_as_the_package_states_it(stated, shown) -> None:
    assert licences(*stated) == shown


def test_packages_and_jars_of_this_environment_are_listed_with_licences_and_checksums() -> None:
    whole = bill(distributions(), {"spark-core_2.13-4.3.0.jar": "ab"}, {"kafka-4.3.1/kafka_2.13-4.3.1.jar": "cd"}, {})
    assert whole["metadata"]["component"]["name"] == "sparkmirror"
    components = {one["bom-ref"].rpartition("@")[0] or one["bom-ref"]: one for one in whole["components"]}
    assert components["pkg:pypi/pyspark"]["scope"] == "required"
    assert components["pkg:pypi/pytest"]["scope"] == "optional"
    unstated = [ref for ref, one in components.items() if ref.startswith("pkg:pypi/") and not one["licenses"]]
    assert unstated == []
    jar = components["kafka-4.3.1/kafka_2.13-4.3.1.jar"]
    assert (jar["name"], jar["version"], jar["scope"]) == ("kafka_2.13", "4.3.1", "optional")
    assert components["pyspark/spark-core_2.13-4.3.0.jar"]["hashes"] == [{"alg": "SHA-256", "content": "ab"}]
    assert normal("Typing.Extensions>=4; extra == 'x'") == "typing-extensions"


def test_a_package_has_a_reference_with_the_checksum_of_each_file_that_pins_of_its_version_allow() -> None:
    version = next(one.version for one in distributions() if normal(one.name) == "typing-extensions")
    text = (
        f"# SHA-256\n\nTyping_Extensions=={version} --hash=sha256:ab --hash=sha256:cd\nclick==0.0.1 --hash=sha256:ef\n"
    )
    components = {one["name"]: one for one in bill(distributions(), {}, {}, read_hashes(text))["components"]}
    of_one = components["typing_extensions"]
    assert [one["hashes"] for one in of_one["externalReferences"]] == [
        [{"alg": "SHA-256", "content": digest}] for digest in ("ab", "cd")
    ]
    assert {one["type"] for one in of_one["externalReferences"]} == {"distribution"}
    assert "externalReferences" not in components["click"], "the pins are of another version"


def test_the_bill_of_this_environment_is_written(tmp_path):
    path = tmp_path / "made" / "sbom.json"
    main(path)
    written = json.loads(path.read_text())
    names = {one["name"] for one in written["components"]}
    references = [one["bom-ref"] for one in written["components"]]
    assert len(set(references)) == len(references)
    pinned = {one["name"] for one in written["components"] if one.get("externalReferences")}
    assert {"pyspark", "py4j", "numpy", "click"} <= pinned
    assert {"pyspark", "py4j", "kafka-clients", "spark-core_2.13"} <= names
