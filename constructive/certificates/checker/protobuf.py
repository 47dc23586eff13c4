"""Protocol buffers, as far as ONNX files need them: fields of a message, in the order of the file.

A message is a sequence of fields; each is a key, 8 number + type, and a value: type 0 is an integer
of 7 bits a byte, type 2 bytes of a length, type 5 four bytes. Readers differ in what they make of a
field that is repeated and should not be, so that is refused.
"""

import struct
from collections import namedtuple

from files import require

VARINT, BYTES, FIXED = 0, 2, 5
LONGEST = 10  # bytes of an integer

# Of a field: its name, its type, and whether it may be repeated
Field = namedtuple("Field", "name kind many", defaults=[False])


def varint(data, place):
    """An integer below 2^64, and where the next field begins."""
    value = 0
    for k in range(LONGEST):
        require(place < len(data), "a message is cut off")
        byte = data[place]
        place += 1
        value |= (byte & 127) << (7 * k)
        if byte < 128:
            require(value < 1 << 64, "an integer is too long")
            return value, place
    raise ValueError("an integer is too long")


def signed(value):
    """An integer of 64 bits, two's complement."""
    return value - (1 << 64) if value >> 63 else value


def message(data, fields):
    """The values of a message by name, lists of those that may be repeated.

    fields: what it may contain, by number; anything else is refused
    """
    found = {field.name: [] if field.many else None for field in fields.values()}
    place = 0
    while place < len(data):
        key, place = varint(data, place)
        number, kind = key >> 3, key & 7
        require(number in fields, f"field {number} of a message is none that is understood")
        field = fields[number]
        require(kind == field.kind, f"{field.name} is of another type")
        if kind == VARINT:
            value, place = varint(data, place)
            value = signed(value)
        else:
            length, place = varint(data, place) if kind == BYTES else (4, place)
            require(length <= len(data) - place, f"{field.name} is cut off")
            value = data[place : place + length]
            place += length
            if kind == FIXED:
                (value,) = struct.unpack("<f", value)
        if field.many:
            found[field.name].append(value)
        else:
            require(found[field.name] is None, f"{field.name} is repeated")
            found[field.name] = value
    return found
