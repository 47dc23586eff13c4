"""Command lines in tables: status, words, and files; those that are refused write none."""

import shlex
import shutil

import numpy as np
import pytest

from constructive import (
    Dataset,
    SequenceDataset,
    Text,
    build_decoder,
    build_memorizer,
    build_sequence_memorizer,
    certify,
    generators,
)
from constructive.instances import planted, save

CAT = "the cat sat on the mat, and the cat saw the rat\r\n"
PAGE = (
    "# Sums\n\n## Lemma (two)\n\nOne and one are two.\n\n**Proof.** By definition. QED\n\n"
    "```pycon\n>>> holds('exact', 1 + 1 == 2)\n\n```\n"
)
KERNELS = """
from dataclasses import replace
from constructive.kernels import ADAPTERS
from constructive.kernels.adapters import Adapter

number = 7
few = replace(ADAPTERS["torch"], can=frozenset())
misspelt = replace(ADAPTERS["torch"], can=frozenset({"masks"}))
absent = replace(ADAPTERS["torch"], packages={"no_such_module": "no-such-package"})
small = Adapter(
    attend=lambda q, k, v: q[:, :, :1], options=lambda problem: {}, library="numpy", layout="BHTd",
    models={"float32": "flash float32"}, fully_masked="zeros", can=frozenset(),
)
"""
SILENT = """
from constructive.kernels.adapters import Adapter
silent = Adapter(library="numpy", layout="BHTd", models={}, fully_masked="zeros")
"""
ANSWERS = {
    "wrong.csv": "needle_a,unsat\nneedle_b,unsat\nother,sat\n",
    "part.csv": "needle_a,unknown\n",
    "strange.csv": "needle_a,maybe\nneedle_b,timed-out\n",
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Files that the lines below name, and some that are not what they are taken for."""
    folder = tmp_path_factory.mktemp("inputs")
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    memorizer = build_memorizer(data, num_heads=3)
    memorizer.save(folder / "m.safetensors")
    certify(memorizer, data).save(folder / "c.json")
    queries = np.round(data.queries * 1000)
    queries[2] = queries[0] + queries[1]
    translates = np.arange(6.0).reshape(2, 3) + np.arange(7.0)[:, np.newaxis, np.newaxis] ** 2
    for name, made in {
        "data": data,
        "dependent": Dataset(data.contexts, queries, data.targets),
        "equal": Dataset(data.contexts, np.ones((7, 5)), data.targets),
        "translates": Dataset(translates, np.ones((7, 3)), np.zeros(7)),
        "few": generators.uniform(num_examples=5, context_size=3, width=5),
        "many": generators.uniform(num_examples=12, context_size=3, width=5),
        "wide": generators.gaussian(num_examples=20, context_size=3, width=5, target_dim=4),
        "shared": generators.shared_context(num_examples=12, context_size=3, width=5),
    }.items():
        made.save(folder / f"{name}.npz")
    text = Text.words(CAT)
    build_decoder(text, width=64).save(folder / "d.safetensors")
    build_decoder(Text.of([3, 14, 15, 9, 2, 6]), width=32).save(folder / "ids.safetensors")
    text.save(folder / "t.json")
    build_sequence_memorizer(["ab", "cd"], ["x", "y"]).save(folder / "s.json")
    SequenceDataset.of(["ab", "cd"], ["x", "y"]).save(folder / "sd.json")
    for name, content in {
        "cat.txt": CAT, "empty.txt": "", "nonsense": "nonsense", "kernel_file.py": KERNELS,
        "silent_file.py": SILENT, "1-sums.md": PAGE, "2-sums.md": PAGE.replace("== 2)", "== 3)"),
        **ANSWERS,
    }.items():  # fmt: skip
        (folder / name).write_bytes(content.encode())
    (folder / "latin.txt").write_bytes(b"caf\xe9")
    for name in ("folder", "full"):
        save(folder / name, planted(dim=2, scale=16.0))
    (folder / "full/more.txt").write_text("")
    (folder / "device").symlink_to("/dev/null")
    (folder / "devices").mkdir()
    for name in ("contexts.npy", "queries.npy", "targets.npy"):
        (folder / "devices" / name).symlink_to("/dev/null")
    return folder


@pytest.fixture
def said(program, inputs, tmp_path, monkeypatch):
    """Run lines in a folder with these files: the status, and all that the last one wrote."""
    monkeypatch.syspath_prepend(tmp_path)  # and taken away again, which the command does not do
    shutil.copytree(inputs, tmp_path, dirs_exist_ok=True, symlinks=True)

    def said(lines):
        for line in lines.split(" && "):
            done = program(*shlex.split(line))
        return done.returncode, " ".join((done.stdout + done.stderr).replace("│", " ").split())

    return said


def files(folder):
    """Every file, but what Python keeps of a module."""
    paths = [path for path in folder.rglob("*") if "__pycache__" not in path.parts]
    return {path: path.is_file() and path.read_bytes() for path in paths}


def require_words(words, said):
    """Fail unless these words are there, in this order, with anything where there are dots."""
    rest = said
    for part in words.split(" ... "):
        assert part.strip() in rest, said
        rest = rest.partition(part.strip())[2]


FEW = "--shape tiny --shape 'causal, more keys' --case last --case uniform"

# Lines, the status of the last one, words of what it says, and the names of all new files.
DONE = [
    ("generate uniform -T 7 -n 9 -d 4 -o x.npz", 0, "written to x.npz warning: contexts of n=9 "
     "tokens in d=4 dimensions cannot have rank 9 ... try -d 9", "x.npz"),
    ("build many.npz -o m.txt", 0, "H = 3 ... m.txt will be a file of safetensors, usually named "
     "*.safetensors", "m.txt"),
    ("build data.npz --heads 3 --precision 120 -o x && certify x data.npz -o y --epsilon 1e-30 && "
     "check y x data.npz", 0, "PROVED", "x y"),
    *[(f"export m.safetensors -o {name}", 0, f"written to {name}", name)
      for name in ("right.onnx", "plain", "own.model")],
    # claims
    ("certify m.safetensors data.npz --epsilon 1e-30 && check certificate.json m.safetensors "
     "data.npz", 1, "NOT PROVED: ", "certificate.json"),
    ("certify m.safetensors data.npz --epsilon 1e-30", 1, "Certificate: REFUTED",
     "certificate.json"),
    ("certify d.safetensors t.json --claims recites && check certificate.json d.safetensors t.json",
     0, "recites ... PROVED", "certificate.json"),
    ("certify s.json sd.json", 0, "equality PROVED", "certificate.json"),
    ("check nonsense m.safetensors data.npz", 1, "NOT PROVED: ", ""),
    ("check c.json m.safetensors data.npz --max-memory 0.01", 1, "--max-memory is 0.01", ""),
    ("upper-bound shared.npz --heads 3", 0, "for all W_Q and W_K", "upper-bound.json"),
    ("upper-bound shared.npz --heads 3 && check upper-bound.json shared.npz", 0, "PROVED",
     "upper-bound.json"),
    ("upper-bound shared.npz --heads 9", 1, "UNDECIDED", "upper-bound.json"),
    ("upper-bound shared.npz --heads 9 && check upper-bound.json shared.npz", 1, "NOT PROVED",
     "upper-bound.json"),
    # theorems
    ("assumptions dependent.npz --heads 3 --subsets 100", 1,
     "[0] + [1] - [2] = 0 ... of 100 random subsets ... REFUTED: query 2 depends on others", ""),
    ("assumptions many.npz --budget 0", 0, "UNDECIDED: at least 2", ""),
    ("assumptions equal.npz --subsets 10", 1, "REFUTED: query 1 depends on others", ""),
    ("capacity --heads 4 --head-dim 8 --context-size 8 --width 32", 0,
     "fixed heads, exactly 128 ... free heads, at least 1,352 ... free heads, at most 1,920", ""),
    ("capacity --heads 4 --context-size 32 --width 64 --shared", 0, "fixed heads, exactly 125", ""),
    ("capacity shared.npz --heads 3 --head-dim 3", 0,
     "Theorem 1 7 ... fixed heads, exactly 7 random weights, rank 7 modulo a prime; no more by "
     "Theorem 8 ... free heads, all 12", ""),
    ("capacity --heads 2 --head-dim 2 --context-size 9 --width 8 --target-dim 2", 0,
     "d = 8, d_out = 2 ... Theorem 1 0 no n > d tokens are independent", ""),
    ("capacity many.npz", 0, "PROVED: 3 heads of d_h = 1, chosen before the targets, ... "
     "(rank Z = 12 ... PROVED: fewer heads do not; for all W_Q and W_K of H = 2 heads", ""),
    ("capacity few.npz", 0, "PROVED: 1 head of d_h = 1", ""),
    ("capacity translates.npz", 1, "UNDECIDED: 6 heads", ""),
    ("prove 2", 0, "Lemma 2.1 (counting)", ""),
    ("prove 1-sums.md", 0, "Lemma (two) 1-sums exact 1 1 holds", ""),
    ("prove 2-sums.md", 1, "FAILED ... an instance does not hold: False", ""),
    # texts
    ("continue ids.safetensors '3 14'", 0, "3 14 15 9 2 6", ""),
    ("continue d.safetensors 'the cat ' --length 7", 0, "the cat sat on", ""),
    # instances
    ("instances check folder --jobs 2", 0,
     "2 of 2 answers are proved (the folder says 1 sat, 1 unsat) PROVED", ""),
    ("instances check folder --max-memory 0.0001", 1, "too large for --max-memory", ""),
    ("instances check full", 1, "no row is about the file more.txt", ""),
    ("instances score folder wrong.csv", 1, "needle ... FALSE: needle_ ... its twin ... "
     "rows about no instance of the folder: 1", ""),
    ("instances score folder part.csv", 0,
     "missing: part.csv has no row about 1 of 2 instances", ""),
    ("instances score folder strange.csv", 0, "unknown: the word 'maybe' is not known: needle_a",
     ""),
    # kernels
    ("kernels run torch --dtype float32 --case scale", 0,
     "off, as the adapter does not take it: soft cap, sink", ""),
    (f"kernels run torch --dtype float32 --dtype bfloat16 {FEW}", 0, "dtype problems exact wrong "
     "refused errors coverage float32 4 4 0 0 0 100.0% bfloat16 4 4 0 0 0 100.0%", ""),
    (f"kernels run kernel_file:few --dtype float32 {FEW}", 0,
     "2 of 4 problems were refused: 2 x no mask: causal, more keys", ""),
    (f"kernels run kernel_file:few --dtype float32 {FEW} --shape prefix", 1, "4 of 6 problems were "
     "refused: 4 x no mask: prefix; causal, more keys More was refused than ran, so the status is "
     "1", ""),
    (f"kernels export new --dtype bfloat16 {FEW}", 0, "4 problems written to new", "new"),
    (f"kernels run kernel_file:small {FEW}", 1, "kernel_file:small: no package, cpu ... the output "
     "has shape (1, 4, 1, 16)", ""),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "status", "words", "new"), DONE)
def test_done(said, tmp_path, lines, status, words, new):
    before, (found, text) = {path.name for path in tmp_path.iterdir()}, said(lines)
    assert found == status, text
    require_words(words, text)
    after = {path.name for path in tmp_path.iterdir()} - {"__pycache__"}
    assert after - before == set(new.split())


# Words of an error.
REFUSED = [
    # usage says what is wrong with an option before files are looked at
    ("build none.npz --heads 0 -o missing/x", "--heads 0 is less than 1"),
    ("build none.npz --head-dim 0", "--head-dim 0 is less than 1"),
    ("build data.npz --construction magic", "Usage: ... 'magic'"),
    ("build data.npz --jobs 1000000000000000000000", "is not from 1 to 1024 ... try: --jobs 1024"),
    ("instances check folder --jobs 0", "--jobs 0 is not"),
    ("certify none none --jobs 0", "--jobs 0 is not"),
    ("capacity none --head-dim 0", "--head-dim 0 is less"),
    ("capacity --width 3", "the number of heads is missing"),
    ("capacity --heads 3 --width 3", "neither a dataset nor its sizes are given"),
    ("generate uniform -T 7 -n 3 -d 5 --seed -1", "--seed -1 is less than 0"),
    ("recite none --limit 0", "--limit 0 is less"),
    ("recite none --unit lines", "Usage: ... '--unit'"),
    ("continue none the --length 0", "--length 0 is less"),
    ("demo --examples few", "Usage: ... '--examples'"),
    # making things
    ("generate uniform -T 1000000000000000 -n 32 -d 64 -o x.npz", "ParameterError: ... memory"),
    ("build data.npz --heads 1", "CapacityError: 7 examples are too many for 1 tangent head"),
    ("build data.npz --tolerance 1e-300", "PrecisionError: "),
    ("build data.npz --precision many", "ParameterError: --precision many ... many ... 'auto'"),
    ("build nonsense -o missing/x", "OutputError: cannot write missing/x: no such folder"),
    ("build nonsense -o folder", "OutputError: cannot write folder: it is a folder"),
    ("build none.npz -o cat.txt", "FileNotFoundError: ... none.npz"),
    ("predict m.safetensors data.npz -o p.txt",
     "OutputError: cannot write p.txt: ... an array of NumPy or a table ... p.npy or p.csv"),
    ("explain wide.npz --heads 2 --value-dim 2",
     "ParameterError: --value-dim 2 is less than the d_out=4 entries of a target"),
    # endings of other formats
    ("export m.safetensors -o x.safetensors", "OutputError: cannot write x ... x.onnx"),
    ("export m.safetensors -o x.pt", "OutputError: cannot write x ... try: x.onnx"),
    ("build data.npz -o x.onnx", "OutputError: cannot write x ... try: x.safetensors"),
    ("certify m.safetensors data.npz -o x.NPZ", "OutputError: ... try: x.json"),
    ("certify m.safetensors data.npz -o - --json",
     "OutputError: --output and --json both write to standard output"),
    # claims
    ("certify data.npz data.npz", "FormatError: data.npz is not a memorizer"),
    ("certify d.safetensors data.npz", "FormatError: d.safetensors is not a memorizer"),
    ("certify m.safetensors t.json", "FormatError: m.safetensors is not a dec"),
    ("certify m.safetensors c.json", "FormatError: ... is not a dataset"),
    ("certify d.safetensors t.json --claims error", "not claims about decoders"),
    ("certify m.safetensors data.npz --claims 'rank errors'",
     "ParameterError: --claims rank errors are not claims"),
    ("certify m.safetensors data.npz --claims ''", "are not claims"),
    ("certify m.safetensors data.npz --claims grouping --epsilon 1e-20",
     "does not take --epsilon"),
    ("certify m.safetensors data.npz --claims grouping --model 'float32, pairwise'",
     "does not take --model"),
    ("certify m.safetensors data.npz -o no/c.json", "OutputError: cannot write no/c.json"),
    ("check c.json a data.npz b", "ParameterError: 3 files after ... witness: b"),
    ("check c.json data.npz --folder new", "ParameterError: --folder is for Rocq"),
    ("check c.json data.npz --rocq --quick", "ParameterError: --rocq has no quick way"),
    *[(f"check {line}", f"FormatError: {words} ... in this order: certificate, memorizer, data")
      for line, words in (
        ("data.npz m.safetensors data.npz", "the certificate data.npz is the data"),
        ("c.json data.npz m.safetensors", "the memorizer data.npz is the data"),
        ("c.json m.safetensors m.safetensors",
         "the data m.safetensors is a memorizer"),
        ("c.json m.safetensors none.npz", "the data none.npz is not there"),
        ("c.json none data.npz", "the memorizer none is not there"),
    )],
    # theorems and pictures
    ("assumptions none.npz", "FileNotFoundError: No such file"),
    ("prove 2-grouping 99", "ParameterError: there is no page of proofs 99 ... 1-assumptions, "),
    ("prove --folder new", "ParameterError: --folder is for Rocq"),
    ("prove --rocq 2-grouping", "ParameterError: --rocq checks all formal proofs"),
    ("demo -o nonsense", "OutputError: cannot write nonsense: it is not a folder"),
    ("demo --examples 16", "ParameterError: --examples 16 ... 17 to 1797"),
    ("demo --examples 1798", "ParameterError: --examples 1798"),
    # texts
    ("recite empty.txt", "DataError: empty.txt is empty"),
    ("recite latin.txt", "DataError: latin.txt is not UTF-8: byte 3 is 233"),
    ("recite none.txt", "FileNotFoundError: "),
    ("recite .", "FormatError: . is a folder"),
    ("recite cat.txt --output cat.txt", "OutputError: ... --output and FILE are one file"),
    ("recite cat.txt --text a --certificate ./a", "--certificate and --text are one file"),
    ("recite cat.txt --picture none/p.png", "OutputError: ... no such folder"),
    ("recite cat.txt --picture p.pdf", "OutputError: ... a picture ... try: p.png or p.svg"),
    ("recite cat.txt --text x.npz", "OutputError: ... .npz is the ending of an archive"),
    ("recite cat.txt --certificate x.safetensors", "OutputError: ... this is a JSON file"),
    ("recite cat.txt --output x.json", "OutputError: ... this is a file of safetensors"),
    ("recite cat.txt --width 8 --heads 1", "26 positions are too many for 1 head "),
    ("recite cat.txt --width 1", "PrecisionError: "),
    ("continue d.safetensors 'the zebra'", "DataError: the token 'zebra'"),
    ("continue d.safetensors ''", "DataError: the prompt is empty"),
    ("continue d.safetensors the --length 10000", "ParameterError: --length 10000"),
    ("continue cat.txt the", "FormatError: cat.txt is not a decoder"),
    ("continue none.safetensors the", "FileNotFoundError: "),
    *[(f"continue ids.safetensors -- {prompt}", "DataError: ")
      for prompt in ("three", "-3", "9" * 5000, "''")],
    # only regular files are read: some devices never end, and opening a pipe waits
    *[(line.replace("X", "device"), "FormatError: ... not a regular file") for line in (
        "explain X", "assumptions X", "predict X data.npz", "predict m.safetensors X",
        "certify X data.npz", "certify m.safetensors X", "continue X the", "recite X",
        "export X", "instances score folder X", "check X m.safetensors data.npz",
        "explain devices",
    )],
    # instances
    *[(f"instances make -o new --count 2 {options}", f"ParameterError: ... {word}")
      for options, word in (
        ("--kind none", "family"), ("--dim two", "range"), ("--dim 8:2", "range"),
        ("--dim nan", "dims"), ("--dim 1e30", "dims"), ("--dim 2.5", "whole numbers"),
        ("--timeout 1e6", "timeout"), ("--timeout 1e-7", "timeout"), ("--timeout nan", "timeout"),
        ("--scale 16:", "range"), ("--set decoy", "--set"),
        ("--set decoy=x", "--set decoy=x is not"),
        ("--set other=1", "other"),
    )],
    ("instances check nowhere", "nowhere"),
    ("instances score nowhere results.csv", "nowhere"),
    # kernels
    *[(f"kernels run {line}", words) for line, words in (
        ("pytorch", "unknown adapter='pytorch'"),
        ("torch-flsh", "try: 'torch-flash' or "),
        ("torch --dtype float4", "unknown --dtype float4"),
        ("torch --device abacus", "does not run on abacus ... --device cpu"),
        ("torch-cudnn", "--device cuda"),
        ("torch --shape '77 x 77'", "Usage: ... causal, more keys"),
        ("torch --case worst", "Usage: ... fine scale"),
        ("torch --shape tiny --case 'soft cap'", "no case applies"),
        ("kernel_file:absent", "MissingExtraError: ... pip install no-such-package"),
        ("kernel_file:Nothing", "cannot be loaded"),
        ("no_such_module:Kernel", "cannot be loaded"),
        ("kernel_file:number", "is not an adapter ... witness: int"),
        ("silent_file:silent", "'attend', 'options', and 'can'"),
        ("kernel_file:misspelt", "try: 'mask'"),
    )],
    ("kernels export a --shape round", "Usage: ... decode"),
    ("kernels export a --dtype float4 --shape tiny", "float4"),
    ("kernels export b/a --shape tiny", "OutputError: ... no such folder"),
    ("kernels export devices --shape tiny --force", "OutputError: ... it holds something else"),
    ("kernels export a --fully-masked all --shape tiny", "all"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "words"), REFUSED)
def test_refused(said, tmp_path, line, words):
    before = files(tmp_path)
    status, text = said(line)
    assert status == 2, text
    assert "Usage: " in text or " try: " in text
    require_words(words, text)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("dta.npz", "data.npz"), ("zz.npz", "data.npz or more.npz"),
     ("folder/x.npz", "another path: there is no folder folder"), ("x", "another path: there is")],
)  # fmt: skip
def test_files_that_are_not_there(run, tmp_path, name, suggestion):
    """The error names the file, and what is there."""
    for there in ("data.npz", "more.npz"):
        (tmp_path / there).write_text("")
    for words in (["build", name], ["predict", name, "more.npz"], ["recite", name],
                  ["export", name]):  # fmt: skip
        text = run(*words, status=2)
        assert text.startswith(f"FileNotFoundError: No such file or directory\n  witness: {name}\n")
        assert f"  try: {suggestion}" in text


@pytest.mark.parametrize("construction", ["auto", "saturated", "rank_one"])
@pytest.mark.usefixtures("data")
def test_constructions_are_named_only_if_they_were_asked_for(run, construction):
    said = run("build", "data.npz", "--heads", 1, "--construction", construction, status=2)
    assert "CapacityError: 7 examples are too many for 1" in said
    assert ("rank_one" in said) == (construction == "rank_one")
