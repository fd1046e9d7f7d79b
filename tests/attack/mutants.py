"""The parts that change files and tables of the corpus at one place, and look at what reading makes of them."""

from __future__ import annotations

import io
import json
import pickle
import re
import zipfile
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from attack.cases import Case, Finding, Result, attempt
from attack.corpus import FILES, TABLES, TableFiles, build_table
from attack.questions import Answers, Rule, ask_file, ask_table, wrong

import formatkit
from support.damage import damages
from support.lying_io import LYING_IO, STORE, STORES
from support.mutations import json as json_tree
from support.mutations.arrow_file import edit_arrow
from support.mutations.avro_file import AvroFile
from support.mutations.orc_file import OrcFile
from support.mutations.parquet_file import ParquetFile
from support.mutations.puffin_file import edit_puffin
from support.mutations.tree import edit

__all__ = ["good_file", "good_table", "right_answers", "rule_for", "run_file", "run_table"]

_RULES: list[tuple[str, Rule]] = [
    # Parquet: counts, sizes and offsets are stored in pages and in the footer, which must agree.
    (r"parquet\.page_header .*statistics", "filters"),
    (r"parquet\.page_header ", "same"),
    (r"parquet\.footer \.(row_groups\[\d+\]\.)?num_rows:", "rows"),
    (r"parquet\.footer \.row_groups\[\d+\]\.(total_byte_size|file_offset|total_compressed_size):", "same"),
    (r"parquet\.footer \.row_groups\[\d+\]\.columns\[\d+\]\.meta_data\.(num_values|total_|codec|encoding)", "same"),
    (r"parquet\.footer \.row_groups\[\d+\]\.columns\[\d+\]\.(meta_data\.data_page_offset|file_offset)", "same"),
    (r"parquet\.footer \.row_groups\[\d+\]\.columns\[\d+\]\.meta_data\.(statistics|size_stat|bloom)", "filters"),
    (r"parquet\.footer \.(version|created_by|column_orders)", "filters"),
    (r"parquet\.(column_index|offset_index|bloom) ", "hints"),
    # ORC: lengths and counts of stripes; statistics and indexes only serve filters.
    (r"orc\.postscript ", "same"),
    (r"orc\.footer \.(stripes\.)?numberOfRows", "rows"),
    (r"orc\.footer \.(stripes\.|contentLength|headerLength)", "same"),
    (r"orc\.footer \.(statistics|rowIndexStride|writer)", "filters"),
    (r"orc\.(metadata|row_index) ", "hints"),
    # Avro: a block's count and length are proved by its bytes. How many blocks there are is said nowhere.
    (r"avro\.block .*count", "rows"),
    (r"avro\.block .*(length|sync)", "same"),
    (r"avro\.header (sync|magic|metadata\.avro\.codec)", "same"),
    # Arrow: a batch, its columns and its buffers all say how many rows there are.
    (r"arrow\.record_batch .*\.header\.length:", "same"),
    (r"arrow\.\w+ .*(@vtable|@root|@length|bodyLength|version)", "any"),
    # Puffin: the manifest says how many rows a vector deletes, and each vector which file it is of.
    (r"puffin\.trailer ", "same"),
]


def rule_for(where: str, what: str, *, sealed: bool = False) -> Rule:
    """The rule for a change; `any` if the format gives no means to notice it."""
    if sealed:
        return "same"
    return next((rule for pattern, rule in _RULES if re.match(pattern, f"{where} {what}")), "any")


def run_file(case: Case) -> Result:
    """Change a data file, or read a kept one again."""
    random = case.random
    if case.again is not None:
        facts = json.loads((case.again / "case.json").read_text())
        name, where, what, rule = (facts[key] for key in ("corpus", "where", "what", "rule"))
        data = (case.again / "mutant").read_bytes()
        on_disk = True
    else:
        name = random.choice(list(FILES))
        where, what, data, rule = _changed_file(name, random)
        on_disk = random.random() < 0.3
    file = FILES[name]
    case.keep({"corpus": name, "where": where, "what": what, "rule": rule}, mutant=data)
    source: Any = data
    if on_disk:
        source = str(case.folder / f"mutant.{file.file_format}")
        Path(source).write_bytes(data)
    result = Result(Counter({f"mutants of {where}": 1}))
    asked = ask_file(source, file.file_format, file.filters, file.column)
    _judge(result, asked, right_answers(name), where, f"{name}: {what}", rule)
    return result


def _judge(result: Result, asked: Any, right: Answers, where: str, what: str, rule: Rule) -> None:
    for question, call in asked:
        if question not in right:
            continue
        found, finding = attempt(call)
        if finding is not None:
            result.findings.append(Finding(finding.kind, where, f"{what}: {question}: {finding.what}", finding.cause))
            return
        result.counts["answers" if found is not None else "errors"] += 1
        if found is None and rule == "hints":
            result.findings.append(Finding("unreadable", where, f"{what}: {question}: an error"))
            return
        if found is not None and (problem := wrong(rule, question, right[question], found)):
            result.findings.append(Finding("wrong rows", where, f"{what}: {problem}"))
            return


@cache
def good_file(name: str) -> bytes:
    """The file of the corpus."""
    return FILES[name].write()


@cache
def right_answers(name: str) -> Answers:
    """What the good file answers; questions that its format refuses are left out."""
    if name in FILES:
        file = FILES[name]
        asked = ask_file(good_file(name), file.file_format, file.filters, file.column)
    else:
        asked = ask_table(lambda: _loaded(good_table(name)))
    answers = {}
    for question, call in asked:
        found, finding = attempt(call)
        assert finding is None, finding
        if found is not None:
            answers[question] = found
    return answers


@cache
def _taken_apart(name: str) -> bytes:
    """The parts of a file, pickled: that is the quickest way to many fresh copies."""
    data = good_file(name)
    parse: Any = {"parquet": ParquetFile, "orc": OrcFile, "avro": AvroFile.parse}[FILES[name].file_format]
    return pickle.dumps(parse(data))


def _changed_file(name: str, random: Random) -> tuple[str, str, bytes, Rule]:
    """What kind of structure was changed, how, the bytes, and the rule."""
    file, good = FILES[name], good_file(name)
    way = random.random()
    if way < 0.08:
        other = good_file(random.choice([each for each in FILES if FILES[each].file_format == file.file_format]))
        cut, its = random.randrange(len(good)), random.randrange(len(other))
        spliced = good[:cut] + other[its:]
        return f"{file.file_format}.splice", f"{cut} bytes, then from {its} of another", spliced, "any"
    if way < 0.2 or file.file_format in ("vortex", "lance"):
        damage = next(iter(damages(good, random, 1)))
        where = f"{file.file_format}.bytes"
        return where, damage.what, damage.data, rule_for(where, damage.what, sealed=file.sealed)
    if file.file_format == "arrow":
        structure, done, data = edit_arrow(good, random)
    else:
        taken = pickle.loads(_taken_apart(name))
        structure, done = taken.edit(random)
        data = taken.to_bytes()
    where = f"{file.file_format}.{structure}"
    return where, str(done), data, rule_for(where, str(done))


def run_table(case: Case) -> Result:
    """Change a file of a table's metadata, or read a kept table again."""
    random = case.random
    if case.again is not None:
        facts = json.loads((case.again / "case.json").read_text())
        name, where, what, rule = (facts[key] for key in ("corpus", "where", "what", "rule"))
        table = _unzipped((case.again / "table.zip").read_bytes(), facts["metadata_location"])
    else:
        name = random.choice(list(TABLES))
        good = good_table(name)
        structures = good.structures()
        structure = random.choice([*structures, "manifest", "manifest"])
        location = random.choice(structures[structure])
        inner, what, data = _changed_metadata(structure, good.files[location], random)
        where = f"{structure}.{inner}" if structure != "metadata" else "metadata.json"
        rule = rule_for(where, what)
        table = TableFiles({**good.files, location: data}, good.metadata_location)
        what = f"{location.rpartition('/')[2]}: {what}"
    facts = {"corpus": name, "where": where, "what": what, "rule": rule, "metadata_location": table.metadata_location}
    case.keep(facts, **{"table.zip": _zipped(table)})
    result = Result(Counter({f"mutants of {where}": 1}))
    _judge(result, ask_table(lambda: _loaded(table)), right_answers(name), where, f"{name}: {what}", rule)
    return result


@cache
def good_table(name: str) -> TableFiles:
    """The table of the corpus."""
    return build_table(name)


def _loaded(table: TableFiles) -> Any:
    STORES["attacked"] = table.files
    return formatkit.load_table(table.metadata_location, {**LYING_IO, STORE: "attacked"})


def _changed_metadata(structure: str, good: bytes, random: Random) -> tuple[str, str, bytes]:
    if random.random() < 0.15:
        damage = next(iter(damages(good, random, 1)))
        return "bytes", damage.what, damage.data
    if structure == "metadata":
        tree = json_tree.parse(good)
        done = edit(tree, random)
        return "json", str(done), json_tree.encode(tree)
    if structure == "puffin":
        inner, done, data = edit_puffin(good, random)
        return inner, str(done), data
    file = AvroFile.parse(good)
    inner, done = file.edit(random)
    return inner, str(done), file.to_bytes()


def _zipped(table: TableFiles) -> bytes:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for location, content in table.files.items():
            archive.writestr(location, content)
    return output.getvalue()


def _unzipped(data: bytes, metadata_location: str) -> TableFiles:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return TableFiles({name: archive.read(name) for name in archive.namelist()}, metadata_location)
