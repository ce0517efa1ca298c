"""The control side: one file per duty, each observes, decides and applies."""
