"""What a construction of decoders is: its name, the options that it takes, and how it builds."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar

from constructive.data.corpus import Text
from constructive.layers.decoder import Decoder
from constructive.support.errors import ParameterError


@dataclass(frozen=True)
class DecoderOptions:
    """The options of `build_decoder`, None where they are not given."""

    width: int | None = None
    num_heads: int | None = None
    head_dim: int | None = None
    window: int | None = None
    code_width: int | None = None
    outputs: int | None = None
    readout: str | None = None
    every: bool | None = None
    seed: int = 0

    @property
    def given(self) -> tuple[str, ...]:
        """The names of those that are given, the seed apart."""
        names = (field.name for field in fields(self) if field.name != "seed")
        return tuple(name for name in names if getattr(self, name) is not None)


class DecoderKind(ABC):
    """A construction of decoders."""

    parameters: ClassVar[str]  # its name, the argument `parameters` of `build_decoder`
    takes: ClassVar[frozenset[str]]  # the names of the options it has

    @abstractmethod
    def build(self, text: Text, options: DecoderOptions) -> Decoder:
        """Build a decoder for texts."""

    def require(self, options: DecoderOptions) -> None:
        """Raise ParameterError for options that it does not take."""
        foreign = [name for name in options.given if name not in self.takes]
        if foreign:
            raise ParameterError(
                f"parameters={self.parameters!r} has no option {foreign[0]}",
                witness=tuple(foreign),
                suggestion=", ".join(f"{name}=" for name in sorted(self.takes)),
            )
