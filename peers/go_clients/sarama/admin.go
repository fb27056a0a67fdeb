package main

import (
	"errors"
	"fmt"

	"github.com/IBM/sarama"

	"headwater.test/go_clients/lines"
)

func with(request *lines.Request, call func(sarama.ClusterAdmin) (any, error)) (any, error) {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	admin, err := sarama.NewClusterAdmin(request.Bootstraps(), config)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	return call(admin)
}

func createTopic(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		detail := &sarama.TopicDetail{
			NumPartitions: request.Partitions, ReplicationFactor: 1, ConfigEntries: map[string]*string{},
		}
		for name, value := range request.Configs {
			detail.ConfigEntries[name] = &value
		}
		return nil, admin.CreateTopic(request.Topic, detail, false)
	})
}

func growTopic(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		return nil, admin.CreatePartitions(request.Topic, request.Partitions, nil, false)
	})
}

func countPartitions(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		described, err := admin.DescribeTopics([]string{request.Topic})
		if err != nil {
			return nil, err
		}
		return len(described[0].Partitions), nil
	})
}

func listTopics(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		topics, err := admin.ListTopics()
		names := []string{}
		for name := range topics {
			names = append(names, name)
		}
		return names, err
	})
}

func deleteTopic(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		return nil, admin.DeleteTopic(request.Topic)
	})
}

func configs(request *lines.Request, kind sarama.ConfigResourceType, name string) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: kind, Name: name})
		values := map[string]string{}
		for _, entry := range entries {
			values[entry.Name] = entry.Value
		}
		return values, err
	})
}

func describeConfigs(request *lines.Request) (any, error) {
	return configs(request, sarama.TopicResource, request.Topic)
}

func brokerConfigs(request *lines.Request) (any, error) {
	return configs(request, sarama.BrokerResource, fmt.Sprint(request.Broker))
}

func alterConfigs(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		entries := map[string]sarama.IncrementalAlterConfigsEntry{}
		for name, value := range request.Configs {
			entries[name] = sarama.IncrementalAlterConfigsEntry{
				Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value,
			}
		}
		return nil, admin.IncrementalAlterConfig(sarama.TopicResource, request.Topic, entries, false)
	})
}

func deleteRecords(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		upto := map[int32]int64{request.Partition: request.Offset}
		return request.Offset, admin.DeleteRecords(request.Topic, upto)
	})
}

func cluster(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		brokers, _, err := admin.DescribeCluster()
		found := []map[string]any{}
		for _, broker := range brokers {
			found = append(found, map[string]any{"id": broker.ID(), "address": broker.Addr()})
		}
		return found, err
	})
}

func findOffset(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		asked := map[string]map[int32]int64{request.Topic: {request.Partition: request.Time}}
		found, err := admin.ListOffsets(asked, nil)
		if err != nil {
			return nil, err
		}
		offset := found[request.Topic][request.Partition]
		if !errors.Is(offset.Err, sarama.ErrNoError) {
			err = offset.Err
		}
		return offset.Offset, err
	})
}

func setQuota(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		entity := []sarama.QuotaEntityComponent{{
			EntityType: sarama.QuotaEntityClientID, MatchType: sarama.QuotaMatchExact, Name: request.Client,
		}}
		op := sarama.ClientQuotasOp{Key: "producer_byte_rate", Value: request.Rate}
		return nil, admin.AlterClientQuotas(entity, op, false)
	})
}

func quotas(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		filter := []sarama.QuotaFilterComponent{{
			EntityType: sarama.QuotaEntityClientID, MatchType: sarama.QuotaMatchExact, Match: request.Client,
		}}
		described, err := admin.DescribeClientQuotas(filter, true)
		found := map[string]float64{}
		for _, entry := range described {
			for name, value := range entry.Values {
				found[name] = value
			}
		}
		return found, err
	})
}

func logDirs(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		all, err := admin.DescribeLogDirs([]int32{request.Broker})
		sizes := map[string]int64{}
		for _, dirs := range all {
			for _, dir := range dirs {
				if dir.ErrorCode != sarama.ErrNoError {
					err = errors.Join(err, dir.ErrorCode)
				}
				for _, topic := range dir.Topics {
					for _, partition := range topic.Partitions {
						sizes[lines.Place(topic.Topic, partition.PartitionID)] = partition.Size
					}
				}
			}
		}
		return sizes, err
	})
}

func electLeader(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		asked := map[string][]int32{request.Topic: {request.Partition}}
		done, err := admin.ElectLeaders(sarama.PreferredElection, asked)
		if err != nil {
			return nil, err
		}
		result := done[request.Topic][request.Partition]
		if result == nil || result.ErrorCode == sarama.ErrNoError {
			return nil, nil
		}
		return nil, result.ErrorCode
	})
}

func reassign(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		return nil, admin.AlterPartitionReassignments(request.Topic, [][]int32{{request.Broker}})
	})
}

func listReassignments(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		listed, err := admin.ListPartitionReassignments(request.Topic, []int32{request.Partition})
		found := []string{}
		for topic, partitions := range listed {
			for partition := range partitions {
				found = append(found, lines.Place(topic, partition))
			}
		}
		return found, err
	})
}
