from __future__ import annotations

from formatkit.batches.arrow.file_writing import EncoderOutput
from formatkit.io import MemorySink


def test_only_publishing_makes_a_file() -> None:
    sink = MemorySink()
    output = EncoderOutput(sink.create())
    output.write(b"data")
    output.flush()
    output.close()
    assert [sink.data] == [None]
    output.publish()
    assert (sink.data, output.tell()) == (b"data", 4)


def test_what_a_codec_writes_after_the_end_is_dropped() -> None:
    sink = MemorySink()
    output = EncoderOutput(sink.create())
    output.write(b"data")
    output.abort()
    assert output.write(b"a footer") == 8
    assert (sink.data, output.tell()) == (None, 4)
