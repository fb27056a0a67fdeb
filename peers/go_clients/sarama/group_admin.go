package main

import (
	"errors"

	"github.com/IBM/sarama"

	"headwater.test/go_clients/lines"
)

func listGroups(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		groups, err := admin.ListConsumerGroups()
		listed := map[string]any{}
		for name := range groups {
			listed[name] = map[string]string{}
		}
		return listed, err
	})
}

func describeGroup(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		described, err := admin.DescribeConsumerGroups([]string{request.Group})
		if err != nil {
			return nil, err
		}
		group := described[0]
		if group.Err != sarama.ErrNoError {
			return nil, group.Err
		}
		assigned := map[string][]string{}
		for name, each := range group.Members {
			assignment, err := each.GetMemberAssignment()
			if err != nil {
				return nil, err
			}
			found := []string{}
			for topic, partitions := range assignment.Topics {
				for _, partition := range partitions {
					found = append(found, lines.Place(topic, partition))
				}
			}
			assigned[name] = found
		}
		return map[string]any{"state": group.State, "members": assigned}, nil
	})
}

func deleteGroup(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		return nil, admin.DeleteConsumerGroup(request.Group)
	})
}

func groupOffsets(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		answer, err := admin.ListConsumerGroupOffsets(request.Group, nil)
		if err != nil {
			return nil, err
		}
		offsets := map[string]lines.Committed{}
		for topic, partitions := range answer.Blocks {
			for partition, block := range partitions {
				if block.Err != sarama.ErrNoError {
					err = errors.Join(err, block.Err)
				}
				offsets[lines.Place(topic, partition)] =
					lines.Committed{Offset: block.Offset, Metadata: block.Metadata}
			}
		}
		return offsets, err
	})
}

func alterOffsets(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		wanted := map[string]map[int32]sarama.OffsetAndMetadata{}
		for place, committed := range request.Offsets {
			topic, partition := lines.ParsePlace(place)
			if wanted[topic] == nil {
				wanted[topic] = map[int32]sarama.OffsetAndMetadata{}
			}
			wanted[topic][partition] = sarama.OffsetAndMetadata{
				Offset: committed.Offset, Metadata: committed.Metadata, LeaderEpoch: -1,
			}
		}
		answer, err := admin.AlterConsumerGroupOffsets(request.Group, wanted, nil)
		if err != nil {
			return nil, err
		}
		for _, partitions := range answer.Errors {
			for _, code := range partitions {
				if code != sarama.ErrNoError {
					err = errors.Join(err, code)
				}
			}
		}
		return nil, err
	})
}

func deleteOffsets(request *lines.Request) (any, error) {
	return with(request, func(admin sarama.ClusterAdmin) (any, error) {
		return nil, admin.DeleteConsumerGroupOffset(request.Group, request.Topic, request.Partition)
	})
}
