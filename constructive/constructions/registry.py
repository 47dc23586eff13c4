"""All constructions, by name. A new one is a file, and a line here."""

from typing import TYPE_CHECKING

from constructive.constructions.construction import (
    FLOAT,
    NARROW,
    PIECES,
    PLANNED,
    WIDE,
    Construction,
    Options,
)
from constructive.layers.attention import FLOAT64_BITS
from constructive.support.errors import ParameterError
from constructive.support.registry import Registry

if TYPE_CHECKING:
    from constructive.constructions.construction import Construction

HOMES = {
    "saturated": "constructive.constructions.dense:SATURATED",
    "rank_one": "constructive.constructions.rank_one:RANK_ONE",
    "generic": "constructive.constructions.generic:GENERIC",
    "narrow_values": "constructive.constructions.generic:NARROW_VALUES",
    "paired": "constructive.constructions.paired:PAIRED",
}

CONSTRUCTIONS: "Registry[Construction]" = Registry(HOMES)


# The one place that refuses what a construction has not.


def refusal(
    construction: Construction, options: Options, target_dim: int, *, planning: bool = False
) -> ParameterError | None:
    """Return the error about the first option that a construction does not take, or None.

    planning: whether only what planning asks for counts
    """
    name, takes = construction.name, construction.options.get(options.arithmetic)
    if takes is None:
        return ParameterError(
            f"construction={name!r} has no {options.arithmetic} weights",
            witness=name,
            suggestion=f"construction='auto', or arithmetic={FLOAT!r}",
        )
    refused = {
        option: value
        for option, value in options.asked(target_dim)
        if option not in takes and (option in PLANNED or not planning)
    }
    if not refused:
        return None
    first, witness = next(iter(refused.items()))
    suggestion = f"no {first}=, or construction='auto'"
    match first:
        case _ if first == NARROW:
            problem = f"value_dim={witness} is less than the d_out={target_dim} of the targets, "
            problem += f"which construction={name!r} does not support"
            suggestion = f"value_dim={target_dim} or more, or construction='auto'"
        case _ if first == WIDE:
            problem = f"construction={name!r} is for value_dim= below d_out={target_dim}"
            suggestion = "construction='auto'"
        case "lengths":
            problem = f"construction={name!r} needs contexts of one length"
            witness = name
            suggestion = "construction='auto', or dataset.take(...) of examples of one length"
        case "exact_logits":
            problem = f"construction={name!r} has no exact logits: "
            problem += "its W_Q and W_K need all their bits"
            witness = name
            suggestion = "construction='generic', whose heads are random, or exact_logits=False"
        case "executor" | "checkpoint":
            names = " and ".join(f"{option}=" for option in refused if option in PIECES)
            problem = f"construction={name!r} is not built in pieces, and has no {names}"
            others = [
                repr(other) for other, each in CONSTRUCTIONS.items() if first in each.options[FLOAT]
            ]
            witness, suggestion = name, f"construction={' or '.join(others)}, or no {names}"
        case _ if options.arithmetic != FLOAT:
            problem = f"{refused} do not apply to {options.arithmetic} weights, which are exact"
            witness = refused
            suggestion = f"none of {', '.join(refused)}, or arithmetic={FLOAT!r}"
        case "precision":
            problem = f"precision={witness!r} is for readouts that W_V holds, and d_v < d_out"
            suggestion = f"precision={FLOAT64_BITS}, or value_dim={target_dim}"
        case _:
            problem = f"construction={name!r} has no {first}={witness!r}"
    return ParameterError(problem, witness=witness, suggestion=suggestion)
