"""Every kind of claim passes `check_claim`: one line for each, and for each of its proofs."""

import dataclasses

import numpy as np
import pytest
from claim_conformance import check_claim
from compact_parts import compact
from decoder_parts import by_hand, small, two_tokens

from constructive import (
    Dataset,
    SequenceDataset,
    Text,
    build_memorizer,
    build_sequence_memorizer,
    generators,
)
from constructive.certificates.claims.impossible import AllWeights
from constructive.certificates.claims.registry import CLAIMS


def layer(**options):
    """A memorizer and its data."""
    data = generators.uniform(num_examples=7, context_size=3, width=5, seed=1)
    return build_memorizer(data, num_heads=3, **options), data


def wide():
    """The same in an order of its own, with contexts that span all dimensions."""
    data = generators.uniform(num_examples=20, context_size=8, width=4)
    return build_memorizer(data, num_heads=7), data


def paired():
    """The same of paired heads, which have a shorter proof."""
    data = generators.gaussian(num_examples=61, context_size=4, width=12, seed=4)
    return build_memorizer(data, num_heads=12, construction="paired"), data


def with_data(subject, **changes):
    """The same weights with other data."""
    weights, data = subject
    names = ("contexts", "queries", "targets")
    return weights, Dataset(*(changes.get(name, getattr(data, name)) for name in names))


def repeated(subject):
    """The last example is the first one once more, with another target."""
    data = subject[1]
    first = [*range(data.num_examples - 1), 0]
    return with_data(
        subject,
        contexts=data.contexts[first],
        queries=data.queries[first],
        targets=data.targets[first] + 1.0,
    )


def moved(subject):
    """Targets are others."""
    return with_data(subject, targets=subject[1].targets + 1.0)


def scaled(subject):
    """Contexts are so large that float32 overflows."""
    return with_data(subject, contexts=subject[1].contexts * 2.0**200)


def blind(subject):
    """Heads attend uniformly, so that Z is singular."""
    memorizer, data = subject
    zeros = np.zeros_like(memorizer.layer.query_weights)
    weights = dataclasses.replace(memorizer.layer, query_weights=zeros)
    return dataclasses.replace(memorizer, layer=weights), data


def garbled(subject):
    """One token of a text is another one."""
    decoder, text = subject
    ids = text.ids.copy()
    ids[5] = (ids[5] + 1) % len(text.vocabulary)
    return decoder, dataclasses.replace(text, ids=ids)


def crowded():
    """More contexts than columns of Z."""
    text = Text.of([0, 1] * 4)
    return by_hand(text, two_tokens(positions=np.zeros((8, 3)))), text


def sequences(total=30, *, labels=5, **sizes):
    """A sequence memorizer; its record may boast, and the labels of its data be others."""
    given = [[i * i % 97, i] for i in range(total)]
    memorizer = build_sequence_memorizer(given, [i % 5 for i in range(total)])
    record = dataclasses.replace(
        memorizer.record, sizes=dataclasses.replace(memorizer.record.sizes, **sizes)
    )
    data = SequenceDataset.of(given, [i % labels for i in range(total)])
    return dataclasses.replace(memorizer, record=record), data


def upper(examples):
    """Three heads, and examples with one context of three tokens."""
    data = generators.shared_context(num_examples=8, context_size=3, width=5)
    return AllWeights(3), data.take(range(examples))


CASES = {
    ("layer", "grouping"): (layer(), repeated(layer())),
    ("layer", "wide_grouping"): (wide(), repeated(wide())),
    ("layer", "rank"): (layer(), repeated(layer())),
    ("layer", "error"): (layer(), moved(layer())),
    ("layer", "readout"): (layer(), blind(layer())),
    ("layer", "executed"): (layer(construction="generic"), scaled(layer(construction="generic"))),
    ("layer", "rank", "paired"): (paired(), repeated(paired())),
    ("layer", "error", "paired"): (paired(), moved(paired())),
    ("layer", "readout", "paired"): (paired(), blind(paired())),
    ("decoder", "rank"): (small(), crowded()),
    ("decoder", "recites"): (small(), garbled(small())),
    ("decoder", "executed"): (small(), garbled(small())),
    ("decoder", "recites", "integers"): (compact(), garbled(compact())),
    ("decoder", "executed", "integers"): (compact(), garbled(compact())),
    ("sequences", "equality"): (sequences(), sequences(labels=4)),
    ("sequences", "size"): (sequences(), sequences(31, kept=10**6)),
    ("all weights", "impossible"): (upper(8), upper(7)),
}


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_a_claim_does_what_all_claims_do(case, checker, tmp_path):
    row, name, *_ = case
    known = checker.registry.CLAIMS.values()
    statements = {claim: claim.statement for claims in known for claim in claims}
    check_claim(CLAIMS[row][name], *CASES[case], statements=statements, folder=tmp_path)


def test_no_kind_is_left_out():
    registered = {(row, name) for row, kinds in CLAIMS.items() for name in kinds}
    assert {case[:2] for case in CASES} == registered
