// The Sarama client as a program that is driven by JSON lines.
package main

import "headwater.test/go_clients/lines"

func main() {
	lines.Serve(map[string]lines.Operation{
		"produce": produce,
		"consume": consume,

		"join":   join,
		"state":  state,
		"commit": commit,
		"leave":  leave,

		"create_topic":     createTopic,
		"grow_topic":       growTopic,
		"count_partitions": countPartitions,
		"list_topics":      listTopics,
		"delete_topic":     deleteTopic,
		"describe_configs": describeConfigs,
		"alter_configs":    alterConfigs,
		"broker_configs":   brokerConfigs,
		"delete_records":   deleteRecords,
		"cluster":          cluster,
		"find_offset":      findOffset,

		"list_groups":    listGroups,
		"describe_group": describeGroup,
		"delete_group":   deleteGroup,
		"group_offsets":  groupOffsets,
		"alter_offsets":  alterOffsets,
		"delete_offsets": deleteOffsets,

		"set_quota":          setQuota,
		"quotas":             quotas,
		"log_dirs":           logDirs,
		"elect_leader":       electLeader,
		"reassign":           reassign,
		"list_reassignments": listReassignments,
	})
}
