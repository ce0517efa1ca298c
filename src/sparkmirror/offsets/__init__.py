"""Positions and the map between source and target offsets: pure."""
