"""The page of bugs that others reported says what the program finds that plants them."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "kernels"))

from real_bugs import BUGS, NOT_PLANTED, result


def test_the_page_of_real_bugs_says_what_was_run():
    page = (Path(__file__).parents[2] / "docs" / "kernels-found.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if re.match(r"\| \d+ ", line)]
    said = {int(row[1]): (row[3].strip(), row[4].strip()) for row in rows}
    assert list(said) == list(range(1, 43))
    for number, (how, seen_by, *variants) in BUGS.items():
        is_caught, found = result(variants)
        assert is_caught, (number, found)
        assert said[number] == (how, f"{seen_by}: {found}")
    for number, reason in NOT_PLANTED.items():
        assert said[number] == ("", f"nothing: {reason}")
    assert f"\n{len(BUGS)} of 42 are caught." in page
