package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"headwater.test/go_clients/lines"
)

type member struct {
	lines.Member
	client *kgo.Client
	done   chan struct{}
}

var members lines.Members[*member]

var balancers = map[string][]kgo.GroupOpt{
	"range":              {kgo.Balancers(kgo.RangeBalancer())},
	"roundrobin":         {kgo.Balancers(kgo.RoundRobinBalancer())},
	"sticky":             {kgo.Balancers(kgo.StickyBalancer())},
	"cooperative-sticky": {kgo.Balancers(kgo.CooperativeStickyBalancer())},
	"consumer":           {kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()},
}

func join(request *lines.Request) (any, error) {
	joined := &member{done: make(chan struct{})}
	options := []kgo.Opt{
		kgo.SeedBrokers(request.Bootstraps()...),
		kgo.ClientID("franz-go-member"),
		kgo.ConsumerGroup(request.Group),
		kgo.ConsumeTopics(request.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, came map[string][]int32) {
			joined.Assign(places(came))
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, lost map[string][]int32) {
			if request.AutoCommit {
				if err := client.CommitUncommittedOffsets(ctx); err != nil {
					joined.Fail(err)
				}
			}
			joined.Revoke(places(lost))
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			joined.Revoke(places(lost))
		}),
	}
	for _, option := range balancers[request.Kind] {
		options = append(options, option)
	}
	if request.Instance != "" {
		options = append(options, kgo.InstanceID(request.Instance))
	}
	if !request.AutoCommit {
		options = append(options, kgo.DisableAutoCommit())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	joined.client = client
	go joined.poll()
	return members.Add(joined), nil
}

func (m *member) poll() {
	defer close(m.done)
	for {
		fetches := m.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, context.Canceled) {
				m.Fail(err)
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			m.Receive(lines.Place(record.Topic, record.Partition), record.Offset, record.Value)
		})
	}
}

func places(partitions map[string][]int32) []string {
	named := []string{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			named = append(named, lines.Place(topic, number))
		}
	}
	return named
}

func state(request *lines.Request) (any, error) { return members.Get(request.Member).State(), nil }

func commit(request *lines.Request) (any, error) {
	committing := members.Get(request.Member)
	offsets := request.Offsets
	if offsets == nil {
		offsets = committing.Positions()
	}
	marked := map[string]map[int32]kgo.EpochOffset{}
	for place, committed := range offsets {
		topic, partition := lines.ParsePlace(place)
		if marked[topic] == nil {
			marked[topic] = map[int32]kgo.EpochOffset{}
		}
		marked[topic][partition] = kgo.EpochOffset{Epoch: -1, Offset: committed.Offset}
	}
	ctx, cancel := limited()
	defer cancel()
	// The metadata of an offset is set in the request itself: that is franz-go's way.
	ctx = kgo.PreCommitFnContext(ctx, func(sent *kmsg.OffsetCommitRequest) error {
		for t := range sent.Topics {
			for p := range sent.Topics[t].Partitions {
				partition := &sent.Topics[t].Partitions[p]
				metadata := offsets[lines.Place(sent.Topics[t].Topic, partition.Partition)].Metadata
				partition.Metadata = &metadata
			}
		}
		return nil
	})
	var failed error
	committing.client.CommitOffsetsSync(ctx, marked,
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			failed = err
			if answer == nil {
				return
			}
			for _, topic := range answer.Topics {
				for _, partition := range topic.Partitions {
					failed = errors.Join(failed, code(partition.ErrorCode))
				}
			}
		})
	return nil, failed
}

func leave(request *lines.Request) (any, error) {
	leaving := members.Get(request.Member)
	leaving.client.Close()
	<-leaving.done
	return nil, nil
}
