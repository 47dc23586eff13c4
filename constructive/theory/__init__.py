"""Statements in integers, and exact facts about data."""
