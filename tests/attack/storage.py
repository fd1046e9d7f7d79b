"""The part that reads through a storage which lies: right rows or a typed error, and never a wait without an end."""

from __future__ import annotations

from collections import Counter

from attack.cases import Case, Finding, Result, attempt
from attack.corpus import FILES, TABLES
from attack.mutants import good_file, good_table, right_answers
from attack.questions import Rule, ask_file, ask_table, wrong

import formatkit
from support.lying_io import LIES, LYING_IO, STORE, STORES, Liar, Lie, LyingFileIO, lying

__all__ = ["run_storage"]

_OTHER_BYTES: tuple[Lie, ...] = ("stale", "garbage")
"""Whoever stores no checksum cannot know that bytes are not its own."""


def run_storage(case: Case) -> Result:
    """Read a file or a table of the corpus while the storage lies."""
    random = case.random
    lies = tuple(random.sample(LIES, random.randint(1, 2)))
    rule: Rule = "any" if set(lies) & set(_OTHER_BYTES) else "same"
    liar = Liar(lies, random, share=random.choice([0.02, 0.2, 0.7]), most=random.choice([1, 3, 1000]))
    name = random.choice([*FILES, *TABLES, *TABLES, *TABLES])
    if name in TABLES:
        good = good_table(name)
        STORES["lies"] = good.files
        io = {**LYING_IO, STORE: "lies"}
        asked = ask_table(lambda: formatkit.load_table(good.metadata_location, io))
    else:
        file = FILES[name]
        location = f"memory://lies/file.{file.file_format}"
        STORES["lies"] = {location: good_file(name), "memory://lies/other": good_file("avro")}
        source = LyingFileIO({STORE: "lies"}).new_input(location)
        asked = ask_file(source, file.file_format, file.filters, file.column)
    what = f"{name}: {' and '.join(lies)}, {liar.share:.0%}, at most {liar.most}"
    case.keep({"corpus": name, "where": "storage", "what": what, "rule": rule})
    result = Result()
    right = right_answers(name)
    for question, call in asked:
        if question not in right:
            continue
        with lying(liar):
            found, finding = attempt(call)
        if finding is not None:
            told = f"{what}: {question}: {finding.what}"
            result.findings.append(Finding(finding.kind, f"storage.{'+'.join(sorted(lies))}", told, finding.cause))
            break
        result.counts["answers" if found is not None else "errors"] += 1
        problem = wrong(rule, question, right[question], found) if found is not None else ""
        if problem:
            result.findings.append(Finding("wrong rows", f"storage.{'+'.join(sorted(lies))}", f"{what}: {problem}"))
            break
    result.counts.update(Counter(f"lies of storage: {lie}" for lie in liar.told))
    return result
