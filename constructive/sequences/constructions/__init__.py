"""Ways to build a sequence memorizer, one file for each way to embed tokens."""
