import java.util.HashMap;
import java.util.Map;
import smfs.shaded.org.apache.iceberg.BaseTable;
import smfs.shaded.org.apache.iceberg.PartitionSpecParser;
import smfs.shaded.org.apache.iceberg.Schema;
import smfs.shaded.org.apache.iceberg.SchemaParser;
import smfs.shaded.org.apache.iceberg.SortOrder;
import smfs.shaded.org.apache.iceberg.TableMetadata;
import smfs.shaded.org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;

/** New tables, and new schemas, specs and properties of old ones, with the ids that the job gives. */
final class Evolving {
  private Evolving() {}

  static Map<String, Object> create(JsonNode job) {
    TableMetadata.Builder metadata =
        TableMetadata.buildFromEmpty(job.get("version").intValue())
            .assignUUID()
            .setLocation(job.get("location").textValue());
    change(metadata, job, 0);
    metadata.setDefaultSortOrder(SortOrder.unsorted()).discardChanges();
    return Map.of("metadata", MetadataFile.create(metadata.build()));
  }

  static Map<String, Object> evolve(JsonNode job) {
    BaseTable table = MetadataFile.open(job.get("metadata").textValue());
    TableMetadata base = table.operations().current();
    TableMetadata.Builder metadata = TableMetadata.buildFrom(base);
    if (job.has("version")) {
      metadata.upgradeFormatVersion(job.get("version").intValue());
    }
    change(metadata, job, base.lastColumnId());
    table.operations().commit(base, metadata.build());
    return Map.of("metadata", MetadataFile.location(table));
  }

  private static void change(TableMetadata.Builder metadata, JsonNode job, int lastColumnId) {
    if (job.has("schema")) {
      Schema schema = SchemaParser.fromJson(job.get("schema"));
      metadata.setCurrentSchema(schema, Math.max(lastColumnId, schema.highestFieldId()));
      if (job.has("spec")) {
        metadata.setDefaultPartitionSpec(PartitionSpecParser.fromJson(schema, job.get("spec").toString()));
      }
    }
    Map<String, String> properties = new HashMap<>();
    job.path("properties").fields().forEachRemaining(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
    metadata.setProperties(properties);
  }
}
