import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** Writes one file for each line of JSON, and answers each with a line of JSON. */
public final class Corpus {
    private static final ObjectMapper JSON = new ObjectMapper();

    private interface Writer {
        void write(JsonNode job) throws Exception;
    }

    private static final Map<String, Writer> WRITERS =
            Map.of("parquet", ParquetFiles::write, "orc", OrcFiles::write, "avro", AvroFiles::write);

    public static void main(String[] arguments) throws Exception {
        // Libraries print to the standard output, which belongs to the answers.
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader jobs = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = jobs.readLine(); line != null; line = jobs.readLine()) {
            answers.println(JSON.writeValueAsString(answer(line)));
            answers.flush();
        }
    }

    private static Map<String, String> answer(String line) {
        try {
            JsonNode job = JSON.readTree(line);
            WRITERS.get(job.get("do").asText()).write(job);
            return Map.of();
        } catch (Throwable error) {
            StringWriter trace = new StringWriter();
            error.printStackTrace(new PrintWriter(trace));
            return Map.of("error", error.toString(), "trace", trace.toString());
        }
    }
}
