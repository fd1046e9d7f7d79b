import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.column.ParquetProperties.WriterVersion;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.example.data.simple.SimpleGroup;
import org.apache.parquet.hadoop.ParquetWriter;
import org.apache.parquet.hadoop.example.ExampleParquetWriter;
import org.apache.parquet.hadoop.metadata.CompressionCodecName;
import org.apache.parquet.io.LocalOutputFile;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.MessageTypeParser;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.parquet.schema.Type;

/** Parquet by parquet-mr: a message type as text, and rows as arrays of the values of their fields. */
final class ParquetFiles {
    static void write(JsonNode job) throws IOException {
        MessageType type = MessageTypeParser.parseMessageType(job.get("schema").asText());
        try (ParquetWriter<Group> writer = builder(job, type).build()) {
            for (JsonNode row : job.get("rows")) {
                writer.write(group(type, row));
            }
        }
    }

    private static ExampleParquetWriter.Builder builder(JsonNode job, MessageType type) {
        JsonNode settings = job.get("settings");
        ExampleParquetWriter.Builder builder = ExampleParquetWriter.builder(
                        new LocalOutputFile(Path.of(job.get("path").asText())))
                .withType(type)
                .withConf(new Configuration(false))
                .withWriterVersion(WriterVersion.valueOf(settings.get("version").asText()))
                .withCompressionCodec(CompressionCodecName.valueOf(settings.get("codec").asText()))
                .withRowGroupRowCountLimit(settings.get("row_group_rows").asInt())
                .withPageRowCountLimit(settings.get("page_rows").asInt())
                .withPageSize(settings.get("page_bytes").asInt())
                .withMinRowCountForPageSizeCheck(1)
                .withMaxRowCountForPageSizeCheck(8)
                .withDictionaryEncoding(settings.get("dictionary").asBoolean())
                .withDictionaryPageSize(settings.get("dictionary_bytes").asInt())
                .withByteStreamSplitEncoding(settings.get("byte_stream_split").asBoolean())
                .withBloomFilterEnabled(settings.get("bloom").asBoolean())
                .withAdaptiveBloomFilterEnabled(settings.get("adaptive_bloom").asBoolean())
                .withMaxBloomFilterBytes(1024)
                .withPageWriteChecksumEnabled(settings.get("checksums").asBoolean())
                .withStatisticsEnabled(settings.get("statistics").asBoolean())
                .withSizeStatisticsEnabled(settings.get("size_statistics").asBoolean())
                .withColumnIndexTruncateLength(settings.get("truncate").asInt())
                .withStatisticsTruncateLength(settings.get("truncate").asInt());
        return builder;
    }

    private static Group group(GroupType type, JsonNode values) {
        Group group = new SimpleGroup(type);
        for (int i = 0; i < type.getFieldCount(); i++) {
            Type field = type.getType(i);
            JsonNode value = values.get(i);
            if (field.isRepetition(Type.Repetition.REPEATED)) {
                for (JsonNode each : value) {
                    add(group, i, field, each);
                }
            } else if (!value.isNull()) {
                add(group, i, field, value);
            }
        }
        return group;
    }

    private static void add(Group group, int index, Type field, JsonNode value) {
        if (!field.isPrimitive()) {
            group.add(index, group(field.asGroupType(), value));
            return;
        }
        PrimitiveType type = field.asPrimitiveType();
        switch (type.getPrimitiveTypeName()) {
            case BOOLEAN -> group.add(index, value.asBoolean());
            case INT32 -> group.add(index, value.asInt());
            case INT64 -> group.add(index, value.asLong());
            case FLOAT -> group.add(index, Float.intBitsToFloat(value.asInt()));
            case DOUBLE -> group.add(index, Double.longBitsToDouble(value.asLong()));
            default -> group.add(index, Binary.fromConstantByteArray(bytes(value)));
        }
    }

    private static byte[] bytes(JsonNode value) {
        try {
            return value.binaryValue();
        } catch (IOException error) {
            throw new IllegalArgumentException(error);
        }
    }
}
