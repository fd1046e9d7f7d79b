import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.net.URI;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.Iterator;
import java.util.Map;
import java.util.TimeZone;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.ql.exec.vector.BytesColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DateColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.Decimal64ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DecimalColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DoubleColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ListColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MapColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.TimestampColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.UnionColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.OldWriter;
import org.apache.orc.OrcFile;
import org.apache.orc.TypeDescription;
import org.apache.orc.Writer;

/** ORC by its library for Java: a type as text, and rows as arrays of the values of their fields, or of one value. */
final class OrcFiles {
    private static final int BATCH_ROWS = 512;

    static void write(JsonNode job) throws IOException {
        TimeZone before = TimeZone.getDefault();
        TimeZone.setDefault(TimeZone.getTimeZone(job.get("zone").asText()));
        try {
            TypeDescription type = TypeDescription.fromString(job.get("schema").asText());
            try (Writer writer = OrcFile.createWriter(new Path(job.get("path").asText()), options(job, type))) {
                addRows(writer, type, job);
            }
        } finally {
            TimeZone.setDefault(before);
        }
    }

    private static OrcFile.WriterOptions options(JsonNode job, TypeDescription type) throws IOException {
        Configuration configuration = new Configuration(false);
        Iterator<Map.Entry<String, JsonNode>> properties = job.get("properties").fields();
        properties.forEachRemaining(each -> configuration.set(each.getKey(), each.getValue().asText()));
        RawLocalFileSystem files = new RawLocalFileSystem();
        files.initialize(URI.create("file:///"), configuration);
        OrcFile.WriterOptions options = OrcFile.writerOptions(configuration)
                .fileSystem(files)
                .setSchema(type)
                .useUTCTimestamp(job.get("utc").asBoolean());
        if (job.hasNonNull("writer_version")) {
            OldWriter.claim(options, OrcFile.WriterVersion.valueOf(job.get("writer_version").asText()));
        }
        return options;
    }

    private static void addRows(Writer writer, TypeDescription type, JsonNode job) throws IOException {
        boolean narrow = job.get("decimal_64").asBoolean();
        VectorizedRowBatch batch = narrow
                ? type.createRowBatch(TypeDescription.RowBatchVersion.USE_DECIMAL64, BATCH_ROWS)
                : type.createRowBatch(BATCH_ROWS);
        for (JsonNode row : job.get("rows")) {
            if (batch.size == BATCH_ROWS) {
                writer.addRowBatch(batch);
                batch.reset();
            }
            for (int i = 0; i < batch.numCols; i++) {
                boolean isStruct = type.getCategory() == TypeDescription.Category.STRUCT;
                set(batch.cols[i], batch.size, isStruct ? type.getChildren().get(i) : type, row.get(i), job);
            }
            batch.size++;
        }
        if (batch.size > 0) {
            writer.addRowBatch(batch);
        }
    }

    private static void set(ColumnVector vector, int row, TypeDescription type, JsonNode value, JsonNode job)
            throws IOException {
        if (value.isNull()) {
            vector.noNulls = false;
            vector.isNull[row] = true;
            return;
        }
        vector.isNull[row] = false;
        switch (type.getCategory()) {
            case BOOLEAN -> ((LongColumnVector) vector).vector[row] = value.asBoolean() ? 1 : 0;
            case BYTE, SHORT, INT, LONG -> ((LongColumnVector) vector).vector[row] = value.asLong();
            case DATE -> {
                DateColumnVector days = (DateColumnVector) vector;
                days.setUsingProlepticCalendar(true);
                days.vector[row] = value.asLong();
            }
            case FLOAT -> ((DoubleColumnVector) vector).vector[row] = Float.intBitsToFloat(value.asInt());
            case DOUBLE -> ((DoubleColumnVector) vector).vector[row] = Double.longBitsToDouble(value.asLong());
            case STRING, VARCHAR, CHAR, BINARY -> ((BytesColumnVector) vector).setVal(row, value.binaryValue());
            case DECIMAL -> setDecimal(vector, row, HiveDecimal.create(value.asText()));
            case TIMESTAMP -> setMoment((TimestampColumnVector) vector, row, value.asLong(), job.get("utc").asBoolean());
            case TIMESTAMP_INSTANT -> setMoment((TimestampColumnVector) vector, row, value.asLong(), true);
            case STRUCT -> {
                for (int i = 0; i < type.getChildren().size(); i++) {
                    ColumnVector field = ((StructColumnVector) vector).fields[i];
                    set(field, row, type.getChildren().get(i), value.get(i), job);
                }
            }
            case LIST -> {
                ListColumnVector lists = (ListColumnVector) vector;
                lists.offsets[row] = lists.childCount;
                lists.lengths[row] = value.size();
                lists.childCount += value.size();
                lists.child.ensureSize(lists.childCount, true);
                for (int i = 0; i < value.size(); i++) {
                    set(lists.child, (int) lists.offsets[row] + i, type.getChildren().get(0), value.get(i), job);
                }
            }
            case MAP -> {
                MapColumnVector maps = (MapColumnVector) vector;
                maps.offsets[row] = maps.childCount;
                maps.lengths[row] = value.size();
                maps.childCount += value.size();
                maps.keys.ensureSize(maps.childCount, true);
                maps.values.ensureSize(maps.childCount, true);
                for (int i = 0; i < value.size(); i++) {
                    int at = (int) maps.offsets[row] + i;
                    set(maps.keys, at, type.getChildren().get(0), value.get(i).get(0), job);
                    set(maps.values, at, type.getChildren().get(1), value.get(i).get(1), job);
                }
            }
            case UNION -> {
                UnionColumnVector unions = (UnionColumnVector) vector;
                int tag = value.get(0).asInt();
                unions.tags[row] = tag;
                set(unions.fields[tag], row, type.getChildren().get(tag), value.get(1), job);
            }
            default -> throw new IllegalArgumentException(type.toString());
        }
    }

    private static void setDecimal(ColumnVector vector, int row, HiveDecimal value) {
        if (vector instanceof Decimal64ColumnVector narrow) {
            narrow.set(row, value);
        } else {
            ((DecimalColumnVector) vector).set(row, value);
        }
    }

    /** A moment in microseconds; one without a zone is what clocks show in the zone of the writer. */
    private static void setMoment(TimestampColumnVector vector, int row, long micros, boolean utc) {
        long seconds = Math.floorDiv(micros, 1_000_000L);
        if (!utc) {
            LocalDateTime shown = LocalDateTime.ofEpochSecond(seconds, 0, ZoneOffset.UTC);
            seconds = shown.atZone(ZoneId.of(TimeZone.getDefault().getID())).toEpochSecond();
        }
        long inSecond = Math.floorMod(micros, 1_000_000L);
        vector.setIsUTC(utc);
        vector.setUsingProlepticCalendar(true);
        vector.time[row] = seconds * 1000 + inSecond / 1000;
        vector.nanos[row] = (int) inSecond * 1000;
    }
}
