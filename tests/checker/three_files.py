"""The files of a certificate in a folder: their names, how they are written, and checked."""

import contextlib
import io

from constructive import Dataset, SequenceDataset, Text, certify

FILES_OF = {
    Dataset: ("certificate.json", "weights.safetensors", "data.npz"),
    Text: ("certificate.json", "decoder.safetensors", "text.json"),
    SequenceDataset: ("certificate.json", "memorizer.json", "data.json"),
}


def paths(folder, kind=Dataset):
    """Certificate, weights and data of this kind."""
    return [str(folder / name) for name in FILES_OF[kind]]


def saved(folder, weights, data, certificate=None):
    """The same, written: of their own certificate, or of another."""
    certificate = certify(weights, data) if certificate is None else certificate
    found = paths(folder, type(data))
    for path, content in zip(found, (certificate, weights, data), strict=True):
        content.save(path)
    return found


def said(checker, files, *options):
    """The status of the checker, and what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        status = checker.main([*map(str, files), *options])
    return status, printed.getvalue()
