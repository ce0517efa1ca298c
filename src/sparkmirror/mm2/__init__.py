"""MirrorMaker 2's own records, bytes in and out. Pure."""
