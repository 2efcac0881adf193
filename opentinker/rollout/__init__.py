"""Plays episodes: one walk over a protocol, many at once."""
