import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;

/** Topics, their configurations and their offsets. */
final class TopicAdmin {
    private TopicAdmin() { }

    interface Call {
        Object answer(Admin admin, JsonNode request) throws Exception;
    }

    static Main.Operation with(Call call) {
        return request -> {
            try (Admin admin = Admin.create(Map.of("bootstrap.servers", request.get("bootstrap").asText()))) {
                return call.answer(admin, request);
            }
        };
    }

    static TopicPartition place(JsonNode request) {
        return new TopicPartition(topic(request), request.get("partition").asInt());
    }

    static String topic(JsonNode request) {
        return request.get("topic").asText();
    }

    static Map<String, Main.Operation> operations() {
        Map<String, Main.Operation> operations = new HashMap<>();
        operations.put("create_topic", with(TopicAdmin::create));
        operations.put("grow_topic", with((admin, request) -> admin.createPartitions(Map.of(
            topic(request), NewPartitions.increaseTo(request.get("partitions").asInt()))).all().get()));
        operations.put("count_partitions", with((admin, request) ->
            admin.describeTopics(List.of(topic(request))).allTopicNames().get()
                .get(topic(request)).partitions().size()));
        operations.put("topic_id", with((admin, request) ->
            admin.describeTopics(List.of(topic(request))).allTopicNames().get()
                .get(topic(request)).topicId().toString()));
        operations.put("describe_topic_by_id", with((admin, request) -> {
            Uuid id = Uuid.fromString(request.get("topic_id").asText());
            var topic = admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id);
            return Map.of("name", topic.name(), "partitions", topic.partitions().size());
        }));
        operations.put("delete_topic_by_id", with((admin, request) -> admin.deleteTopics(
            TopicCollection.ofTopicIds(List.of(Uuid.fromString(request.get("topic_id").asText())))).all().get()));
        operations.put("list_topics", with((admin, request) -> admin.listTopics().names().get()));
        operations.put("delete_topic", with((admin, request) ->
            admin.deleteTopics(List.of(topic(request))).all().get()));
        operations.put("describe_configs", with((admin, request) ->
            configs(admin, new ConfigResource(ConfigResource.Type.TOPIC, topic(request)))));
        operations.put("broker_configs", with((admin, request) ->
            configs(admin, new ConfigResource(ConfigResource.Type.BROKER, request.get("broker").asText()))));
        operations.put("alter_configs", with(TopicAdmin::alter));
        operations.put("config_resources", with((admin, request) ->
            admin.listConfigResources().all().get().stream().map(ConfigResource::name).toList()));
        operations.put("delete_records", with((admin, request) -> admin.deleteRecords(Map.of(
            place(request), RecordsToDelete.beforeOffset(request.get("offset").asLong())))
            .lowWatermarks().get(place(request)).get().lowWatermark()));
        operations.put("find_offset", with((admin, request) -> admin.listOffsets(Map.of(
            place(request), spec(request.get("time").asLong()))).partitionResult(place(request)).get().offset()));
        return operations;
    }

    private static Object create(Admin admin, JsonNode request) throws Exception {
        Map<String, String> configs = new HashMap<>();
        request.get("configs").properties().forEach(
            each -> configs.put(each.getKey(), each.getValue().asText()));
        var topic = new NewTopic(topic(request), Optional.of(request.get("partitions").asInt()), Optional.empty());
        return admin.createTopics(List.of(topic.configs(configs))).all().get();
    }

    private static Object configs(Admin admin, ConfigResource resource) throws Exception {
        Map<String, String> values = new HashMap<>();
        admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()
            .forEach(entry -> values.put(entry.name(), entry.value()));
        return values;
    }

    private static Object alter(Admin admin, JsonNode request) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        request.get("configs").properties().forEach(each -> changes.add(new AlterConfigOp(
            new ConfigEntry(each.getKey(), each.getValue().asText()), AlterConfigOp.OpType.SET)));
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic(request));
        return admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
    }

    private static OffsetSpec spec(long time) {
        if (time == -1) {
            return OffsetSpec.latest();
        } else if (time == -2) {
            return OffsetSpec.earliest();
        } else if (time == -3) {
            return OffsetSpec.maxTimestamp();
        } else {
            return OffsetSpec.forTimestamp(time);
        }
    }
}
