"""Heads of Theorem 2, with groups as large as contexts allow (Theorem 10).

Up to H(n - 1) + 1 examples the groups are those of Theorem 2, and contexts have rank n. Beyond, a
group may have d - 1 examples, and the first one d, if contexts of their own have directions enough;
they may be dependent or equal then, and of more than d tokens. Where the given order has no groups
another one is looked for, with groups of any sizes (`theory.assumptions.regrouping`), and the
record keeps it. Nothing else changes.
"""

from dataclasses import replace

import numpy as np

from constructive.constructions.construction import RATIONAL, Built, Options, Outcome, Survey
from constructive.constructions.dense import TAKES, Dense
from constructive.constructions.multihead.assumptions import Assumptions
from constructive.data.dataset import Dataset
from constructive.data.shapes import ExampleShapes
from constructive.support.errors import AssumptionError, CapacityError
from constructive.support.verdict import Verdict
from constructive.theory import bounds, wide_grouping
from constructive.theory.assumptions.regrouping import Regrouping, WideGroups
from constructive.theory.bounds import Plan, consecutive, group_sizes

_NOTHING = Assumptions(least_token_distance=0.0)  # What Theorem 10 asks of single contexts

_SHOWN = 16  # Examples of a witness that a message shows


class RankOne(Dense):
    """Rank-one heads with groups of up to d - 1 examples."""

    def plan(self, shapes: ExampleShapes, num_heads: int, options: Options) -> Plan:
        """Plan as Theorem 2 says, and where that holds too few examples, as Theorem 10 does."""
        size, width, total = shapes.context_size, shapes.width, shapes.num_examples
        narrow = self.of.capacity(num_heads, size, 1) if size <= width else 0
        of_theorem_2 = shapes.shared_context or size == 1 or total <= narrow
        if of_theorem_2 or options.arithmetic == RATIONAL:
            return super().plan(shapes, num_heads, options)
        wide = num_heads * (width - 1) + 1
        if total > max(narrow, wide):
            more = f"num_heads={-(-(total - 1) // (width - 1))}; or " if width > 1 else ""
            raise CapacityError(
                f"{total} examples are too many for {num_heads} rank_one heads: groups of d - 1 "
                f"examples, and one more, memorize H(d - 1) + 1 = {wide} (d={width})",
                witness=total,
                suggestion=f"{more}construction='generic', which holds Hd where "
                f"contexts are generic; or keep {wide} of the examples",
            )
        return Plan(self.name, num_heads, options.inner_dim, wide, rank_one=True)

    def build(
        self, survey: Survey, plan: Plan, options: Options, *, rng: np.random.Generator
    ) -> Outcome:
        """Build in the order given, or where that has no groups, in another."""
        outcome = super().build(survey, plan, options, rng=rng)
        if isinstance(outcome, Built) or options.arithmetic == RATIONAL:
            return outcome
        if survey.repeated is not None:  # which no order mends
            return survey.repeated
        dataset: Dataset = survey.dataset
        found = WideGroups(dataset, plan.num_heads, rng).search()
        if found.order is None:
            return _no_order(found, outcome, plan.num_heads)
        built = self._of_groups(
            dataset.take(found.order),
            plan,
            options,
            _NOTHING,
            [stop - start for start, stop in found.groups],
            rng=rng,
        )
        order = tuple(found.order.tolist())
        return built if isinstance(built, AssumptionError) else replace(built, order=order)

    def _assumed(
        self, survey: Survey, plan: Plan, rng: np.random.Generator
    ) -> Assumptions | AssumptionError:
        """What Theorem 2 asks of contexts, or Theorem 10 of groups, exactly."""
        dataset: Dataset = survey.dataset
        size, total = dataset.context_size, dataset.num_examples
        if size <= dataset.width and plan.capacity == self.of.capacity(plan.num_heads, size, 1):
            return super()._assumed(survey, plan, rng)
        if survey.repeated is not None:
            return survey.repeated
        groups = consecutive(group_sizes(total, plan.num_heads))
        claim = wide_grouping.prove(dataset, groups, np.arange(total), rng)
        if claim.verdict is not Verdict.PROVED:
            return AssumptionError(
                f"{claim.detail}; Theorem 10 needs independent queries in each group, none of an "
                "earlier group in the span of a later one, and contexts that span as much as "
                "a group has examples",
                witness=claim.witness,
                suggestion="another order of the examples",
            )
        return _NOTHING


def _no_order(found: Regrouping, refusal: AssumptionError, num_heads: int) -> AssumptionError:
    """Return why there are no groups: for no order, or for none that was tried."""
    more = "more heads and so smaller groups, or construction='generic'"
    again = f"assumptions.regroup(dataset, {num_heads}, construction='rank_one'"
    if found.verdict is Verdict.REFUTED:
        every = f" ({again}).members are all)" if len(found.members) > _SHOWN else ""
        return AssumptionError(
            f"no order of the examples suits {num_heads} rank_one heads: {found.detail}",
            witness=found.members[:_SHOWN],
            suggestion=f"{more}; or fewer of these examples{every}",
        )
    return AssumptionError(
        f"{refusal.problem}; and no other order was found ({found.detail})",
        witness=refusal.witness,
        suggestion=f"{again}, seed=1) looks for others; {more}",
    )


RANK_ONE = RankOne(
    bounds.RANK_ONE.name,
    f"{bounds.RANK_ONE.formula} or, for own contexts, H(d - 1) + 1",
    f"{bounds.RANK_ONE.theorem}, Theorem 10",
    has_min_norm_readout=True,
    grouped=True,
    options=TAKES,
    of=bounds.RANK_ONE,
)
