package org.apache.orc;

/** Lets a file say that an older version wrote it; only classes of this package may. */
public final class OldWriter {
    public static void claim(OrcFile.WriterOptions options, OrcFile.WriterVersion version) {
        options.writerVersion(version);
    }
}
