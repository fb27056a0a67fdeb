import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Records to one partition and from one partition. */
final class Records {
    private static final Duration PATIENCE = Duration.ofSeconds(20);

    private Records() { }

    static Object produce(JsonNode request) throws Exception {
        Map<String, Object> configs = new HashMap<>();
        configs.put("bootstrap.servers", request.get("bootstrap").asText());
        configs.put("compression.type", request.get("codec").asText());
        configs.put("max.request.size", 2_000_000);
        configs.put("delivery.timeout.ms", 40_000);
        configs.put("request.timeout.ms", 20_000);
        request.get("settings").properties().forEach(
            each -> configs.put(each.getKey(), each.getValue().asText()));
        try (var producer = new KafkaProducer<>(configs, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<?>> answers = new ArrayList<>();
            for (JsonNode record : request.get("records")) {
                JsonNode time = record.get("timestamp");
                var sent = new ProducerRecord<>(
                    request.get("topic").asText(), request.get("partition").asInt(),
                    time.isNull() ? null : time.asLong(), bytes(record.get("key")), bytes(record.get("value")));
                for (JsonNode header : record.get("headers")) {
                    sent.headers().add(header.get("name").asText(), bytes(header.get("value")));
                }
                answers.add(producer.send(sent));
            }
            for (Future<?> answer : answers) {
                answer.get();
            }
        }
        return null;
    }

    static Object consume(JsonNode request) {
        Map<String, Object> configs = new HashMap<>();
        configs.put("bootstrap.servers", request.get("bootstrap").asText());
        configs.put("auto.offset.reset", "none");
        int count = request.get("count").asInt();
        List<Object> received = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(configs, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            var place = new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
            consumer.assign(List.of(place));
            consumer.seek(place, request.get("offset").asLong());
            while (received.size() < count) {
                var came = consumer.poll(PATIENCE);
                if (came.isEmpty()) {
                    throw new IllegalStateException(received.size() + " of " + count + " records came");
                }
                came.forEach(record -> received.add(show(record)));
            }
        }
        return received.subList(0, count);
    }

    private static Map<String, Object> show(ConsumerRecord<byte[], byte[]> record) {
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            Map<String, Object> shown = new HashMap<>();
            shown.put("name", header.key());
            shown.put("value", header.value());
            headers.add(shown);
        }
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("key", record.key());
        fields.put("value", record.value());
        fields.put("headers", headers);
        fields.put("timestamp", record.timestamp());
        fields.put("offset", record.offset());
        return fields;
    }

    private static byte[] bytes(JsonNode base64) {
        return base64.isNull()
            ? null
            : java.util.Base64.getDecoder().decode(base64.asText().getBytes(StandardCharsets.US_ASCII));
    }
}
