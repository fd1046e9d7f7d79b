"""The command `doctor`: what this machine offers, what is missing, and what to do about it."""

from __future__ import annotations

import typer

from formatkit.cli.options import AsJson

__all__ = ["doctor"]


def doctor(as_json: AsJson = False) -> None:
    """Show what this machine offers: packages, formats, Java, Spark, io_uring, limits. Fails if something is broken."""
    from dataclasses import asdict

    from formatkit.cli.doctor_machine import machine_findings
    from formatkit.cli.doctor_packages import package_findings
    from formatkit.cli.terminal import note, print_json, print_table

    findings = [*package_findings(), *machine_findings()]
    broken = [finding for finding in findings if finding.state == "broken"]
    if as_json:
        print_json({"healthy": not broken, "findings": [asdict(finding) for finding in findings]})
    else:
        for area in dict.fromkeys(finding.area for finding in findings):
            rows = [
                (finding.name, finding.state, finding.found, finding.advice)
                for finding in findings
                if finding.area == area
            ]
            print_table((area, "state", "found", "what to do"), rows)
        names = ", ".join(finding.name for finding in broken)
        note(f"Broken: {names}" if broken else "Nothing that is installed is broken")
    if broken:
        raise typer.Exit(1)
