import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import smfs.shaded.org.apache.iceberg.Schema;
import smfs.shaded.org.apache.iceberg.data.GenericRecord;
import smfs.shaded.org.apache.iceberg.data.Record;
import smfs.shaded.org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import smfs.shaded.org.apache.iceberg.types.Type;
import smfs.shaded.org.apache.iceberg.types.Types;
import smfs.shaded.org.apache.iceberg.util.DateTimeUtil;

/**
 * Values as JSON and back, by type: moments as numbers of their unit, decimals as text, bytes as hexadecimal text,
 * structs as lists of their fields, maps as lists of pairs.
 */
final class Values {
  private Values() {}

  static List<Record> records(JsonNode rows, Schema schema) {
    List<Record> records = new ArrayList<>();
    for (JsonNode row : rows) {
      records.add((Record) decode(row, schema.asStruct()));
    }
    return records;
  }

  static Object decode(JsonNode json, Type type) {
    if (json == null || json.isNull()) {
      return null;
    }
    switch (type.typeId()) {
      case BOOLEAN:
        return json.booleanValue();
      case INTEGER:
        return json.intValue();
      case LONG:
        return json.longValue();
      case FLOAT:
        return (float) number(json);
      case DOUBLE:
        return number(json);
      case DECIMAL:
        return new BigDecimal(json.textValue()).setScale(((Types.DecimalType) type).scale());
      case DATE:
        return DateTimeUtil.dateFromDays(json.intValue());
      case TIME:
        return DateTimeUtil.timeFromMicros(json.longValue());
      case TIMESTAMP:
        return ((Types.TimestampType) type).shouldAdjustToUTC()
            ? DateTimeUtil.timestamptzFromMicros(json.longValue())
            : DateTimeUtil.timestampFromMicros(json.longValue());
      case TIMESTAMP_NANO:
        return ((Types.TimestampNanoType) type).shouldAdjustToUTC()
            ? DateTimeUtil.timestamptzFromNanos(json.longValue())
            : DateTimeUtil.timestampFromNanos(json.longValue());
      case STRING:
        return json.textValue();
      case UUID:
        ByteBuffer halves = ByteBuffer.wrap(bytes(json));
        return new UUID(halves.getLong(), halves.getLong());
      case FIXED:
        return bytes(json);
      case BINARY:
        return ByteBuffer.wrap(bytes(json));
      case STRUCT:
        GenericRecord record = GenericRecord.create(type.asStructType());
        List<Types.NestedField> fields = type.asStructType().fields();
        for (int place = 0; place < fields.size(); place++) {
          record.set(place, decode(json.get(place), fields.get(place).type()));
        }
        return record;
      case LIST:
        List<Object> elements = new ArrayList<>();
        json.forEach(element -> elements.add(decode(element, type.asListType().elementType())));
        return elements;
      case MAP:
        Map<Object, Object> entries = new LinkedHashMap<>();
        Types.MapType map = type.asMapType();
        json.forEach(pair -> entries.put(decode(pair.get(0), map.keyType()), decode(pair.get(1), map.valueType())));
        return entries;
      default:
        throw new UnsupportedOperationException("No JSON form for values of type " + type);
    }
  }

  static List<Object> row(Record record, Schema schema) {
    List<Object> row = new ArrayList<>();
    for (Types.NestedField field : schema.columns()) {
      row.add(encode(record.getField(field.name()), field.type()));
    }
    return row;
  }

  static Object encode(Object value, Type type) {
    if (value == null) {
      return null;
    }
    switch (type.typeId()) {
      case BOOLEAN:
      case INTEGER:
      case LONG:
        return value;
      case FLOAT:
      case DOUBLE:
        return ((Number) value).doubleValue();
      case DECIMAL:
        return ((BigDecimal) value).toPlainString();
      case DATE:
        return DateTimeUtil.daysFromDate((LocalDate) value);
      case TIME:
        return DateTimeUtil.microsFromTime((LocalTime) value);
      case TIMESTAMP:
        return ((Types.TimestampType) type).shouldAdjustToUTC()
            ? DateTimeUtil.microsFromTimestamptz((OffsetDateTime) value)
            : DateTimeUtil.microsFromTimestamp((LocalDateTime) value);
      case TIMESTAMP_NANO:
        return ((Types.TimestampNanoType) type).shouldAdjustToUTC()
            ? DateTimeUtil.nanosFromTimestamptz((OffsetDateTime) value)
            : DateTimeUtil.nanosFromTimestamp((LocalDateTime) value);
      case STRING:
        return value.toString();
      case UUID:
        return value.toString().replace("-", "");
      case FIXED:
        return HexFormat.of().formatHex((byte[]) value);
      case BINARY:
        ByteBuffer buffer = ((ByteBuffer) value).duplicate();
        byte[] content = new byte[buffer.remaining()];
        buffer.get(content);
        return HexFormat.of().formatHex(content);
      case STRUCT:
        List<Object> fields = new ArrayList<>();
        List<Types.NestedField> types = type.asStructType().fields();
        for (Types.NestedField field : types) {
          fields.add(encode(((Record) value).getField(field.name()), field.type()));
        }
        return fields;
      case LIST:
        List<Object> elements = new ArrayList<>();
        ((List<?>) value).forEach(element -> elements.add(encode(element, type.asListType().elementType())));
        return elements;
      case MAP:
        List<Object> pairs = new ArrayList<>();
        Types.MapType map = type.asMapType();
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
          List<Object> pair = new ArrayList<>();
          pair.add(encode(entry.getKey(), map.keyType()));
          pair.add(encode(entry.getValue(), map.valueType()));
          pairs.add(pair);
        }
        return pairs;
      default:
        throw new UnsupportedOperationException("No JSON form for values of type " + type);
    }
  }

  private static double number(JsonNode json) {
    return json.isTextual() ? Double.parseDouble(json.textValue()) : json.doubleValue();
  }

  private static byte[] bytes(JsonNode json) {
    return HexFormat.of().parseHex(json.textValue());
  }
}
