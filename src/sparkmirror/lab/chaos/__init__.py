"""The fault laboratory: flows of the real ``sparkmirror run`` under production, faults at random moments, then a count.

Read in this order: `schedule` (what is done when, from a seed alone), `site` (clusters, topics, flows), `conductor`
(does one fault after the other, side by side where they do not touch), `broker_faults`, `line_faults`,
`mirror_faults` and `idle_faults` (how each is done and undone), `standstill` (what the target showed meanwhile),
`verdict` (what arrived), `report`.
"""
