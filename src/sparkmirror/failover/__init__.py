"""Failover, switchover and what they need; begin with `states`, then `procedure`."""
