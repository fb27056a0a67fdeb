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

    /** A tool ends by an exit, and some catch what is thrown there: only the first one counts. */
    private static final class Ending {
        private Integer status;
        private int length;

        synchronized void end(int code, ByteArrayOutputStream said) {
            if (status == null) {
                status = code;
                length = said.size();
            }
            throw new IllegalStateException("the tool has ended");
        }
    }

    static synchronized Object run(JsonNode request) throws Exception {
        List<String> arguments = new ArrayList<>();
        request.get("arguments").forEach(each -> arguments.add(each.asText()));
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        Ending ending = new Ending();
        Throwable failure = null;
        try (PrintStream captured = new PrintStream(said, true, "UTF-8")) {
            System.setOut(captured);
            System.setErr(captured);
            Exit.setExitProcedure((code, message) -> ending.end(code, said));
            Class.forName(request.get("main").asText()).getMethod("main", String[].class)
                .invoke(null, (Object) arguments.toArray(new String[0]));
        } catch (InvocationTargetException thrown) {
            failure = thrown.getCause();
        } finally {
            Exit.resetExitProcedure();
            System.setOut(out);
            System.setErr(err);
        }
        String text = said.toString("UTF-8");
        if (ending.status != null) {
            text = new String(said.toByteArray(), 0, ending.length, "UTF-8");
            return Map.of("status", ending.status, "said", text);
        }
        return Map.of("status", failure == null ? 0 : 1, "said", failure == null ? text : text + failure);
    }
}
