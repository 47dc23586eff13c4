"""Errors, files, arguments, progress, tables: what every room needs."""
