"""One report as one line of JSON: `{"step": 12, "loss": 0.5}`. Anyone may write such lines.

Written out by hand: importing `json` takes longer than all of `dovetail.sdk`.
"""

from __future__ import annotations

from math import isfinite, isnan

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all of this
if TYPE_CHECKING:
    from collections.abc import Mapping

COOPERATIVE = b'{"dovetail": {"cooperative": true}}\n'
RESERVED = "dovetail"
EXACT = 2**53  # whole numbers up to here are the same as floats and as integers


def report_line(step: object, metrics: Mapping[str, object]) -> bytes:
    """The line for one report; TypeError or ValueError if it is not made of numbers."""
    fields = [f"{_name(name)}: {_metric(name, value)}" for name, value in metrics.items()]
    if step is not None:
        fields.insert(0, f'"step": {_step(step)}')
    if not fields:
        raise TypeError("report() needs a step or a metric, such as report(12, loss=0.5)")
    return f"{{{', '.join(fields)}}}\n".encode()


def _name(name: str) -> str:
    if name == RESERVED:
        raise ValueError(f"a metric cannot be named {RESERVED!r}: Dovetail uses that name itself")
    if name.isascii() and name.isidentifier():
        return f'"{name}"'
    import json

    return json.dumps(name)


def _metric(name: str, value: object) -> str:
    number = value if type(value) is float else _number(f"metric {name!r}", value)
    if isfinite(number):
        return repr(number)
    # JSON has no word for these, so they are texts, spelled as Python and C read them.
    return '"NaN"' if isnan(number) else '"inf"' if number > 0 else '"-inf"'


def _step(step: object) -> str:
    if type(step) is int and -EXACT <= step <= EXACT:
        return repr(step)
    number = _number("step", step)
    if not isfinite(number):
        raise ValueError(f"step must be a finite number, not {number}")
    return repr(int(number)) if abs(number) <= EXACT and number.is_integer() else repr(number)


def _number(what: str, value: object) -> float:
    """Any number as a float: also a NumPy or PyTorch scalar, but not the text of a number."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{what} must be a number, not {_kind(value)}")
    try:
        return float(value.item() if hasattr(value, "item") else value)
    except OverflowError:
        raise ValueError(f"{what} is too large: at most about 1.8e308") from None
    except Exception as problem:  # what a framework raises for a tensor of many numbers is its own
        raise TypeError(f"{what} must be one number, not {_kind(value)} ({problem})") from None


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
