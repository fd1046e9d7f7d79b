"""What is sent to workers, so that a worker that cannot run it says why in words, and not by a failing import.

Workers may run another Python than the driver, on another machine, with another formatkit or none. `_received` is
therefore sent as code, where everything else of formatkit is sent by its name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pyspark import cloudpickle as _untyped

import formatkit
from formatkit.errors import ConfigurationError
from formatkit.spark.worker import run_task

__all__ = ["Sent", "refusal_in", "sent"]

_REFUSAL = "formatkit cannot run on this worker: "

_cloudpickle: Any = _untyped
_cloudpickle.register_pickle_by_value(sys.modules[__name__])


def sent(make: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    """What a method `__reduce__` returns for an object that workers make again by calling `make`."""
    pickled: bytes = _cloudpickle.dumps((make, arguments))
    return _received, (pickled, formatkit.__version__, sys.executable)


class Sent:
    """A function that workers call, sent in this way."""

    def __init__(self, function: Callable[[Iterator[Any]], Iterator[Any]]) -> None:
        self._function = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, rows: Iterator[Any]) -> Iterator[Any]:
        return self._function(rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return sent(partial, run_task, self._function)


def refusal_in(text: str) -> ConfigurationError | None:
    """What a worker says that cannot run formatkit, as Spark's text about the job quotes it."""
    for line in text.splitlines():
        _, found, reason = line.partition(_REFUSAL)
        if found:
            return ConfigurationError(f"formatkit cannot run on Spark's workers: {reason}")
    return None


def _received(pickled: bytes, version: str, driver: str) -> Any:
    """What was sent. It runs where formatkit may be missing, so that it imports what it needs by itself."""
    import pickle
    import platform
    import sys
    from importlib.metadata import PackageNotFoundError

    here = f"{sys.executable} (Python {platform.python_version()}, on {platform.node()})"
    try:
        import formatkit

        found = formatkit.__version__
        if found == version:
            make, arguments = pickle.loads(pickled)  # noqa: S301 - the driver made it
            return make(*arguments)
        reason = f"{here} has formatkit {found}, and the driver's {driver} has {version}"
    except PackageNotFoundError:
        reason = f"{here} has the modules of formatkit without its metadata; send the wheel as it is"
    except ModuleNotFoundError as error:
        reason = f"{here} has no module {error.name!r}, and the driver's {driver} has it"
    except MemoryError:
        raise MemoryError(
            "there is not enough memory to import formatkit: it needs 768m of spark.executor.pyspark.memory for each "
            "core of an executor"
        ) from None
    raise ImportError(f"{_REFUSAL}{reason}. docs/spark-shipping.md says how to ship formatkit to workers")
