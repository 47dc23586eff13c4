"""Theorem 1 and Theorem 2 as a program: five steps, one file each, in alphabetical order."""
