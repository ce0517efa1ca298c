"""How often each kernel runs: Python's calls of them, not those that kernels make of each other.

The modules of ``batches/`` refer to their kernels by name; while they are counted each name leads to a function
that counts and calls on. So a new kernel is counted without being listed anywhere.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from sparkmirror.batches import warm
from sparkmirror.batches.kernels import compiling

ROOM = "sparkmirror.batches"
KERNELS = f"{ROOM}.kernels"


def kernels() -> dict[str, Any]:
    """Every kernel that Python calls, by ``module.name``."""
    return {
        f"{dispatcher.__module__.removeprefix(KERNELS + '.')}.{dispatcher.__name__}": dispatcher
        for dispatcher, _ in compiling._entries
    }


@contextmanager
def counted(executions: Counter[str]) -> Iterator[Counter[str]]:
    """Counts executions by kernel while the context lasts."""
    warm()  # a kernel that calls another is compiled with it, not with what counts it
    instead = {id(dispatcher): _counting(name, dispatcher, executions) for name, dispatcher in kernels().items()}
    changed = []
    for name, module in list(sys.modules.items()):
        if name.startswith(ROOM):
            for attribute, value in list(vars(module).items()):
                if id(value) in instead:
                    changed.append((module, attribute, value))
                    setattr(module, attribute, instead[id(value)])
    try:
        yield executions
    finally:
        for module, attribute, value in changed:
            setattr(module, attribute, value)


def _counting(name: str, dispatcher: Callable[..., Any], executions: Counter[str]) -> Callable[..., Any]:
    @wraps(dispatcher)
    def call(*arguments: Any) -> Any:
        executions[name] += 1
        return dispatcher(*arguments)

    return call
