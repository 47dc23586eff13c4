"""From data to a layer: what each theorem builds, and `build_memorizer`."""
