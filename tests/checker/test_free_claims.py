"""Claims about heads that may depend on the targets, against definitions in exact numbers."""

import base64
from fractions import Fraction

import flint
import numpy as np
import pytest

from constructive import Dataset, build_memorizer, certify, check, checker, upper_bound_certificate
from constructive.certificates.claims import capacity as proposals
from constructive.certificates.claims.kind import CertifyOptions, Subject
from constructive.checker import capacity
from constructive.layers.layer import AttentionLayer
from constructive.layers.memorizer import Memorizer
from constructive.layers.record import TrainedRecord
from constructive.theory.free_heads import Dimensions, most_examples

PRIME, POINT = 2**61 - 1, 3**35
SHAPES = [(4, 2, 2, 1), (4, 4, 1, 1), (3, 3, 2, 1), (3, 3, 1, 2), (4, 3, 2, 2)]  # d, H, d_h, d_out


# The definitions, in Python's integers modulo a large prime: no column is left out or mixed.


def residue(x):
    exact = Fraction(float(x))
    return exact.numerator * pow(exact.denominator, -1, PRIME) % PRIME


def rank_of_derivative(data, query, key, readout):
    """The rank in all weights at integers W_Q, W_K and readouts, where exp(2^-k) is a^1."""
    logits = [
        [[_logit(token, k, q, e) for token in context] for k, q in zip(key, query, strict=True)]
        for context, e in zip(contexts_of(data), data.queries, strict=True)
    ]
    unit = max(x.denominator for heads in logits for head in heads for x in head)
    rows = []
    for context, e, heads in zip(contexts_of(data), data.queries, logits, strict=True):
        tokens = np.array([[residue(x) for x in token] for token in context], dtype=object)
        asked = np.array([residue(x) for x in e], dtype=object)
        for entry in range(data.target_dim):
            row = []
            for h, head in enumerate(heads):
                powers = [pow(POINT, int(x * unit) % (PRIME - 1), PRIME) for x in head]
                shares = np.array(powers, dtype=object) * pow(sum(powers), -1, PRIME) % PRIME
                mean = shares @ tokens % PRIME
                u, k, q = (ints(x) for x in (readout[h][:, entry], key[h], query[h]))
                moved = (shares * (tokens @ u - mean @ u)) @ tokens % PRIME
                row += [*np.outer(moved, asked @ q).ravel(), *np.outer(asked, moved @ k).ravel()]
                for other in range(data.target_dim):
                    row += [*(mean * (other == entry))]
            rows.append([int(x) % PRIME for x in row])
    return flint.nmod_mat(len(rows), len(rows[0]), [x for row in rows for x in row], PRIME).rank()


def ints(array):
    return np.vectorize(int, otypes=[object])(array)


def contexts_of(data):
    whole = data.contexts
    return [whole] * len(data) if data.shared_context else list(whole)


def _logit(token, k, q, e):
    read = [sum(Fraction(float(x)) * int(w) for x, w in zip(e, c, strict=True)) for c in q.T]
    seen = [
        sum(Fraction(float(x)) * int(w) for x, w in zip(token, col, strict=True)) for col in k.T
    ]
    return sum(a * b for a, b in zip(read, seen, strict=True))


def special(seed, total, width, outputs):
    """Integers, some of them repeated, dependent, shared or scaled."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 5))
    shape = (size, width) if rng.random() < 0.25 else (total, size, width)
    contexts = rng.integers(-3, 4, shape).astype(float)
    queries = rng.integers(-3, 4, (total, width)).astype(float)
    if rng.random() < 0.5:  # few dimensions
        kept = int(rng.integers(1, width + 1))
        contexts[..., kept:] = contexts[..., :1]
        queries[:, kept:] = 0.0
    if rng.random() < 0.3:
        queries *= 2.0 ** rng.integers(-30, 30, (total, 1))
    if rng.random() < 0.2:
        queries[-1] = queries[0]
    return Dataset(contexts, queries, np.zeros((total, outputs)))


def stored(data, heads, head_dim, rng):
    """Any layer of these shapes, as what claims about data and shapes are asked of."""
    shape = heads, data.width, head_dim
    layer = AttentionLayer.from_effective_readout(
        *rng.standard_normal((2, *shape)), np.zeros((heads * data.width, data.target_dim))
    )
    return Memorizer(layer, TrainedRecord("test", scalar_targets=False, constant=False))


def proposed(data, heads, head_dim, seed=0):
    rng = np.random.default_rng(seed)
    weights = stored(data, heads, head_dim, rng)
    subject = Subject(weights, data, CertifyOptions(), b"", rng)
    return proposals.ONTO.propose(subject), checker.layer({}, data.arrays)


def integers(text, *shape):
    return np.frombuffer(base64.b64decode(text), "<u4").astype(int).reshape(shape or -1)


def base_of(evidence, data):
    """The zero point of evidence, head by head, as the page has it."""
    inner, width, outputs = evidence["head_dim"], data.width, data.target_dim
    asked = list(integers(evidence["query"], -1, width, inner))
    keys = list(integers(evidence["key"], -1, width, inner))
    free = list(integers(evidence["readout"], -1, width, outputs))
    zero, query, key, readout = np.zeros((width, outputs), int), [], [], []
    for index, size in enumerate(evidence["groups"]):
        if evidence["uniform"] and index == 0:
            query += [asked.pop(0) for _ in range(size)]
            key += [np.zeros((width, inner), int)] * size
        else:
            query += [asked.pop(0)] * size
            key += [keys.pop(0)] * size
        own = [free.pop(0) for _ in range(size - 1)]
        readout += [*own, -sum(own, zero)]
    return query, key, readout


@pytest.mark.parametrize("count", [30, pytest.param(500, marks=pytest.mark.slow)])
def test_onto_is_what_exact_ranks_say(count):
    seen = set()
    for seed in range(count):
        width, heads, head_dim, outputs = SHAPES[seed % len(SHAPES)]
        total = int(np.random.default_rng([1, seed]).integers(1, 13))
        data = special(seed, total, width, outputs)
        evidence, about = proposed(data, heads, head_dim, seed)
        found = checker.verify("onto", evidence, about)
        rank = rank_of_derivative(data, *base_of(evidence, data))
        assert (found.verdict == "PROVED") == (rank == len(data.distinct()) * outputs), seed
        seen.add(found.verdict)
    assert seen == {"PROVED", "UNDECIDED"}


def more_than_weights_reach(seed):
    """Generic data of one more example than any weights reach almost all targets of."""
    width, heads, head_dim, outputs = SHAPES[seed % len(SHAPES)]
    rng = np.random.default_rng([2, seed])
    size = int(rng.integers(2, 6))
    dims = Dimensions.of_sizes(size, width, shared_context=False)
    total = most_examples(heads, head_dim, dims, m=outputs) + 1
    shape = (total, size, width), (total, width), (total, outputs)
    return Dataset(*map(rng.standard_normal, shape)), heads, head_dim


def forged(evidence, rng):
    """The same with something wrong: other groups, integers, prime or point; or of another type."""
    evidence = dict(evidence)
    field = rng.choice(list(evidence))
    value = evidence[field]
    if isinstance(value, str):
        words = np.frombuffer(base64.b64decode(value), "<u4").copy()
        kind = rng.integers(4)
        if kind == 0 and len(words):
            words[rng.integers(len(words))] = rng.integers(1 << 32, dtype=np.uint32)
        elif kind == 1:
            words = words[:-1]
        elif kind == 2:
            words = np.zeros_like(words)
        else:
            words = rng.permutation(words)
        evidence[field] = base64.b64encode(words.tobytes()).decode()
    elif isinstance(value, list):
        value = list(value)
        value[rng.integers(len(value))] += int(rng.integers(-2, 3))
        evidence[field] = value + [1] * int(rng.integers(2))
    elif isinstance(value, bool):
        evidence[field] = [not value, 1, 0.0][rng.integers(3)]
    else:
        evidence[field] = [value + int(rng.integers(-9, 9)), float(value), -value, True][
            rng.integers(4)
        ]
    return evidence


@pytest.mark.parametrize("count", [30, pytest.param(600, marks=pytest.mark.slow)])
def test_no_evidence_proves_more_than_weights_reach(count):
    for seed in range(count):
        data, heads, head_dim = more_than_weights_reach(seed)
        evidence, about = proposed(data, heads, head_dim, seed)
        assert checker.verify("onto", evidence, about).verdict == "UNDECIDED"
        changed = forged(evidence, np.random.default_rng([3, seed]))
        try:
            found = checker.verify("onto", changed, about)
        except (TypeError, KeyError, IndexError, OverflowError):  # as of any file
            continue
        more = sum(changed["groups"]) > heads or changed["head_dim"] > head_dim
        assert more or found.verdict == "UNDECIDED", seed
        proved = upper_bound_certificate(data, heads, head_dim=head_dim)
        assert seed % 20 or proved.proved


def test_almost_impossible_bounds_the_rank_at_any_weights():
    proved = 0
    for seed in range(20):
        width, heads, head_dim, outputs = SHAPES[seed % len(SHAPES)]
        data = special([4, seed], 14 + seed % 20, width, outputs)
        certificate = upper_bound_certificate(data, heads, head_dim=head_dim)
        claim = certificate["almost_impossible"]
        if not certificate.proved:
            continue
        proved += 1
        assert check(certificate, None, data).proved
        chosen = integers(claim.evidence["examples"])
        part, rng = data.take(chosen), np.random.default_rng(seed)
        weights = (rng.integers(-9, 10, (heads, width, k)) for k in (head_dim, head_dim, outputs))
        bound = int(claim.statement.split("rank ")[1].split()[0])
        assert rank_of_derivative(part, *weights) <= bound < len(part) * outputs
    assert proved > 4


def test_vectors_that_are_not_orthogonal_show_nothing():
    rng = np.random.default_rng(0)
    data = Dataset(*(rng.integers(-9, 9, shape) for shape in ((30, 3, 4), (30, 4), (30,))))
    about = checker.layer({}, data.arrays)
    claim = upper_bound_certificate(data, 2, head_dim=1)["almost_impossible"]
    assert checker.verify("almost_impossible", claim.evidence, about).verdict == "PROVED"
    one = {"vectors": [["0x1", "0x0", "0x0", "0x0"]], "pivots": [0], "zeros": 1}
    for forgery in (one, {"of_queries": one}, {"count": 29}, {"head_dim": 0}, {"heads": True}):
        found = checker.verify("almost_impossible", {**claim.evidence, **forgery}, about)
        assert found.verdict == "UNDECIDED"


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("kind", ["own", "shared", "lengths"])
def test_certificates_of_tangent_heads(kind, outputs):
    rng = np.random.default_rng(0)
    total = 40
    contexts = rng.standard_normal((total, 4, 8))
    if kind == "shared":
        contexts = contexts[0]
    if kind == "lengths":
        contexts = [context[: 2 + index % 3] for index, context in enumerate(contexts)]
    targets = rng.standard_normal(total if outputs is None else (total, outputs))
    data = Dataset(contexts, rng.standard_normal((total, 8)), targets)
    built = build_memorizer(data, num_heads=5, head_dim=4, construction="tangent")
    certificate = certify(built, data)
    assert [claim.name for claim in certificate.claims] == ["error", "onto", "near"]
    assert certificate.proved
    assert check(certificate, built, data).proved
    assert "more" not in certificate["onto"].statement


def test_labels_of_tangent_heads_are_proved():
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal((100, 4, 16)), rng.standard_normal((100, 16))
    data = Dataset.of_classes(*arrays, rng.permuted(np.arange(100) % 20))
    built = build_memorizer(data, num_heads=4, head_dim=8, construction="tangent")
    certificate = certify(built, data)
    assert [claim.name for claim in certificate.claims] == ["labels"]
    assert certificate.proved
    assert check(certificate, built, data).proved


def test_an_exact_solution_is_as_near_as_is_said():
    """Newton's steps from the stored weights end within the distance, and not in a tenth of it."""
    rng = np.random.default_rng(0)
    data = Dataset(*(rng.standard_normal(shape) for shape in ((40, 3, 6), (40, 6), (40,))))
    built = build_memorizer(data, num_heads=3, head_dim=3, construction="tangent", tolerance=1e-3)
    moved = np.round(built.layer.key_weights, 9)  # so that there is something to see
    layer = AttentionLayer(**{**vars(built.layer), "key_weights": moved})
    about = checker.layer(layer.tensors, data.arrays)
    unit, blocks = 2.0**6, 6
    distance, _ = next(checker.distances(about, unit, blocks))
    step = newton(layer, data, unit)
    assert step <= distance < 1000 * step
    for bound, verdict in ((2 * distance, "PROVED"), (distance / 2, "UNDECIDED")):
        evidence = {"unit": unit.hex(), "blocks": blocks, "bound": bound.hex()}
        assert checker.verify("near", evidence, about).verdict == verdict
    for forgery in ({"unit": (3.0).hex()}, {"blocks": 7}, {"blocks": -1}, {"blocks": True}):
        evidence = {"unit": unit.hex(), "blocks": blocks, "bound": (1.0).hex(), **forgery}
        assert checker.verify("near", evidence, about).verdict == "UNDECIDED"


def newton(layer, data, unit):
    """The length of the shortest first step to the targets, by differences of outputs."""
    weights = layer.query_weights, layer.key_weights, layer.effective_readout / unit
    flat, size = np.concatenate([x.ravel() for x in weights]), weights[0].size

    def outputs(x):
        query, key = (
            part.reshape(layer.query_weights.shape) for part in (x[:size], x[size : 2 * size])
        )
        readout = x[2 * size :].reshape(-1, 1) * unit
        moved = AttentionLayer.from_effective_readout(query, key, readout)
        return moved(data.contexts, data.queries)[:, 0]

    steps = 1e-6 * np.eye(len(flat))
    rows = np.array([(outputs(flat + h) - outputs(flat - h)) / 2e-6 for h in steps]).T
    step = np.linalg.lstsq(rows, data.targets - outputs(flat), rcond=None)[0]
    assert np.abs(outputs(flat + step) - data.targets).max() < 1e-9
    return np.linalg.norm(step)


def test_one_input_in_other_words_is_counted_once():
    """Orders of tokens, multiples of them, and what fills shorter contexts make no new input."""
    contexts = np.array([[1, 2, 4, 9], [2, 4, 1, 9], [4, 1, 2, 9], [1, 2, 4, 8]])[..., None]
    arrays = {"contexts": contexts.astype(float), "queries": np.ones((4, 1))}
    arrays |= {"targets": np.zeros(4), "lengths": np.array([3.0, 3.0, 3.0, 4.0])}
    nothing = {"vectors": [], "pivots": [], "zeros": 0}
    packed = base64.b64encode(np.arange(3, dtype="<u4").tobytes()).decode()
    forged = {"heads": 1, "head_dim": 1, "count": 3, "examples": packed, **nothing}
    forged["of_queries"] = nothing
    for name in ("almost_impossible", "impossible"):
        assert checker.verify(name, forged, checker.layer({}, arrays)).verdict == "UNDECIDED"
    rows = np.array([[5, 3, 5, 3], [3, 5, 3, 3], [3, 3, 5, 5], [3, 5, 5, 5]])
    found = capacity.shares(rows, [4, 2, 4, 4]).tolist()
    assert found == [[3, 5, -1, -1]] * 3 + [[3, 5, 5, 5]]


def repeated():
    """Some inputs twice, in another order of tokens, or with each token twice; one output zero."""
    rng = np.random.default_rng(0)
    contexts = list(rng.standard_normal((30, 4, 8)))
    contexts += [contexts[0][::-1], np.repeat(contexts[1], 2, axis=0), contexts[2]]
    queries, targets = rng.standard_normal((30, 8)), rng.standard_normal((30, 2)) * [1.0, 0.0]
    again = [*range(30), 0, 1, 2]
    return Dataset(contexts, queries[again], targets[again])


def test_equal_examples_count_once():
    data = repeated()
    built = build_memorizer(data, num_heads=4, head_dim=4, construction="tangent")
    certificate = certify(built, data)
    assert certificate.proved
    assert check(certificate, built, data).proved
    assert "for all Y of T = 30 targets" in certificate["onto"].statement
    targets = data.targets.copy()
    targets[30] += 1.0  # of the first input, too
    other = data.arrays | {"targets": targets}
    about, near = checker.layer(built.layer.tensors, other), certificate["near"].evidence
    found = checker.verify("near", near, about)
    assert (found.verdict, found.detail) == (
        "UNDECIDED",
        "near: equal examples have different targets",
    )


def test_near_of_outputs_that_are_zero():
    """A readout of zero is exact; one of almost zero, or a target that is not, has to be moved."""
    data = repeated()
    zero = Dataset(data.contexts, data.queries, 0.0 * data.targets)
    built = build_memorizer(zero, num_heads=4, head_dim=4, construction="tangent")
    certificate = certify(built, zero)
    assert certificate.proved
    assert "within 0.0 of" in certificate["near"].statement
    evidence = {"unit": (1.0).hex(), "blocks": 0, "bound": (1e-9).hex()}
    tensors = dict(built.layer.tensors)
    exact = checker.verify("near", evidence, checker.layer(tensors, zero.arrays))
    assert exact.verdict == "PROVED"
    missed = checker.verify("near", evidence, checker.layer(tensors, data.arrays))
    assert missed.verdict == "UNDECIDED"
    values = tensors["W_V"].copy()
    values[0, 0, 0] = 1e-300
    moved = checker.verify("near", evidence, checker.layer(tensors | {"W_V": values}, zero.arrays))
    assert moved.verdict == "UNDECIDED"
    more = {"W_V_corrections": (values - tensors["W_V"])[np.newaxis]}
    moved = checker.verify("near", evidence, checker.layer(tensors | more, zero.arrays))
    assert moved.verdict == "UNDECIDED"


@pytest.mark.parametrize(("values", "unit"), [(1e150, 2.0**1023), (1e300, 2.0**997)])
def test_near_of_readouts_beyond_float64_is_not_shown(values, unit):
    rng = np.random.default_rng(0)
    shapes = {"W_Q": (2, 3, 2), "W_K": (2, 3, 2), "W_V": (2, 3, 2), "W_O": (4, 1), "W_D": (1, 1)}
    weights = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    weights["W_V"] *= values
    data = {"contexts": (2, 3, 3), "queries": (2, 3), "targets": (2,)}
    data = {name: rng.standard_normal(shape) for name, shape in data.items()}
    evidence = {"unit": unit.hex(), "blocks": 4, "bound": (1.0).hex()}
    assert checker.verify("near", evidence, checker.layer(weights, data)).verdict == "UNDECIDED"
    weights["W_O"] *= 1e300  # and the readouts, too
    assert checker.verify("near", evidence, checker.layer(weights, data)).verdict == "UNDECIDED"
    found = checker.verify("error", {"bound": (1.0).hex()}, checker.layer(weights, data))
    assert found.verdict == "REFUTED"


@pytest.mark.parametrize(("heads", "head_dim"), [(10**30, 1), (2, 10**30)])
def test_almost_impossible_of_heads_that_nobody_has(heads, head_dim):
    rng = np.random.default_rng(0)
    data = Dataset(*(rng.standard_normal(shape) for shape in ((30, 3, 4), (30, 4), (30,))))
    assert not upper_bound_certificate(data, heads, head_dim=head_dim).proved
    equal = Dataset(np.repeat(data.contexts[:, :1], 3, axis=1), data.queries, data.targets)
    certificate = upper_bound_certificate(equal, heads, head_dim=head_dim)
    assert check(certificate, None, equal).proved


@pytest.mark.parametrize("readout", [0.0, 1e308])
def test_near_of_the_largest_numbers_is_left_undecided(readout):
    one = np.ones((1, 1, 1))
    layer = AttentionLayer(one, one, readout * one, one[0], one[0])
    memorizer = Memorizer(layer, TrainedRecord("drawn", scalar_targets=False, constant=False))
    target = [[np.finfo(float).max]] if readout == 0 else [[1.0]]
    data = Dataset(0.6 * np.ones((1, 2, 1)), [[1.0]], target)
    assert certify(memorizer, data, claims=["near"]).verdict.name == "UNDECIDED"
