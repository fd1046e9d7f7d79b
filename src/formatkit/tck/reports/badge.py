"""A picture of the outcome for a README: one line of SVG text, with nothing to fetch."""

from __future__ import annotations

from collections.abc import Sequence
from string import Template

from formatkit.tck.reports.matrix import total
from formatkit.tck.results import Outcome, Run

__all__ = ["badge"]

_SUBJECT = "formatkit TCK"
_GREEN, _AMBER, _RED = "#2a7d46", "#a15c00", "#b3261e"
_LETTER, _PADDING = 6.6, 7
_PICTURE = Template("""\
<svg xmlns="http://www.w3.org/2000/svg" width="$width" height="20" role="img" aria-label="$subject: $outcome">
<title>$subject: $outcome</title>
<clipPath id="r"><rect width="$width" height="20" rx="4"/></clipPath>
<g clip-path="url(#r)"><rect width="$left" height="20" fill="#44484d"/>\
<rect x="$left" width="$right" height="20" fill="$colour"/></g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">\
<text x="$padding" y="14" textLength="$left_text">$subject</text>\
<text x="$right_start" y="14" textLength="$right_text">$outcome</text></g>
</svg>
""")


def badge(runs: Sequence[Run]) -> str:
    """An SVG picture: what was run, and what came out."""
    counts = total(runs)
    if counts[Outcome.FAILED]:
        outcome, colour = Outcome.FAILED.counted(counts[Outcome.FAILED]), _RED
    elif counts[Outcome.KNOWN]:
        outcome, colour = f"{_held(counts):,} hold, {Outcome.KNOWN.counted(counts[Outcome.KNOWN])}", _AMBER
    else:
        outcome, colour = f"{_held(counts):,} hold", _GREEN
    left, right = (round(len(text) * _LETTER) + 2 * _PADDING for text in (_SUBJECT, outcome))
    return _PICTURE.substitute(
        subject=_SUBJECT,
        outcome=outcome,
        colour=colour,
        padding=_PADDING,
        width=left + right,
        left=left,
        right=right,
        left_text=left - 2 * _PADDING,
        right_text=right - 2 * _PADDING,
        right_start=left + _PADDING,
    )


def _held(counts: dict[Outcome, int]) -> int:
    return counts[Outcome.PASSED] + counts[Outcome.REFUSED]
