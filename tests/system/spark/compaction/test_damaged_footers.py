"""No damage of a footer ends a process of the pipeline, nor one that sets tables to the log."""

import subprocess
import sys

import pytest

from headwater.log.read.parquet.rows import read_footer
from headwater.tables.commit.statistics import described_statistics, encode_statistics
from tests.support.pipeline.damaged_footers import file_of_a_table


@pytest.mark.parametrize("reading", ["rows", "statistics"])
def test_no_changed_byte_of_a_footer_ends_the_process(reading: str) -> None:
    """Arrow throws where nobody catches for a least or greatest value of another length."""
    program = [sys.executable, "-m", "tests.support.pipeline.damaged_footers", reading]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    read, refused = map(int, done.stdout.split())
    assert read > 100
    assert refused > 500


def test_statistics_from_a_footer_equal_the_writers() -> None:
    content = file_of_a_table()
    found, metadata = read_footer(bytearray(content), "k")
    assert described_statistics(found, (0,)) == encode_statistics(metadata, (0,))
