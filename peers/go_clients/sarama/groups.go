package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"

	"headwater.test/go_clients/lines"
)

type member struct {
	lines.Member
	group   sarama.ConsumerGroup
	cancel  context.CancelFunc
	done    chan struct{}
	session sarama.ConsumerGroupSession
}

var members lines.Members[*member]

func strategy(kind string) sarama.BalanceStrategy {
	switch kind {
	case "range":
		return sarama.NewBalanceStrategyRange()
	case "roundrobin":
		return sarama.NewBalanceStrategyRoundRobin()
	case "sticky":
		return sarama.NewBalanceStrategySticky()
	case "cooperative-sticky":
		return sarama.NewBalanceStrategyCooperativeSticky()
	default:
		panic("not offered: " + kind)
	}
}

func join(request *lines.Request) (any, error) {
	config := sarama.NewConfig()
	config.ClientID = "sarama-member"
	if request.Kind != "range" { // that one is the default, and so is the version that goes with it
		config.Version = sarama.MaxVersion
	}
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = request.AutoCommit
	config.Consumer.Return.Errors = true
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy(request.Kind)}
	config.Consumer.Group.InstanceId = request.Instance
	group, err := sarama.NewConsumerGroup(request.Bootstraps(), request.Group, config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	joined := &member{group: group, cancel: cancel, done: make(chan struct{})}
	go func() {
		for err := range group.Errors() {
			joined.Fail(err)
		}
	}()
	go func() {
		defer close(joined.done)
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{request.Topic}, joined); err != nil && ctx.Err() == nil {
				joined.Fail(err)
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return members.Add(joined), nil
}

// Setup is called at the start of each session.
func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.Assign(nil)
	m.Lock()
	defer m.Unlock()
	m.session = session
	return nil
}

// Cleanup is called at the end of each session.
func (*member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim reads one partition until it is taken away.
func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	place := lines.Place(claim.Topic(), claim.Partition())
	m.Own(place)
	defer m.Revoke([]string{place})
	for message := range claim.Messages() {
		m.Receive(place, message.Offset, message.Value)
		session.MarkMessage(message, "")
	}
	return nil
}

func state(request *lines.Request) (any, error) { return members.Get(request.Member).State(), nil }

func commit(request *lines.Request) (any, error) {
	committing := members.Get(request.Member)
	committing.Lock()
	session := committing.session
	committing.Unlock()
	if session == nil {
		return nil, errors.New("the member has no session")
	}
	for place, committed := range request.Offsets {
		topic, partition := lines.ParsePlace(place)
		session.ResetOffset(topic, partition, committed.Offset, committed.Metadata)
		session.MarkOffset(topic, partition, committed.Offset, committed.Metadata)
	}
	session.Commit()
	return nil, nil
}

func leave(request *lines.Request) (any, error) {
	leaving := members.Get(request.Member)
	leaving.cancel()
	<-leaving.done
	return nil, leaving.group.Close()
}
