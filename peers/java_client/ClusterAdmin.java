import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;

/** What is asked of the cluster as a whole: brokers, quotas, disks, producers, leaders. */
final class ClusterAdmin {
    private ClusterAdmin() { }

    static Map<String, Main.Operation> operations() {
        Map<String, Main.Operation> operations = new HashMap<>();
        operations.put("cluster", TopicAdmin.with((admin, request) -> admin.describeCluster().nodes().get().stream()
            .map(node -> Map.of("id", node.id(), "address", node.host() + ":" + node.port())).toList()));
        operations.put("set_quota", TopicAdmin.with(ClusterAdmin::setQuota));
        operations.put("quotas", TopicAdmin.with(ClusterAdmin::quotas));
        operations.put("log_dirs", TopicAdmin.with(ClusterAdmin::logDirs));
        operations.put("producers", TopicAdmin.with((admin, request) ->
            admin.describeProducers(List.of(TopicAdmin.place(request)))
                .partitionResult(TopicAdmin.place(request)).get().activeProducers().stream()
                .map(each -> Map.of("producer", each.producerId(), "epoch", each.producerEpoch(),
                    "sequence", each.lastSequence())).toList()));
        operations.put("transactions", TopicAdmin.with((admin, request) ->
            admin.listTransactions().all().get().stream().map(TransactionListing::transactionalId).toList()));
        operations.put("elect_leader", TopicAdmin.with((admin, request) -> {
            var done = admin.electLeaders(ElectionType.PREFERRED, Set.of(TopicAdmin.place(request)))
                .partitions().get().get(TopicAdmin.place(request));
            if (done != null && done.isPresent()) {
                throw new IllegalStateException(done.get());
            }
            return null;
        }));
        operations.put("reassign", TopicAdmin.with((admin, request) ->
            admin.alterPartitionReassignments(Map.of(TopicAdmin.place(request), Optional.of(
                new NewPartitionReassignment(List.of(request.get("broker").asInt()))))).all().get()));
        operations.put("list_reassignments", TopicAdmin.with((admin, request) ->
            admin.listPartitionReassignments(Set.of(TopicAdmin.place(request))).reassignments().get()
                .keySet().stream().map(Groups::place).toList()));
        return operations;
    }

    private static Object setQuota(Admin admin, JsonNode request) throws Exception {
        var entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, request.get("client").asText()));
        var change = new ClientQuotaAlteration.Op("producer_byte_rate", request.get("rate").asDouble());
        return admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(change)))).all().get();
    }

    private static Object quotas(Admin admin, JsonNode request) throws Exception {
        var wanted = ClientQuotaFilterComponent.ofEntity(
            ClientQuotaEntity.CLIENT_ID, request.get("client").asText());
        Map<String, Double> found = new HashMap<>();
        admin.describeClientQuotas(ClientQuotaFilter.containsOnly(List.of(wanted))).entities().get()
            .values().forEach(found::putAll);
        return found;
    }

    private static Object logDirs(Admin admin, JsonNode request) throws Exception {
        Map<String, Long> sizes = new HashMap<>();
        admin.describeLogDirs(List.of(request.get("broker").asInt())).allDescriptions().get().values()
            .forEach(folders -> folders.values().forEach(folder -> folder.replicaInfos()
                .forEach((place, replica) -> sizes.put(Groups.place(place), replica.size()))));
        return sizes;
    }
}
