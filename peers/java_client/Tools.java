import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/** Kafka's command-line tools, by their main methods: a process for each would cost a second. */
final class Tools {
    private Tools() { }

    private static final class Ended extends RuntimeException {
        private final int status;

        Ended(int status) {
            this.status = status;
        }
    }

    static synchronized Object run(JsonNode request) throws Exception {
        List<String> arguments = new ArrayList<>();
        request.get("arguments").forEach(each -> arguments.add(each.asText()));
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        int status = 0;
        try (PrintStream captured = new PrintStream(said, true, "UTF-8")) {
            System.setOut(captured);
            System.setErr(captured);
            Exit.setExitProcedure((code, message) -> {
                throw new Ended(code);
            });
            Class.forName(request.get("main").asText()).getMethod("main", String[].class)
                .invoke(null, (Object) arguments.toArray(new String[0]));
        } catch (InvocationTargetException thrown) {
            if (thrown.getCause() instanceof Ended ended) {
                status = ended.status;
            } else {
                thrown.getCause().printStackTrace(new PrintStream(said, true, "UTF-8"));
                status = 1;
            }
        } finally {
            Exit.resetExitProcedure();
            System.setOut(out);
            System.setErr(err);
        }
        return Map.of("status", status, "said", said.toString("UTF-8"));
    }
}
