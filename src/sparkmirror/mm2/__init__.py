"""MirrorMaker 2's records, byte by byte."""
