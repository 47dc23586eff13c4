"""What rows of an output have read, from the codes of values.

Each value is a code of its sequence, KV head and key. A row that is a code, a multiple of one, or a
mixture of two codes says what was read.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from constructive.kernels.problem import Problem
from constructive.support.arrays import Array

_CLOSE = 2.0**-6
_FEW = 4  # Keys of a tie that are listed
_NEARLY = 1e-5  # A part that is shown as one, rather than a factor


@dataclass(frozen=True)
class Row:
    """What a wrong row has read."""

    kind: str  # the same for rows that are wrong in the same way
    words: str  # a sentence on the row, without its place


@dataclass(frozen=True, eq=False)
class Reading:
    """Rows of an output, decoded."""

    problem: Problem  # what was computed
    out: Array  # (B, H, T_q, d_v)

    @cached_property
    def _table(self) -> dict[bytes, tuple[int, int, int]]:
        v = self.problem.v
        batch, heads, keys, width = v.shape
        rows = v.reshape(-1, width)
        places = np.ndindex(batch, heads, keys)
        found: dict[bytes, tuple[int, int, int]] = {}
        for row, place in zip(rows, places, strict=True):
            found.setdefault(row.tobytes(), place)
        return found

    def key(self, row: tuple[int, int, int]) -> tuple[int, int, int] | None:
        """Return the sequence, KV head and key whose value a row is, or None."""
        found = self._table.get(np.ascontiguousarray(self.out[row]).tobytes())
        if found is not None:  # what all sequences share is read in this one
            own = row[0], row[1] // self.problem.spec.group, found[2]
            if np.array_equal(self.problem.v[own], self.problem.v[found]):
                return own
        return found

    def words(self, row: tuple[int, int, int]) -> str:
        """Return a sentence on a wrong row."""
        batch, head, query = row
        return f"batch {batch} head {head} query {query} {self.row(row).words}"

    def row(self, row: tuple[int, int, int]) -> Row:
        """Return what a wrong row has read."""
        with np.errstate(all="ignore"):
            return self._row(row)

    def _row(self, row: tuple[int, int, int]) -> Row:
        out, expected = self.out[row], self.problem.expected[row]
        wanted = f"it should read {self.wanted(row)}"
        if self.problem.answer.empty[row]:
            convention = self.problem.spec.fully_masked
            what = self._without_keys(row, out)
            words = f"sees no key and is {what}; the convention is {convention!r}"
            return Row(f"rows without a visible key that are {what}, not {convention!r}", words)
        odd = int((~np.isfinite(out)).sum())
        if odd:
            same = "NaN or infinite"
            if odd == len(out):
                return Row(same, f"is {same}; {wanted}")
            return Row(f"{same} in part", f"has {odd} entries that are {same}; {wanted}")
        key = self.key(row)
        if key is not None:
            return Row(self._move(row, key), f"reads {self._place(row, key)}; {wanted}")
        return self._mixed(row, out, expected)

    def _without_keys(self, row: tuple[int, int, int], out: Array) -> str:
        """Say what a row is that sees no key."""
        values = self.problem.v[row[0], row[1] // self.problem.spec.group]
        key = self.key(row)
        if not np.isfinite(out).any():
            return "NaN"
        if not out.any():
            return "zero"
        if np.allclose(out, values.mean(0), rtol=_CLOSE, atol=0.0):
            return "the average of all values"
        if key is not None:
            return f"the value of {self._place(row, key)}"
        return _shown(out)

    def _mixed(self, row: tuple[int, int, int], out: Array, expected: Array) -> Row:
        """Return what a row has read that is the value of no key."""
        if not out.any():
            return Row("zero", f"is zero; it should read {self.wanted(row)}")
        ratio = out / expected
        if np.abs(ratio - 1.0).max() <= _CLOSE:
            most = float(np.abs(ratio - 1.0).max())
            if np.ptp(ratio) > most / _FEW:
                return Row("right up to roundings", f"is right but for a part {most:.3g}")
        if np.ptp(ratio) <= _CLOSE * abs(ratio.mean()):
            off = abs(ratio.mean() - 1.0)
            if off < _NEARLY:
                return Row(f"right but for less than {_NEARLY:g}", f"is right but for {off:.2g}")
            times = f"times {ratio.mean():.6g}"
            return Row(f"right, {times}", f"is right, {times}")
        columns = self._columns(out, expected)
        if columns:
            return Row(columns, f"is {columns}")
        return self._nearest(row, out, expected)

    def _move(self, row: tuple[int, int, int], key: tuple[int, int, int]) -> str:
        """Say where a key is beside the one that should be read."""
        batch, head, _ = row
        keys = np.flatnonzero(self.problem.answer.weights[row] == 1.0)
        words = []
        if key[0] != batch:
            words.append(f"those of batch {key[0]}")
        if key[1] != head // self.problem.spec.group:
            words.append(f"those of KV head {key[1]}")
        if len(keys) == 1 and key[2] != keys[0]:
            words.append(f"values of the key {key[2] - keys[0]:+d} from the right one")
        elif len(keys) > 1:
            words.append("one of several keys that should be averaged")
        return ", ".join(words) or "right"

    def wanted(self, row: tuple[int, int, int]) -> str:
        """Return what a row should read."""
        weights = self.problem.answer.weights[row]
        keys = np.flatnonzero(weights)
        if len(keys) == 1:
            return f"key {keys[0]}"
        if (weights[keys] < 1.0).any():
            return f"key {np.argmax(weights)} and less of key {int(keys[weights[keys] < 1.0][0])}"
        listed = ", ".join(str(key) for key in keys[:_FEW])
        more = f" and {len(keys) - _FEW} more" if len(keys) > _FEW else ""
        return f"the average of keys {listed}{more}"

    def _place(self, row: tuple[int, int, int], key: tuple[int, int, int]) -> str:
        batch, head, query = row
        words = [f"key {key[2]}"]
        if key[0] != batch:
            words.append(f"of batch {key[0]}")
        if key[1] != head // self.problem.spec.group:
            words.append(f"of KV head {key[1]} (its own is {head // self.problem.spec.group})")
        visible = self.problem.visible[batch, head % self.problem.visible.shape[1], query, key[2]]
        if len(words) == 1 and not visible:
            words.append(", which the mask hides")
        return " ".join(words).replace(" ,", ",")

    def _columns(self, out: Array, expected: Array) -> str:
        """Say which columns are wrong, where some are right."""
        wrong = np.abs(out - expected) > _CLOSE * expected
        right = int((~wrong).sum())
        if right < max(3, 3 * len(wrong) // 8):
            return ""
        columns = np.flatnonzero(wrong)
        if not len(columns):  # wrong by less than can be read
            return ""
        is_range = len(columns) == columns[-1] - columns[0] + 1 and len(columns) > 1
        # Codes agree by chance in half of all columns: a run of them does not.
        if not is_range and not (len(columns) == 1 and len(wrong) > _FEW):
            return ""
        what = "zero" if not out[columns].any() else _shown(out[columns])
        return f"wrong in columns {columns[0]} to {columns[-1]} alone, which are {what}"

    def _nearest(self, row: tuple[int, int, int], out: Array, expected: Array) -> Row:
        """Say which one key would explain the difference from the right row, if one does."""
        batch, head, _ = row
        values = self.problem.v[batch, head // self.problem.spec.group]
        total = float(self.problem.answer.weights[row].sum())
        difference = out - expected
        # out = (total expected + w v) / (total + w): the share of one more key.
        moves = values - expected
        share = (moves @ difference) / np.maximum((moves * moves).sum(-1), 2.0**-30)
        rest = np.abs(difference - share[:, None] * moves).max(-1)
        best = int(np.argmin(np.where(np.abs(share) > 2.0**-12, rest, np.inf)))
        wanted = self.wanted(row)
        size = float(np.abs(difference).max())
        if rest[best] <= _CLOSE * max(size, 2.0**-7) and total:
            if 0.0 < share[best] < 1.0:
                weight = share[best] * total / (1.0 - share[best])
                place = self._place(row, (batch, head // self.problem.spec.group, best))
                words = f"reads {place} with weight {weight:.3g} beside {wanted}"
                return Row("mixtures of the right row and one more key", words)
            if share[best] < 0.0:
                words = f"lacks key {best}, {-share[best]:.3g} of it; it should read {wanted}"
                return Row("averages that lack a key", words)
        near = int(np.argmin(np.abs(values - out).max(-1)))
        words = (
            f"is the code of no key: {_shown(out)}, off by {size:.3g}; nearest is key {near}; it "
            f"should read {wanted}"
        )
        return Row("codes of no key", words)


def _shown(values: Array) -> str:
    numbers = ", ".join(f"{value:.6g}" for value in values[:_FEW])
    return f"[{numbers}{', ..' if len(values) > _FEW else ''}]"
