import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.FutureTask;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** One member of a group. A consumer belongs to one thread, so everything is done there. */
final class Member implements ConsumerRebalanceListener, Runnable {
    private final KafkaConsumer<String, String> consumer;
    private final Thread thread = new Thread(this, "member");
    private final ConcurrentLinkedQueue<FutureTask<?>> tasks = new ConcurrentLinkedQueue<>();
    private final Set<String> assigned = new TreeSet<>();
    private final List<Object> received = new ArrayList<>();
    private int rebalances;
    private String error = "";
    private volatile boolean leaving;

    Member(JsonNode request) {
        Map<String, Object> configs = new HashMap<>();
        configs.put("bootstrap.servers", request.get("bootstrap").asText());
        configs.put("client.id", "java-member");
        configs.put("group.id", request.get("group").asText());
        configs.put("auto.offset.reset", "earliest");
        configs.put("enable.auto.commit", request.get("auto_commit").asBoolean());
        if (!request.get("instance").asText().isEmpty()) {
            configs.put("group.instance.id", request.get("instance").asText());
        }
        String kind = request.get("kind").asText();
        if (kind.startsWith("consumer")) {
            configs.put("group.protocol", "consumer");
            if (kind.contains("/")) {
                configs.put("group.remote.assignor", kind.substring(kind.indexOf('/') + 1));
            }
        } else {
            configs.put("heartbeat.interval.ms", 500);
            configs.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + switch (kind) {
                case "range" -> "RangeAssignor";
                case "roundrobin" -> "RoundRobinAssignor";
                case "sticky" -> "StickyAssignor";
                case "cooperative-sticky" -> "CooperativeStickyAssignor";
                default -> throw new UnsupportedOperationException("not offered: " + kind);
            });
        }
        consumer = new KafkaConsumer<>(configs, new StringDeserializer(), new StringDeserializer());
        String topic = request.get("topic").asText();
        if (!topic.startsWith("^")) {
            consumer.subscribe(List.of(topic), this);
        } else if (kind.startsWith("consumer")) {
            consumer.subscribe(new SubscriptionPattern(topic), this);
        } else {
            consumer.subscribe(Pattern.compile(topic), this);
        }
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void run() {
        while (!leaving) {
            try {
                var came = consumer.poll(Duration.ofMillis(50));
                synchronized (this) {
                    came.forEach(record -> received.add(List.of(
                        record.topic() + ":" + record.partition(), record.offset(), record.value())));
                }
            } catch (RuntimeException failed) {
                synchronized (this) {
                    error = failed.toString();
                }
            }
            for (FutureTask<?> task = tasks.poll(); task != null; task = tasks.poll()) {
                task.run();
            }
        }
        consumer.close();
    }

    @Override
    public synchronized void onPartitionsAssigned(Collection<TopicPartition> came) {
        rebalances++;
        came.forEach(each -> assigned.add(Groups.place(each)));
    }

    @Override
    public synchronized void onPartitionsRevoked(Collection<TopicPartition> lost) {
        lost.forEach(each -> assigned.remove(Groups.place(each)));
    }

    synchronized Object state() {
        return Map.of(
            "assigned", List.copyOf(assigned), "received", List.copyOf(received),
            "rebalances", rebalances, "error", error);
    }

    Object commit(Map<TopicPartition, OffsetAndMetadata> offsets) throws Exception {
        return inThread(() -> {
            if (offsets == null) {
                consumer.commitSync();
            } else {
                consumer.commitSync(offsets);
            }
            return null;
        });
    }

    private Object inThread(Callable<Object> call) throws Exception {
        FutureTask<Object> task = new FutureTask<>(call);
        tasks.add(task);
        return task.get();
    }

    Object leave() throws InterruptedException {
        leaving = true;
        thread.join();
        return null;
    }
}
