"""The loops over bytes, as Numba functions.

    index, select, stretches, pass_through, legacy, decode, encode
                    the loops of the modules of the same names one floor up
    pour            records from batches into a new one: the loop of ``merge`` and ``reencode``
    crc, crc32      checksums, of magic 2 and of the messages before it
    varint, deltas, words
                    what the loops are made of
    compiling       how all of them are compiled, cached and loaded

Invariant: bytes are read and written through ``words`` or by plain indexing; both check each place under
``NUMBA_BOUNDSCHECK=1``.
"""
