import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import smfs.shaded.org.apache.iceberg.BaseTable;
import smfs.shaded.org.apache.iceberg.ContentFile;
import smfs.shaded.org.apache.iceberg.DataFile;
import smfs.shaded.org.apache.iceberg.DeleteFile;
import smfs.shaded.org.apache.iceberg.FileFormat;
import smfs.shaded.org.apache.iceberg.FileScanTask;
import smfs.shaded.org.apache.iceberg.OverwriteFiles;
import smfs.shaded.org.apache.iceberg.PartitionKey;
import smfs.shaded.org.apache.iceberg.PartitionSpec;
import smfs.shaded.org.apache.iceberg.RewriteFiles;
import smfs.shaded.org.apache.iceberg.RowDelta;
import smfs.shaded.org.apache.iceberg.Schema;
import smfs.shaded.org.apache.iceberg.SchemaParser;
import smfs.shaded.org.apache.iceberg.StructLike;
import smfs.shaded.org.apache.iceberg.data.BaseDeleteLoader;
import smfs.shaded.org.apache.iceberg.data.GenericAppenderFactory;
import smfs.shaded.org.apache.iceberg.data.InternalRecordWrapper;
import smfs.shaded.org.apache.iceberg.data.Record;
import smfs.shaded.org.apache.iceberg.deletes.BaseDVFileWriter;
import smfs.shaded.org.apache.iceberg.deletes.EqualityDeleteWriter;
import smfs.shaded.org.apache.iceberg.deletes.PositionDelete;
import smfs.shaded.org.apache.iceberg.deletes.PositionDeleteWriter;
import smfs.shaded.org.apache.iceberg.expressions.ExpressionParser;
import smfs.shaded.org.apache.iceberg.io.CloseableIterable;
import smfs.shaded.org.apache.iceberg.io.DataWriter;
import smfs.shaded.org.apache.iceberg.io.DeleteWriteResult;
import smfs.shaded.org.apache.iceberg.io.OutputFileFactory;
import smfs.shaded.org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import smfs.shaded.org.apache.iceberg.types.TypeUtil;

/** The files of one commit, written by Iceberg's own writers, and the commit. */
final class Writing {
  private final BaseTable table;
  private final FileFormat format;
  private final Map<String, FileScanTask> present = new HashMap<>();
  private final List<DataFile> data = new ArrayList<>();
  private final List<DeleteFile> deletes = new ArrayList<>();
  private final List<DeleteFile> replaced = new ArrayList<>();

  private Writing(BaseTable table, FileFormat format) throws IOException {
    this.table = table;
    this.format = format;
    try (CloseableIterable<FileScanTask> tasks = table.newScan().planFiles()) {
      tasks.forEach(task -> present.put(task.file().location(), task));
    }
  }

  /** Write what the job names, commit all of it as one snapshot, and answer where the new metadata is. */
  static Map<String, Object> commit(JsonNode job) throws IOException {
    BaseTable table = MetadataFile.open(job.get("metadata").textValue());
    Writing writing = new Writing(table, FileFormat.fromString(job.path("format").asText("parquet")));
    if (job.has("rows")) {
      writing.writeRows(Values.records(job.get("rows"), table.schema()));
    }
    if (job.has("positions")) {
      writing.writePositions(job.get("positions"));
    }
    for (JsonNode equality : job.path("equality")) {
      writing.writeEquality(equality);
    }
    if (job.has("vectors")) {
      writing.writeVectors(job.get("vectors"));
    }
    writing.commitAs(job.get("operation").textValue(), job);
    List<Object> files = new ArrayList<>();
    for (ContentFile<?> file : writing.data) {
      files.add(Reading.described(file));
    }
    for (ContentFile<?> file : writing.deletes) {
      files.add(Reading.described(file));
    }
    return Map.of("metadata", MetadataFile.location(table), "files", files);
  }

  private void writeRows(List<Record> rows) throws IOException {
    PartitionSpec spec = table.spec();
    InternalRecordWrapper internal = new InternalRecordWrapper(table.schema().asStruct());
    PartitionKey key = new PartitionKey(spec, table.schema());
    Map<PartitionKey, List<Record>> partitions = new LinkedHashMap<>();
    for (Record row : rows) {
      key.partition(internal.wrap(row));
      List<Record> members = partitions.get(key);
      if (members == null) {
        members = new ArrayList<>();
        partitions.put(key.copy(), members);
      }
      members.add(row);
    }
    GenericAppenderFactory writers = new GenericAppenderFactory(table.schema(), spec);
    writers.setAll(table.properties());
    for (Map.Entry<PartitionKey, List<Record>> partition : partitions.entrySet()) {
      DataWriter<Record> writer =
          writers.newDataWriter(files(format).newOutputFile(spec, partition.getKey()), format, partition.getKey());
      try (writer) {
        partition.getValue().forEach(writer::write);
      }
      data.add(writer.toDataFile());
    }
  }

  /** One delete file per partition, its rows in the order in which they are given. */
  private void writePositions(JsonNode positions) throws IOException {
    Map<List<Object>, List<JsonNode>> partitions = new LinkedHashMap<>();
    for (JsonNode position : positions) {
      DataFile file = dataFile(position.get(0).textValue());
      partitions
          .computeIfAbsent(List.of(file.specId(), file.partition().toString()), ignored -> new ArrayList<>())
          .add(position);
    }
    for (List<JsonNode> members : partitions.values()) {
      DataFile like = dataFile(members.get(0).get(0).textValue());
      PartitionSpec spec = table.specs().get(like.specId());
      GenericAppenderFactory writers = new GenericAppenderFactory(table.schema(), spec);
      PositionDeleteWriter<Record> writer =
          writers.newPosDeleteWriter(
              files(format).newOutputFile(spec, like.partition()), format, like.partition());
      PositionDelete<Record> delete = PositionDelete.create();
      try (writer) {
        for (JsonNode position : members) {
          writer.write(delete.set(position.get(0).textValue(), position.get(1).longValue(), null));
        }
      }
      deletes.add(writer.toDeleteFile());
    }
  }

  /** A delete file for the partition of the data file `partition_of`, or for all partitions if there is none. */
  private void writeEquality(JsonNode job) throws IOException {
    List<Integer> order = new ArrayList<>();
    job.get("ids").forEach(id -> order.add(id.intValue()));
    Set<Integer> ids = new LinkedHashSet<>(order);
    Schema schema =
        job.has("schema") ? SchemaParser.fromJson(job.get("schema")) : TypeUtil.select(table.schema(), ids);
    PartitionSpec spec;
    StructLike partition = null;
    if (job.hasNonNull("partition_of")) {
      DataFile like = dataFile(job.get("partition_of").textValue());
      spec = table.specs().get(like.specId());
      partition = like.partition();
    } else {
      spec = unpartitioned();
    }
    int[] fieldIds = order.stream().mapToInt(Integer::intValue).toArray();
    GenericAppenderFactory writers = new GenericAppenderFactory(table.schema(), spec, fieldIds, schema, null);
    EqualityDeleteWriter<Record> writer =
        writers.newEqDeleteWriter(
            spec.isUnpartitioned()
                ? files(format).newOutputFile()
                : files(format).newOutputFile(spec, partition),
            format,
            partition);
    try (writer) {
      Values.records(job.get("rows"), schema).forEach(writer::write);
    }
    deletes.add(writer.toDeleteFile());
  }

  /** One Puffin file with a vector for each data file, merged with the deletes that it has already. */
  private void writeVectors(JsonNode positions) throws IOException {
    BaseDeleteLoader loader = new BaseDeleteLoader(delete -> table.io().newInputFile(delete.location()));
    BaseDVFileWriter writer =
        new BaseDVFileWriter(
            files(FileFormat.PUFFIN),
            path -> {
              List<DeleteFile> before = new ArrayList<>();
              for (DeleteFile delete : present.get(path).deletes()) {
                if (delete.equalityFieldIds() == null) {
                  before.add(delete);
                }
              }
              return before.isEmpty() ? null : loader.loadPositionDeletes(before, path);
            });
    try (writer) {
      for (JsonNode position : positions) {
        DataFile file = dataFile(position.get(0).textValue());
        writer.delete(
            file.location(), position.get(1).longValue(), table.specs().get(file.specId()), file.partition());
      }
    }
    DeleteWriteResult result = writer.result();
    deletes.addAll(result.deleteFiles());
    replaced.addAll(result.rewrittenDeleteFiles());
  }

  private void commitAs(String operation, JsonNode job) {
    switch (operation) {
      case "append":
        var append = table.newAppend();
        data.forEach(append::appendFile);
        append.commit();
        break;
      case "row-delta":
        RowDelta delta = table.newRowDelta();
        if (table.currentSnapshot() != null) {
          delta.validateFromSnapshot(table.currentSnapshot().snapshotId());
        }
        data.forEach(delta::addRows);
        deletes.forEach(delta::addDeletes);
        replaced.forEach(delta::removeDeletes);
        delta.commit();
        break;
      case "overwrite":
        OverwriteFiles overwrite = table.newOverwrite();
        data.forEach(overwrite::addFile);
        if (job.has("filter")) {
          overwrite.overwriteByRowFilter(ExpressionParser.fromJson(job.get("filter").toString(), table.schema()));
        }
        job.path("remove").forEach(path -> overwrite.deleteFile(dataFile(path.textValue())));
        overwrite.commit();
        break;
      case "rewrite":
        RewriteFiles rewrite =
            table.newRewrite().validateFromSnapshot(table.currentSnapshot().snapshotId());
        data.forEach(rewrite::addFile);
        for (JsonNode path : job.get("remove")) {
          FileScanTask task = present.get(path.textValue());
          rewrite.deleteFile(task.file());
          rewrite.dataSequenceNumber(task.file().dataSequenceNumber());
        }
        rewrite.commit();
        break;
      case "delete":
        table
            .newDelete()
            .deleteFromRowFilter(ExpressionParser.fromJson(job.get("filter").toString(), table.schema()))
            .commit();
        break;
      case "rewrite-manifests":
        table.rewriteManifests().clusterBy(file -> "all").commit();
        break;
      default:
        throw new IllegalArgumentException("No such operation: " + operation);
    }
  }

  private OutputFileFactory files(FileFormat fileFormat) {
    return OutputFileFactory.builderFor(table, 1, 1)
        .format(fileFormat)
        .operationId(UUID.randomUUID().toString())
        .build();
  }

  private DataFile dataFile(String path) {
    FileScanTask task = present.get(path);
    if (task != null) {
      return task.file();
    }
    return data.stream()
        .filter(file -> file.location().equals(path))
        .findFirst()
        .orElseThrow(() -> new IllegalArgumentException("No such data file in the table: " + path));
  }

  private PartitionSpec unpartitioned() {
    return table.specs().values().stream()
        .filter(PartitionSpec::isUnpartitioned)
        .findFirst()
        .orElseThrow(() -> new IllegalArgumentException("The table has never been unpartitioned"));
  }
}
