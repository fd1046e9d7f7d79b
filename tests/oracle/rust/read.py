"""Answers jobs with what iceberg-rust reads; runs in an environment of its own, with nothing of formatkit in it."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
from datafusion import SessionContext  # type: ignore[import-not-found]
from pyiceberg_core.datafusion import IcebergDataFusionTable  # type: ignore[import-not-found]


def perform(job: dict[str, str]) -> dict[str, int]:
    """Write the rows of the table that pass the condition to a file of Arrow's stream format."""
    context = SessionContext()
    context.register_table("t", IcebergDataFusionTable(["db", "t"], job["metadata"], {}))
    where = f" where {job['where']}" if "where" in job else ""
    batches = context.sql(f"select {job['select']} from t{where}")
    table = batches.to_arrow_table()
    with pa.OSFile(job["output"], "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return {"rows": table.num_rows}


def main() -> None:
    for line in sys.stdin:
        try:
            answer: object = perform(json.loads(line))
        except BaseException as error:  # noqa: BLE001 - a panic in Rust is no Exception, and is an answer too
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
