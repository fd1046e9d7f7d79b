import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import smfs.shaded.org.apache.iceberg.BaseTable;
import smfs.shaded.org.apache.iceberg.ContentFile;
import smfs.shaded.org.apache.iceberg.DeleteFile;
import smfs.shaded.org.apache.iceberg.FileScanTask;
import smfs.shaded.org.apache.iceberg.Schema;
import smfs.shaded.org.apache.iceberg.SchemaParser;
import smfs.shaded.org.apache.iceberg.Snapshot;
import smfs.shaded.org.apache.iceberg.data.IcebergGenerics;
import smfs.shaded.org.apache.iceberg.data.Record;
import smfs.shaded.org.apache.iceberg.expressions.ExpressionParser;
import smfs.shaded.org.apache.iceberg.io.CloseableIterable;
import smfs.shaded.org.apache.iceberg.puffin.BlobMetadata;
import smfs.shaded.org.apache.iceberg.puffin.Puffin;
import smfs.shaded.org.apache.iceberg.puffin.PuffinReader;
import smfs.shaded.org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;

/** What Iceberg's own reader sees in a table. */
final class Reading {
  private Reading() {}

  /** The rows of the fields of `schema` that pass `filter`, of the snapshot asked for or the current one. */
  static Map<String, Object> rows(JsonNode job) throws IOException {
    BaseTable table = MetadataFile.open(job.get("metadata").textValue());
    Schema schema = SchemaParser.fromJson(job.get("schema"));
    IcebergGenerics.ScanBuilder scan = IcebergGenerics.read(table);
    if (!job.hasNonNull("filter")) {
      scan = scan.project(schema);
    } else {
      // This reader finds no column of the filter that is not projected, so that all columns are.
      scan = scan.where(ExpressionParser.fromJson(job.get("filter").toString(), table.schema()));
    }
    if (job.hasNonNull("snapshot")) {
      scan = scan.useSnapshot(job.get("snapshot").longValue());
    }
    List<Object> rows = new ArrayList<>();
    try (CloseableIterable<Record> records = scan.build()) {
      records.forEach(record -> rows.add(Values.row(record, schema)));
    }
    return Map.of("rows", rows);
  }

  /** The data files of the current snapshot, and the delete files that Iceberg applies to each. */
  static Map<String, Object> plan(JsonNode job) throws IOException {
    BaseTable table = MetadataFile.open(job.get("metadata").textValue());
    List<Object> tasks = new ArrayList<>();
    try (CloseableIterable<FileScanTask> planned = table.newScan().includeColumnStats().planFiles()) {
      for (FileScanTask task : planned) {
        List<Object> deletes = new ArrayList<>();
        task.deletes().forEach(delete -> deletes.add(described(delete)));
        Map<String, Object> file = described(task.file());
        file.put("deletes", deletes);
        tasks.add(file);
      }
    }
    Snapshot snapshot = table.currentSnapshot();
    return Map.of("files", tasks, "summary", snapshot == null ? Map.of() : snapshot.summary());
  }

  /** What the footer of a Puffin file says, as Iceberg reads it. */
  static Map<String, Object> puffin(JsonNode job) throws IOException {
    List<Object> blobs = new ArrayList<>();
    try (PuffinReader reader = Puffin.read(MetadataFile.IO.newInputFile(job.get("location").textValue())).build()) {
      for (BlobMetadata blob : reader.fileMetadata().blobs()) {
        Map<String, Object> described = new LinkedHashMap<>();
        described.put("type", blob.type());
        described.put("fields", blob.inputFields());
        described.put("snapshot", blob.snapshotId());
        described.put("sequence", blob.sequenceNumber());
        described.put("offset", blob.offset());
        described.put("length", blob.length());
        described.put("codec", blob.compressionCodec());
        described.put("properties", blob.properties());
        blobs.add(described);
      }
    }
    return Map.of("blobs", blobs);
  }

  static Map<String, Object> described(ContentFile<?> file) {
    Map<String, Object> described = new LinkedHashMap<>();
    described.put("path", file.location());
    described.put("content", file.content().name());
    described.put("format", file.format().name());
    described.put("records", file.recordCount());
    described.put("size", file.fileSizeInBytes());
    described.put("spec", file.specId());
    described.put("partition", file.partition().toString());
    described.put("sequence", file.dataSequenceNumber());
    described.put("equality_ids", file.equalityFieldIds());
    if (file instanceof DeleteFile) {
      DeleteFile delete = (DeleteFile) file;
      described.put("offset", delete.contentOffset());
      described.put("length", delete.contentSizeInBytes());
      described.put("refers_to", delete.referencedDataFile());
    }
    return described;
  }
}
