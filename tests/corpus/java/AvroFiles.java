import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.file.CodecFactory;
import org.apache.avro.file.DataFileWriter;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumWriter;

/** Avro by its library for Java: a schema as JSON, and rows as arrays of the values of their fields. */
final class AvroFiles {
    static void write(JsonNode job) throws IOException {
        Schema schema = new Schema.Parser().parse(job.get("schema").asText());
        try (DataFileWriter<Object> writer = new DataFileWriter<>(new GenericDatumWriter<>(schema))) {
            writer.setCodec(CodecFactory.fromString(job.get("codec").asText()));
            writer.setSyncInterval(job.get("sync_interval").asInt());
            writer.create(schema, new File(job.get("path").asText()));
            int rowsOfBlock = job.get("block_rows").asInt();
            int written = 0;
            for (JsonNode row : job.get("rows")) {
                writer.append(value(schema, row));
                written++;
                if (written % rowsOfBlock == 0) {
                    writer.sync();
                }
            }
        }
    }

    private static Object value(Schema schema, JsonNode value) throws IOException {
        switch (schema.getType()) {
            case UNION:
                for (Schema branch : schema.getTypes()) {
                    if (value.isNull() == (branch.getType() == Schema.Type.NULL)) {
                        return value(branch, value);
                    }
                }
                throw new IllegalArgumentException(schema + " holds no " + value);
            case NULL:
                return null;
            case BOOLEAN:
                return value.asBoolean();
            case INT:
                return value.asInt();
            case LONG:
                return value.asLong();
            case FLOAT:
                return Float.intBitsToFloat(value.asInt());
            case DOUBLE:
                return Double.longBitsToDouble(value.asLong());
            case STRING:
                return value.asText();
            case ENUM:
                return new GenericData.EnumSymbol(schema, value.asText());
            case BYTES:
                return ByteBuffer.wrap(value.binaryValue());
            case FIXED:
                return new GenericData.Fixed(schema, value.binaryValue());
            case ARRAY:
                List<Object> elements = new ArrayList<>();
                for (JsonNode each : value) {
                    elements.add(value(schema.getElementType(), each));
                }
                return elements;
            case MAP:
                Map<String, Object> entries = new LinkedHashMap<>();
                for (JsonNode pair : value) {
                    entries.put(pair.get(0).asText(), value(schema.getValueType(), pair.get(1)));
                }
                return entries;
            default:
                GenericData.Record record = new GenericData.Record(schema);
                for (int i = 0; i < schema.getFields().size(); i++) {
                    record.put(i, value(schema.getFields().get(i).schema(), value.get(i)));
                }
                return record;
        }
    }
}
