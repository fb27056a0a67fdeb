package main

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"headwater.test/go_clients/lines"
)

func listGroups(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		groups, err := admin.ListGroups(ctx)
		listed := map[string]any{}
		for name, group := range groups {
			listed[name] = map[string]string{"state": group.State}
		}
		return listed, err
	})
}

// describeGroup asks for a consumer group first, and for a classic one where it is none.
func describeGroup(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		assigned := map[string][]string{}
		described, err := admin.DescribeConsumerGroups(ctx, request.Group)
		if err != nil {
			return nil, err
		}
		if group := described[request.Group]; group.Err == nil {
			for _, each := range group.Members {
				assigned[each.MemberID] = set(each.Assignment)
			}
			return map[string]any{"state": group.State, "members": assigned}, nil
		} else if !errors.Is(group.Err, kerr.GroupIDNotFound) {
			return nil, group.Err
		}
		classic, err := admin.DescribeGroups(ctx, request.Group)
		if err != nil {
			return nil, err
		}
		group := classic[request.Group]
		for _, each := range group.Members {
			assignment, _ := each.Assigned.AsConsumer()
			found := []string{}
			for _, topic := range assignment.Topics {
				for _, partition := range topic.Partitions {
					found = append(found, lines.Place(topic.Topic, partition))
				}
			}
			assigned[each.MemberID] = found
		}
		return map[string]any{"state": group.State, "members": assigned}, group.Err
	})
}

func set(assignment kadm.TopicsSet) []string {
	found := []string{}
	assignment.Each(func(topic string, partition int32) {
		found = append(found, lines.Place(topic, partition))
	})
	return found
}

func deleteGroup(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		done, err := admin.DeleteGroups(ctx, request.Group)
		if err != nil {
			return nil, err
		}
		return nil, done.Error()
	})
}

func groupOffsets(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		fetched, err := admin.FetchOffsets(ctx, request.Group)
		offsets := map[string]lines.Committed{}
		fetched.Each(func(each kadm.OffsetResponse) {
			err = errors.Join(err, each.Err)
			offsets[lines.Place(each.Topic, each.Partition)] =
				lines.Committed{Offset: each.At, Metadata: each.Metadata}
		})
		return offsets, err
	})
}

func alterOffsets(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		wanted := kadm.Offsets{}
		for place, committed := range request.Offsets {
			topic, partition := lines.ParsePlace(place)
			wanted.Add(kadm.Offset{
				Topic: topic, Partition: partition, At: committed.Offset,
				LeaderEpoch: -1, Metadata: committed.Metadata,
			})
		}
		return nil, admin.CommitAllOffsets(ctx, request.Group, wanted)
	})
}

func deleteOffsets(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		wanted := kadm.TopicsSet{}
		wanted.Add(request.Topic, request.Partition)
		done, err := admin.DeleteOffsets(ctx, request.Group, wanted)
		if err != nil {
			return nil, err
		}
		return nil, done.Error()
	})
}
