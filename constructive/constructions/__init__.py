"""From data to a layer: what each theorem builds, `build_memorizer`, and decoders."""

# The names of `build.CONSTRUCTIONS`, for who asks before anything is imported.
NAMES = "saturated", "rank_one", "generic", "paired", "tangent"
