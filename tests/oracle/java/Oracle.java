import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import smfs.shaded.org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import smfs.shaded.org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;

/** Iceberg's own library as a servant: one job per line of JSON comes in, one answer per line goes out. */
public final class Oracle {
  private static final ObjectMapper JSON = new ObjectMapper();

  private Oracle() {}

  public static void main(String[] arguments) throws IOException {
    PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    // Libraries that print would break the protocol.
    System.setOut(System.err);
    BufferedReader jobs = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = jobs.readLine(); line != null; line = jobs.readLine()) {
      answers.println(JSON.writeValueAsString(answer(line)));
    }
  }

  private static Map<String, Object> answer(String line) {
    try {
      return perform(JSON.readTree(line));
    } catch (Exception | LinkageError failure) {
      StringWriter trace = new StringWriter();
      failure.printStackTrace(new PrintWriter(trace));
      return Map.of("error", String.valueOf(failure), "trace", trace.toString());
    }
  }

  private static Map<String, Object> perform(JsonNode job) throws IOException {
    String wish = job.get("do").textValue();
    switch (wish) {
      case "create":
        return Evolving.create(job);
      case "evolve":
        return Evolving.evolve(job);
      case "commit":
        return Writing.commit(job);
      case "read":
        return Reading.rows(job);
      case "plan":
        return Reading.plan(job);
      case "puffin":
        return Reading.puffin(job);
      default:
        throw new IllegalArgumentException("No such job: " + wish);
    }
  }
}
