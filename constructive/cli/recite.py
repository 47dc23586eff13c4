"""Commands about decoders of a text: recite, continue."""

import lzma
import os
from pathlib import Path

import constructive
from constructive.cli.outputs import end, output_file, say
from constructive.cli.program import app, command
from constructive.support.errors import DataError, MissingExtraError, shown
from constructive.support.files import read_file
from constructive.support.work import report
from constructive.theory.bounds import heads_in_words

_DIGITS = 18  # Digits of a number that fits into 64 bits
_QUOTED = 72  # Characters of the text that are printed


@command(
    app,
    writes={"output": (".safetensors",), "text": (".json",), "certificate": (".json",)},
    choices={"unit": ("words", "bytes"), "parameters": ("many", "few")},
)
def recite(
    file: Path,
    *,
    unit: str = "words",
    parameters: str = "many",
    width: int | None = None,
    heads: int | None = None,
    window: int | None = None,
    limit: int | None = None,
    seed: int = 0,
    output: Path = Path("decoder.safetensors"),
    text: Path = Path("text.json"),
    certificate: Path = Path("decoder-certificate.json"),
    picture: Path | None = None,
) -> None:
    """Build a causal attention layer that recites a file from its first token, and prove it.

    The command decodes greedily and compares the text with the file, byte by byte. Then it proves
    that every next token has the largest logit, in real arithmetic and for every float32 program of
    a model. At last the independent checker reads the files. Exit status 0 if all of that holds,
    else 1; all files are written in any case. The picture needs the extra `demo` (matplotlib);
    without it none is drawn, and `--picture` is refused. `constructive continue` runs the decoder.

    Args:
        file: File with the text, in UTF-8 unless --unit is bytes.
        unit: What a token is: a word or a character between words; or a byte.
        parameters: Which weights: many float32 numbers, or few that are mostly short integers.
        width: Number d of entries of a token; by default (many) the smallest of 32, 64 and 128
            that works, with heads of dimension 1, a window of 16 and outputs of 16 entries.
        heads: Number H of heads; by default as many as it takes (many).
        window: Number of tokens that a position attends to; by default all, or 16 without
            --width, or 8 (few).
        limit: Number N of tokens from the start of the file; by default all.
        output: File to write the weights to.
        text: File to write the tokens to, for `check`, .json.
        certificate: File to write the certificate to, .json.
        picture: PNG or SVG file to draw attention and margins in; by default decoder.png.

    Examples:

        constructive recite LICENSE

        constructive recite LICENSE --parameters few

        constructive recite README.md --unit bytes --limit 1000 --width 128 --window 64
    """
    drawn = output_file("--picture", picture or Path("decoder.png"), ".png", ".svg")
    stored = read_file(file)
    draws = _can_draw(asked=picture is not None)
    asked = _text_of(file, stored, unit, limit)
    content = _as_bytes(asked.joined(asked.tokens))
    kind = "bytes" if unit == "bytes" else "words and what is between them"
    part = ", " if limit is None else ", from its start: "
    say(
        f"{file}: {kind}{part}N = {len(asked):,} tokens, "
        f"V = {len(asked.vocabulary):,} different ones"
    )
    decoder = constructive.build_decoder(
        asked,
        width=width,
        parameters=parameters,
        num_heads=heads,
        window=window,
        seed=seed,
    )
    recited = _as_bytes(asked.joined(decoder.generate(asked.tokens[:1], len(asked))))
    say(
        f"built, not trained: one causal layer of {heads_in_words(decoder.layer.num_heads)}, "
        f"{decoder.num_parameters:,} parameters\n\n{_quoted(recited)}\n"
    )
    say(_compared(recited, content, len(stored)))
    decoder.save(output)
    asked.save(text)
    say(f"\n{_sizes(decoder, len(asked), output, content)}")
    proof = constructive.certify(decoder, asked)
    proof.save(certificate)
    say(f"\n{proof}\n\n$ constructive check {certificate} {output} {text}")
    report("the checker reads the files and proves it again", 0, 1)
    checked = constructive.check(certificate, output, text)
    say(f"{checked.report.rstrip()}\n\nwritten to {output}, {text} and {certificate}")
    if draws:
        _draw(decoder, asked, drawn)
    end(proved=recited == content and proof.proved and checked.proved)


@command(app, "continue")
def continue_text(decoder: Path, prompt: str, *, length: int | None = None) -> None:
    """Let a saved decoder continue a prompt, and print the text.

    Each token is the one with the largest logit. The decoder knows the tokens of its text only. A
    prompt that is not the start of the text is continued by words without meaning.

    Args:
        decoder: .safetensors file from `recite`.
        prompt: First token of the text, or more; numbers and spaces if tokens are numbers.
        length: Number of tokens to print, the prompt included; by default until the text ends.

    Example:

        constructive continue decoder.safetensors "Attention" --length 20
    """
    loaded = constructive.Decoder.load(decoder)
    said = loaded.joined(loaded.generate(_tokens(prompt, loaded.unit), length))
    say(" ".join(map(str, said)) if isinstance(said, tuple) else said)


def _tokens(prompt: str, unit: str) -> str | bytes | list[int]:
    """Return a prompt as a decoder takes it."""
    if unit == "ids":
        words = prompt.split()
        if all(word.isdecimal() and len(word) <= _DIGITS for word in words):
            return list(map(int, words))
        raise DataError(
            f"the prompt {shown(prompt)} is not a list of numbers, and tokens are numbers here",
            witness=shown(prompt),
            suggestion='numbers with spaces between them, such as "3 14 15"',
        )
    return os.fsencode(prompt) if unit == "bytes" else prompt


def _text_of(file: Path, content: bytes, unit: str, limit: int | None) -> "constructive.Text":
    """The tokens of a file, or the first ones. Raises DataError where there are none."""
    if not content:
        raise DataError(f"{file} is empty", witness=0, suggestion="a file of one byte or more")
    if unit == "bytes":
        return constructive.Text.bytes(content[:limit])
    try:
        text = constructive.Text.words(content.decode())
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file} is not UTF-8: byte {error.start} is {content[error.start]}",
            witness=error.start,
            suggestion="--unit bytes",
        ) from error
    return text.first(limit)


def _sizes(decoder: "constructive.Decoder", tokens: int, file: Path, content: bytes) -> str:
    """Say how many numbers and bits a decoder has, and compare its file with the text."""
    rows = (
        ("all weights", decoder.num_parameters, 32 * decoder.num_parameters),
        ("stored, no formula", decoder.num_stored, decoder.num_bits),
    )
    lines = [f"{'':18} {'numbers':>12} {'a token':>10} {'bits':>14} {'a token':>10}"]
    for name, numbers, bits in rows:
        each = f"{numbers:12,} {numbers / tokens:10,.2f} {bits:14,} {bits / tokens:10,.2f}"
        lines.append(f"{name:18} {each}")
    packed = lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)
    lines.append(
        f"bytes: {file.stat().st_size:,} in the file, vocabulary and all else included; "
        f"{len(content):,} in the text, {len(packed):,} under xz"
    )
    return "\n".join(lines)


def _as_bytes(joined: str | bytes | tuple[int, ...]) -> bytes:
    return joined.encode() if isinstance(joined, str) else bytes(joined)


def _quoted(recited: bytes) -> str:
    """Its first words, in one line, as a terminal may show them."""
    line = " ".join(recited.decode(errors="replace").split())
    short = "".join(c if c.isprintable() else "?" for c in line[:_QUOTED])
    return f'"{short}{" ..." if len(line) > _QUOTED else ""}"'


def _compared(recited: bytes, content: bytes, size: int) -> str:
    """What a comparison says, of a file of so many bytes or of its start."""
    if recited == content:
        whole = len(content) == size
        which = f"all {size:,}" if whole else f"the first {len(content):,} of {size:,}"
        return f"recited from its first token: {which} bytes are those of the file"
    pairs = zip(recited, content, strict=False)
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(recited), len(content)))
    return f"NOT RECITED: byte {same:,} of {len(content):,} is the first which differs"


def _can_draw(*, asked: bool) -> bool:
    """Return whether there can be a picture; raise MissingExtraError where one was asked for."""
    from constructive.figures import drawing

    try:
        drawing.require_matplotlib()
    except MissingExtraError as error:
        if asked:
            raise
        say(f"no picture: {error.problem}; {error.suggestion}")
        return False
    return True


def _draw(decoder: "constructive.Decoder", text: "constructive.Text", picture: Path) -> None:
    from constructive.figures import decoders, drawing

    report("draw", 0, 1)
    figure = drawing.new_figure(decoders.HEIGHT)
    decoders.draw_recital(figure, decoder, text)
    drawing.write(figure, picture)
    say(f"drawn in {picture}")
