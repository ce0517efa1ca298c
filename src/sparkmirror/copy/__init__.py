"""The data path, from plan to receipt; start reading at lane.py."""
