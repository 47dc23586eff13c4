"""Command lines that are refused: status 2, what is wrong, what to try, and no file."""

import shlex
import shutil

import pytest

from constructive import Text, build_decoder, build_memorizer, certify, generators
from constructive.instances import planted, save

CAT = "the cat sat on the mat, and the cat saw the rat\r\n"
KERNELS = """
from dataclasses import replace
from constructive.kernels import ADAPTERS

number = 7
misspelt = replace(ADAPTERS["torch"], can=frozenset({"masks"}))
"""
SILENT = """
from constructive.kernels.adapters.adapter import Adapter
silent = Adapter(library="numpy", layout="BHTd", models={}, fully_masked="zeros")
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Files that the lines below name, and some that are not what they are taken for."""
    folder = tmp_path_factory.mktemp("inputs")
    data = generators.uniform(num_examples=7, context_size=3, width=5)
    memorizer = build_memorizer(data, num_heads=3)
    certify(memorizer, data).save(folder / "c.json")
    data.save(folder / "data.npz")
    memorizer.save(folder / "m.safetensors")
    text = Text.words(CAT)
    build_decoder(text, width=64).save(folder / "d.safetensors")
    build_decoder(Text.of([3, 14, 15, 9, 2, 6]), width=32).save(folder / "ids.safetensors")
    text.save(folder / "t.json")
    for name, content in {
        "cat.txt": CAT.encode(), "empty.txt": b"", "latin.txt": b"caf\xe9", "nonsense": b"nonsense",
        "kernel_file.py": KERNELS.encode(), "silent_file.py": SILENT.encode(),
    }.items():  # fmt: skip
        (folder / name).write_bytes(content)
    save(folder / "folder", planted(dim=2, scale=16.0))
    (folder / "device").symlink_to("/dev/null")
    (folder / "devices").mkdir()
    for name in ("contexts.npy", "queries.npy", "targets.npy"):
        (folder / "devices" / name).symlink_to("/dev/null")
    return folder


def files(folder):
    """Every file, but what Python keeps of a module."""
    paths = [path for path in folder.rglob("*") if "__pycache__" not in path.parts]
    return {path: path.is_file() and path.read_bytes() for path in paths}


# Words of an error, in this order, with anything where there are dots.
REFUSED = [
    # usage says what is wrong with an option before files are looked at
    ("build none.npz --heads 0 -o missing/x", "Usage: ... '--heads'"),
    ("build none.npz --head-dim 0", "Usage: ... '--head-dim'"),
    ("build data.npz --construction magic", "Usage: ... 'magic'"),
    ("build data.npz --jobs 1000000000000000000000", "Usage: ... 1024"),
    ("instances check folder --jobs 0", "Usage: ... '--jobs'"),
    ("certify none none --jobs 0", "Usage: ... '--jobs'"),
    ("exact-capacity none --head-dim 0", "Usage: ... '--head-dim'"),
    ("generate uniform -T 7 -n 3 -d 5 --seed -1", "Usage: ... '--seed'"),
    ("recite none --limit 0", "Usage: ... '--limit'"),
    ("recite none --unit lines", "Usage: ... '--unit'"),
    ("continue none the --length 0", "Usage: ... '--length'"),
    ("demo --examples few", "Usage: ... '--examples'"),
    # making things
    ("generate uniform -T 1000000000000000 -n 32 -d 64 -o x.npz", "ParameterError: ... memory"),
    ("build data.npz --heads 1", "CapacityError: 7 examples are too many for 1 heads, whatever"),
    ("build data.npz --tolerance 1e-300", "PrecisionError: "),
    ("build data.npz --precision many", "ParameterError: precision='many' ... many ... 'auto'"),
    ("build nonsense -o missing/x", "OutputError: cannot write missing/x: no such folder"),
    ("build nonsense -o folder", "OutputError: cannot write folder: it is a folder"),
    ("build none.npz -o cat.txt", "FileNotFoundError: ... none.npz"),
    ("predict m.safetensors data.npz -o p.txt",
     "OutputError: cannot write p.txt: ... an array of NumPy or a table ... p.npy or p.csv"),
    ("explain data.npz --heads 1", "CapacityError: "),
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
    ("certify m.safetensors c.json", "FormatError: ... is not a data set"),
    ("certify d.safetensors t.json --claims error", "not claims about decoders"),
    ("certify m.safetensors data.npz --claims 'rank errors'", "are not claims"),
    ("certify m.safetensors data.npz --claims ''", "are not claims"),
    ("certify m.safetensors data.npz --claims grouping --epsilon 1e-20",
     "does not take epsilon"),
    ("certify m.safetensors data.npz --claims grouping --model 'float32, pairwise'",
     "does not take model"),
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
    ("recite cat.txt --width 8 --heads 1", "26 positions are too many for 1 heads"),
    ("recite cat.txt --width 1", "PrecisionError: "),
    ("continue d.safetensors 'the zebra'", "DataError: the token 'zebra'"),
    ("continue d.safetensors ''", "DataError: the prompt is empty"),
    ("continue d.safetensors the --length 10000", "ParameterError: length=10000"),
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
        ("--scale 16:", "range"), ("--set decoy", "--set"), ("--set decoy=x", "decoy"),
        ("--set other=1", "other"),
    )],
    ("instances check nowhere", "nowhere"),
    ("instances score nowhere results.csv", "nowhere"),
    # kernels
    *[(f"kernels run {line}", words) for line, words in (
        ("pytorch", "unknown adapter='pytorch'"),
        ("torch-flsh", "try: 'torch-flash' or "),
        ("torch --dtype float4", "unknown dtype='float4'"),
        ("torch --device abacus", "does not run on abacus ... --device cpu"),
        ("torch-cudnn", "--device cuda"),
        ("torch --shape '77 x 77'", "Usage: ... causal, more keys"),
        ("torch --case worst", "Usage: ... fine scale"),
        ("torch --shape tiny --case 'soft cap'", "no case applies"),
        ("openvino", "MissingExtraError: ... pip install openvino"),
        ("kernel_file:Nothing", "cannot be loaded"),
        ("no_such_module:Kernel", "cannot be loaded"),
        ("kernel_file:number", "is not an adapter ... witness: int"),
        ("silent_file:silent", "'attend', 'options', and 'can'"),
        ("kernel_file:misspelt", "try: 'mask'"),
    )],
    ("kernels export a --shape round", "Usage: ... decode"),
    ("kernels export a --dtype float4 --shape tiny", "float4"),
    ("kernels export b/a --shape tiny", "OutputError: ... no such folder"),
    ("kernels export a --fully-masked all --shape tiny", "all"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "words"), REFUSED)
def test_refused(program, inputs, tmp_path, monkeypatch, line, words):
    monkeypatch.syspath_prepend(tmp_path)  # and taken away again, which the command does not do
    shutil.copytree(inputs, tmp_path, dirs_exist_ok=True, symlinks=True)
    before = files(tmp_path)
    done = program(*shlex.split(line))
    said = " ".join(done.stderr.replace("│", " ").split())
    assert done.returncode == 2, done.stdout + said
    assert said.startswith("Usage: ") or " try: " in said
    rest = said
    for part in words.split(" ... "):
        assert part.strip() in rest, said
        rest = rest.partition(part.strip())[2]
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
