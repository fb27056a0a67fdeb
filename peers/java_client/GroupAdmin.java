import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;

/** Groups and their offsets. */
final class GroupAdmin {
    private GroupAdmin() { }

    static Map<String, Main.Operation> operations() {
        return Map.of(
            "list_groups", TopicAdmin.with(GroupAdmin::list),
            "describe_group", TopicAdmin.with(GroupAdmin::describe),
            "delete_group", TopicAdmin.with((admin, request) ->
                admin.deleteConsumerGroups(List.of(group(request))).all().get()),
            "group_offsets", TopicAdmin.with(GroupAdmin::offsets),
            "alter_offsets", TopicAdmin.with((admin, request) -> admin.alterConsumerGroupOffsets(
                group(request), Groups.parse(request.get("offsets"))).all().get()),
            "delete_offsets", TopicAdmin.with((admin, request) -> admin.deleteConsumerGroupOffsets(
                group(request), Set.of(TopicAdmin.place(request))).all().get()));
    }

    private static String group(JsonNode request) {
        return request.get("group").asText();
    }

    private static Object list(Admin admin, JsonNode request) throws Exception {
        Map<String, Object> listed = new HashMap<>();
        admin.listGroups().all().get().forEach(each -> listed.put(each.groupId(), Map.of(
            "state", each.groupState().map(Object::toString).orElse(""),
            "type", each.type().map(Object::toString).orElse(""))));
        return listed;
    }

    private static Object describe(Admin admin, JsonNode request) throws Exception {
        var described = admin.describeConsumerGroups(List.of(group(request))).all().get().get(group(request));
        Map<String, Object> members = new HashMap<>();
        described.members().forEach(each -> members.put(each.consumerId(),
            each.assignment().topicPartitions().stream().map(Groups::place).toList()));
        return Map.of("state", described.groupState().toString(), "members", members);
    }

    private static Object offsets(Admin admin, JsonNode request) throws Exception {
        Map<String, Object> shown = new HashMap<>();
        admin.listConsumerGroupOffsets(Map.of(group(request), new ListConsumerGroupOffsetsSpec()))
            .partitionsToOffsetAndMetadata(group(request)).get()
            .forEach((place, committed) -> shown.put(Groups.place(place), Map.of(
                "offset", committed.offset(), "metadata", committed.metadata())));
        return shown;
    }
}
