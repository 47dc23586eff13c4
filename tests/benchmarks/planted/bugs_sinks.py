"""Planted bugs of sinks."""

import numpy as np

from flash import Flash


class SinkIgnored(Flash):
    """Sinks are ignored."""

    needs = "sinks"
    seen = "https://github.com/modular/modular/pull/6591"

    def with_sinks(self, run, out, lse):
        return out, lse


class SinkScaled(Flash):
    """Sinks are multiplied by the scale."""

    needs = "sinks"
    seen = "https://github.com/ROCm/rocm-libraries/issues/12227"

    def sinks(self, run):
        return super().sinks(run) * self.scale(run)


class SinkNotShifted(Flash):
    """exp(sink) is added to a sum that was shifted by the maximum."""

    needs = "sinks many-keys"

    def finish(self, run, state):
        out, lse = super().finish(run, state)
        sink = np.exp(self.sinks(run))
        return out * (state[1] / (state[1] + sink))[..., None], lse

    def with_sinks(self, run, out, lse):
        return out, lse


class SinkOfNextHead(Flash):
    """The sink of the next head is used."""

    needs = "sinks heads"

    def sinks(self, run):
        return np.roll(super().sinks(run), -1, 1)


class SinkByKeyHead(Flash):
    """The sink is looked up by key head, not by query head."""

    needs = "sinks grouped"

    def sinks(self, run):
        return super().sinks(run)[:, self.key_heads(run)]


class SinkByRow(Flash):
    """The sink is looked up by query row modulo the number of heads."""

    needs = "sinks heads many-queries"
    seen = "https://github.com/modular/modular/pull/6591"

    def sinks(self, run):
        return super().sinks(run)[:, np.arange(run.tq) % run.heads, 0][:, None]


class SinkPerSplit(Flash):
    """The sink is counted once in every split of the keys."""

    needs = "sinks splits"
    seen = "https://github.com/ROCm/rocm-libraries/issues/12227"

    def sinks(self, run):
        return super().sinks(run) + np.log(run.real(run.o.splits))


class SinkHasValue(Flash):
    """The sink's weight goes to the value of the first key instead of to none."""

    needs = "sinks"

    def with_sinks(self, run, out, lse):
        faded, total = super().with_sinks(run, out, lse)
        first = self.values(run, np.zeros(1, int))
        return faded + np.exp(self.sinks(run) - total)[..., None] * first, total


class SinkAsProbability(Flash):
    """The sink itself, not its exponential, is added to the sum."""

    needs = "sinks"

    def with_sinks(self, run, out, lse):
        return out / (1 + np.abs(self.sinks(run)) * np.exp(-lse))[..., None], lse
