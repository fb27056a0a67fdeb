import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Members of consumer groups, by their number. */
final class Groups {
    private static final List<Member> MEMBERS = new CopyOnWriteArrayList<>();

    private Groups() { }

    static Map<String, Main.Operation> operations() {
        return Map.of(
            "join", Groups::join,
            "state", request -> member(request).state(),
            "commit", Groups::commit,
            "leave", request -> member(request).leave());
    }

    private static Member member(JsonNode request) {
        return MEMBERS.get(request.get("member").asInt());
    }

    private static synchronized Object join(JsonNode request) {
        MEMBERS.add(new Member(request));
        return MEMBERS.size() - 1;
    }

    private static Object commit(JsonNode request) throws Exception {
        JsonNode offsets = request.get("offsets");
        return member(request).commit(offsets == null || offsets.isNull() ? null : parse(offsets));
    }

    static Map<TopicPartition, OffsetAndMetadata> parse(JsonNode offsets) {
        Map<TopicPartition, OffsetAndMetadata> parsed = new java.util.HashMap<>();
        offsets.properties().forEach(each -> parsed.put(
            place(each.getKey()),
            new OffsetAndMetadata(each.getValue().get("offset").asLong(), each.getValue().get("metadata").asText())));
        return parsed;
    }

    static TopicPartition place(String text) {
        int cut = text.lastIndexOf(':');
        return new TopicPartition(text.substring(0, cut), Integer.parseInt(text.substring(cut + 1)));
    }

    static String place(TopicPartition place) {
        return place.topic() + ":" + place.partition();
    }
}
