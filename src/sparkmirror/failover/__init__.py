"""Changing over to the target of a flow: whether it would work now, told without touching anything."""
