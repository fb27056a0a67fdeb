package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"headwater.test/go_clients/lines"
)

func code(number int16) error { return kerr.ErrorForCode(number) }

func with[T any](request *lines.Request, call func(context.Context, *kadm.Client) (T, error)) (T, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(request.Bootstraps()...))
	if err != nil {
		var none T
		return none, err
	}
	defer client.Close()
	ctx, cancel := limited()
	defer cancel()
	return call(ctx, kadm.NewClient(client))
}

func createTopic(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		configs := map[string]*string{}
		for name, value := range request.Configs {
			configs[name] = kadm.StringPtr(value)
		}
		_, err := admin.CreateTopic(ctx, request.Partitions, 1, configs, request.Topic)
		return nil, err
	})
}

func growTopic(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		done, err := admin.UpdatePartitions(ctx, int(request.Partitions), request.Topic)
		if err != nil {
			return nil, err
		}
		return nil, done.Error()
	})
}

func countPartitions(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		topics, err := admin.ListTopics(ctx, request.Topic)
		return len(topics[request.Topic].Partitions), err
	})
}

func listTopics(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		topics, err := admin.ListTopics(ctx)
		return topics.Names(), err
	})
}

func deleteTopic(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		done, err := admin.DeleteTopics(ctx, request.Topic)
		if err != nil {
			return nil, err
		}
		return nil, done.Error()
	})
}

func named(configs kadm.ResourceConfigs, name string, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	resource, err := configs.On(name, nil)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, each := range resource.Configs {
		values[each.Key] = each.MaybeValue()
	}
	return values, resource.Err
}

func describeConfigs(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		configs, err := admin.DescribeTopicConfigs(ctx, request.Topic)
		return named(configs, request.Topic, err)
	})
}

func brokerConfigs(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		configs, err := admin.DescribeBrokerConfigs(ctx, request.Broker)
		return named(configs, fmt.Sprint(request.Broker), err)
	})
}

func alterConfigs(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		changes := []kadm.AlterConfig{}
		for name, value := range request.Configs {
			changes = append(changes, kadm.AlterConfig{Name: name, Value: kadm.StringPtr(value)})
		}
		done, err := admin.AlterTopicConfigs(ctx, changes, request.Topic)
		if err != nil {
			return nil, err
		}
		return nil, done[0].Err
	})
}

func configResources(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		listed, err := admin.ListConfigResources(ctx)
		names := []string{}
		for _, each := range listed.Resources {
			names = append(names, each.Name)
		}
		return names, err
	})
}

func deleteRecords(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		upto := kadm.Offsets{}
		upto.AddOffset(request.Topic, request.Partition, request.Offset, -1)
		done, err := admin.DeleteRecords(ctx, upto)
		if err != nil {
			return nil, err
		}
		answer := done[request.Topic][request.Partition]
		return answer.LowWatermark, answer.Err
	})
}

func cluster(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		metadata, err := admin.BrokerMetadata(ctx)
		brokers := []map[string]any{}
		for _, broker := range metadata.Brokers {
			address := fmt.Sprintf("%s:%d", broker.Host, broker.Port)
			brokers = append(brokers, map[string]any{"id": broker.NodeID, "address": address})
		}
		return brokers, err
	})
}

func findOffset(request *lines.Request) (any, error) {
	return with(request, func(ctx context.Context, admin *kadm.Client) (any, error) {
		var listed kadm.ListedOffsets
		var err error
		switch request.Time {
		case -1:
			listed, err = admin.ListEndOffsets(ctx, request.Topic)
		case -2:
			listed, err = admin.ListStartOffsets(ctx, request.Topic)
		case -3:
			listed, err = admin.ListMaxTimestampOffsets(ctx, request.Topic)
		default:
			listed, err = admin.ListOffsetsAfterMilli(ctx, request.Time, request.Topic)
		}
		found := listed[request.Topic][request.Partition]
		if err == nil {
			err = found.Err
		}
		return found.Offset, err
	})
}
