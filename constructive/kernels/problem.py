"""A problem: inputs of an attention kernel, and what every admissible kernel returns."""

from dataclasses import dataclass, replace

import numpy as np

from constructive.kernels.adapters import ADAPTERS, Options
from constructive.kernels.answer import (
    ExactAnswer,
    Lse,
    answer,
    expected_lse,
    outweighing,
    overflows,
    soft_cap_reason,
)
from constructive.kernels.cases import CASES, Draft, codes
from constructive.kernels.inputs import Inputs, alibi
from constructive.kernels.spec import Spec, chosen_heads, holds, kinds_of_bias
from constructive.support.arrays import Array, Booleans, first_place
from constructive.support.errors import AssumptionError, ParameterError, require_known

_NO_SINK = -128.0  # The logit of a sink that takes nothing, beside a winner at 0


@dataclass(frozen=True, eq=False)
class Problem(Inputs):
    """Inputs of an attention kernel, and what every admissible kernel returns.

    Use `Problem.build` or `battery`.

    Attributes:
        spec: shapes, masks and options
        case: its name, a key of `cases.CASES`
        draft: queries and keys
        v: (B, G, T_k, d_v) values
        visible: (B, 1 or H, T_q, T_k) which keys may be seen
        slopes: (H,) of ALiBi, or None
        sinks: (H,) logits of sinks, or None
        drawn: the bias of a spec that has one, or None
        answer: expected rows, and how exact they are
        encoded: how an encoding made it, with {} for the problem that it was; "" if none did
    """

    answer: ExactAnswer
    encoded: str = ""

    @classmethod
    def build(cls, spec: Spec, case: str = "last") -> "Problem":
        """Return the problem of a case.

        Args:
            spec: shapes, masks and options
            case: a key of `cases.CASES`

        Raises:
            ParameterError: if there is no such case, none for this spec, or its numbers are not in
                the format

        Example:
            >>> problem = Problem.build(Spec(queries=3, keys=5, head_dim=16), "last")
            >>> bool((problem.expected == problem.v[:, :, -1:]).all())
            True
        """
        require_known("case", case, CASES)
        found = attempt(spec, case)
        if isinstance(found, str):
            raise ParameterError(
                f"there is no case {case!r} for this spec: {found}",
                witness=case,
                suggestion="another case, or another spec",
            )
        return found

    @property
    def expected(self) -> Array:
        """The output, (B, H, T_q, d_v); NaN in rows that are not checked."""
        return self.answer.expected

    @property
    def lse(self) -> Lse:
        """The log-sum-exps in base e, with the sink, and -inf in rows that see no key."""
        return expected_lse(self.spec, self.draft, self.answer, self.sinks)

    @property
    def guarded(self) -> float:
        """The share of hidden keys whose leak changes the answer, over all rows that exist."""
        hidden = self.hidden
        count = int(hidden.sum())
        return 1.0 if count == 0 else float((self.answer.guards & hidden).sum() / count)

    @property
    def hidden(self) -> Booleans:
        """Keys that are hidden from rows that exist, (B, H, T_q, T_k)."""
        found: Booleans = ~self.visible & self.spec.rows()[:, None, :, None]
        return np.broadcast_to(found, self.answer.weights.shape)

    @property
    def checked(self) -> float:
        """The share of rows that are checked."""
        rows = np.broadcast_to(self.spec.rows()[:, None], self.answer.checked.shape)
        return float(self.answer.checked[rows].mean())

    def verify(self) -> int:
        """Return how many answers follow from theorems, by the numbers, in exact arithmetic.

        Rows that see no key are not counted: their answer is a convention.

        Raises:
            AssumptionError: if one does not hold in a row that is checked

        Example:
            >>> Problem.build(Spec(keys=9, queries=4)).verify()
            8
        """
        own = self.answer
        again = self._answered(self.draft, self.v, is_encoded=bool(self.encoded))
        same = own.expected == again.expected
        same |= np.isnan(own.expected) & np.isnan(again.expected)
        wide = own.slack >= again.slack
        wrong = own.checked & ~(again.checked & (same & wide).all(-1))
        if wrong.any():
            raise AssumptionError(
                "an answer does not follow from the numbers of the problem",
                witness=first_place(wrong),
                suggestion="Problem.build",
            )
        return int((own.checked & ~own.empty).sum())

    def _answered(self, draft: Draft, v: Array, *, is_encoded: bool) -> ExactAnswer:
        return answer(
            self.spec, draft, v, self.visible, self.bias, self.sinks, is_encoded=is_encoded
        )

    def with_numbers(self, q: Array, k: Array, v: Array, encoded: str) -> "Problem":
        """Return the problem of other numbers with the same products of queries and keys.

        Args:
            q: queries
            k: keys
            v: values
            encoded: which encoding has these numbers, with {} for the problem that it was made of
        """
        draft = replace(self.draft, q=q, k=k)
        found = self._answered(draft, v, is_encoded=True)
        return replace(self, draft=draft, v=v, answer=found, encoded=encoded)

    def options(self, adapter: str) -> Options:
        """Return mask, scale and so on as keyword arguments of a library.

        Args:
            adapter: a key of `adapters.ADAPTERS`, such as "torch"

        Raises:
            ParameterError: if there is no such adapter

        Example:
            >>> from constructive.kernels.masks import Causal
            >>> Problem.build(Spec(masks=(Causal("top-left"),))).options("torch")
            {'is_causal': True}
        """
        require_known("adapter", adapter, ADAPTERS)
        return ADAPTERS[adapter].options(self)

    @property
    def id(self) -> str:
        """The name of the problem as part of the name of a test: without blanks."""
        spec, seed = self.spec, f"-seed{self.spec.seed}" if self.spec.seed else ""
        wide = f"d{spec.head_dim}" + (f"/{spec.d_v}" if spec.d_v != spec.head_dim else "")
        shape = f"{spec.queries}x{spec.keys}-{wide}-{spec.dtype}{seed}"
        return f"{self.case.replace(' ', '-')}-{shape}"

    def __str__(self) -> str:
        return f"{self.case}: {self.spec}"

    def __repr__(self) -> str:
        own = f"Problem.build({self.spec!r}, {self.case!r})"
        return self.encoded.format(own) if self.encoded else own


def attempt(spec: Spec, case: str) -> Problem | str:
    """Return the problem of a case, or why this spec has none; an error in a case is raised."""
    kind = CASES[case]
    reason = kind.refuses(spec) or soft_cap_reason(spec)
    if reason is not None:
        return reason
    visible = spec.visible()
    kinds = None if spec.bias is None else kinds_of_bias(spec, near=case == "bias")
    draft = kind.draft(spec, visible if kinds is None else visible & (kinds == 0))
    if not (holds(spec.inputs, draft.q) and holds(spec.inputs, draft.k)):
        return f"{spec.dtype} does not hold its numbers, with this scale and so many keys"
    if overflows(spec, draft, visible).any():
        return f"q k is beyond {spec.dtype}, with this scale"
    chosen = chosen_heads(spec, case)
    turn = np.random.default_rng((spec.seed, 11)).integers(2)
    slopes = np.where(chosen == (turn == 0), kind.slope(spec), 0.0) if spec.alibi else None
    sinks = _sinks(chosen, draft.levels * spec.factor) if spec.sink else None
    drawn = None if kinds is None else outweighing(spec, draft, visible, kinds)
    bias = drawn if slopes is None else alibi(spec, slopes)
    values = codes(spec) * kind.unit
    values[:, :, 1::2] *= draft.spread
    if not holds(spec.inputs, values):
        return f"{spec.dtype} does not hold its values"
    found = answer(spec, draft, values, visible, bias, sinks)
    return Problem(spec, case, draft, values, visible, slopes, sinks, drawn, found)


def _sinks(chosen: Booleans, levels: Array) -> Array:
    """Return logits of sinks, (H,): those of chosen heads are winners at 0, others are far below.

    A winner that is not at 0 may be off by a part of its size, so no sink is beside it; but so near
    that a sink without log2(e) takes the weight of a winner below 0.
    """
    if levels.any():
        lowest = float(levels.min())
        return np.full(len(chosen), lowest - abs(lowest) / 8.0 - max(64.0, abs(lowest) / 4.0))
    return np.where(chosen, 0.0, _NO_SINK)
