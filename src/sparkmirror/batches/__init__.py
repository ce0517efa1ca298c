"""Record batches: bytes to bytes, no I/O."""
