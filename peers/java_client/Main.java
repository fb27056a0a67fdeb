import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Kafka's Java client as a program that is driven by JSON lines; peers/driver.py says what it takes.
 *
 * Requests run side by side, because a member of a group may wait for another one's request.
 */
public final class Main {
    static final ObjectMapper JSON = new ObjectMapper();

    interface Operation {
        Object answer(JsonNode request) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Operation> operations = new HashMap<>();
        operations.put("produce", Records::produce);
        operations.put("consume", Records::consume);
        operations.putAll(Groups.operations());
        operations.putAll(TopicAdmin.operations());
        operations.putAll(GroupAdmin.operations());
        operations.putAll(ClusterAdmin.operations());
        operations.put("tool", Tools::run);

        PrintStream out = System.out;
        ExecutorService workers = Executors.newCachedThreadPool();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"), 1 << 20);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode request = JSON.readTree(line);
            workers.submit(() -> {
                byte[] answer = JSON.writeValueAsBytes(answer(operations, request));
                synchronized (out) {
                    out.write(answer);
                    out.write('\n');
                    out.flush();
                }
                return null;
            });
        }
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Object> answer(Map<String, Operation> operations, JsonNode request) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", request.get("id").asInt());
        Operation operation = operations.get(request.get("op").asText());
        try {
            if (operation == null) {
                throw new UnsupportedOperationException("not offered: " + request.get("op"));
            }
            answer.put("value", operation.answer(request));
        } catch (ExecutionException failed) {
            answer.put("error", String.valueOf(failed.getCause()));
        } catch (Throwable failed) {
            answer.put("error", String.valueOf(failed));
        }
        return answer;
    }
}
