"""A Python that has the project and its packages, but not those of the extras."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import headwater

EXTRAS = ("numba", "numpy", "pandas", "pyarrow", "pyiceberg", "pyspark")


def core_environment(folder: Path) -> dict[str, str]:
    """Variables for ``python -S``; ``folder`` gets links to every installed package but those."""
    packages = folder / "packages"
    packages.mkdir()
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if package.name.partition("-")[0] not in EXTRAS and package.suffix != ".pth":
            (packages / package.name).symlink_to(package)
    source = Path(headwater.__file__).parents[1]
    own = {name: value for name, value in os.environ.items() if "HEADWATER" not in name}
    return own | {"PYTHONPATH": f"{packages}{os.pathsep}{source}"}


def run_core(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """``headwater`` to its end, without the extras."""
    return subprocess.run(
        [sys.executable, "-S", "-m", "headwater.cli", *words],
        env=core_environment(folder),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
