package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"headwater.test/go_clients/lines"
)

const limit = 60 * time.Second

func limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), limit)
}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var acks = map[int]kgo.Acks{-1: kgo.AllISRAcks(), 0: kgo.NoAck(), 1: kgo.LeaderAck()}

func produce(request *lines.Request) (any, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(request.Bootstraps()...),
		kgo.AllowAutoTopicCreation(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[request.Codec]),
		kgo.RequiredAcks(acks[request.Acks()]),
		kgo.ProducerBatchMaxBytes(2_000_000),
		kgo.UnknownTopicRetries(20),
	}
	if !request.Idempotent() {
		options = append(options, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := make([]*kgo.Record, len(request.Records))
	for place, given := range request.Records {
		record := &kgo.Record{
			Topic:     request.Topic,
			Partition: request.Partition,
			Key:       lines.Bytes(given.Key),
			Value:     lines.Bytes(given.Value),
		}
		if given.Timestamp != nil {
			record.Timestamp = time.UnixMilli(*given.Timestamp)
		}
		for _, header := range given.Headers {
			added := kgo.RecordHeader{Key: header.Name, Value: lines.Bytes(header.Value)}
			record.Headers = append(record.Headers, added)
		}
		records[place] = record
	}
	ctx, cancel := limited()
	defer cancel()
	return nil, client.ProduceSync(ctx, records...).FirstErr()
}

func consume(request *lines.Request) (any, error) {
	from := map[string]map[int32]kgo.Offset{
		request.Topic: {request.Partition: kgo.NewOffset().At(request.Offset)},
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(request.Bootstraps()...),
		kgo.ConsumePartitions(from),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := limited()
	defer cancel()
	received := []lines.Record{}
	for len(received) < request.Count {
		fetches := client.PollRecords(ctx, request.Count-len(received))
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("%d of %d records came: %w", len(received), request.Count, err)
		}
		fetches.EachRecord(func(record *kgo.Record) { received = append(received, show(record)) })
	}
	return received, nil
}

func show(record *kgo.Record) lines.Record {
	milliseconds := record.Timestamp.UnixMilli()
	headers := []lines.Header{}
	for _, header := range record.Headers {
		headers = append(headers, lines.Header{Name: header.Key, Value: lines.Pointer(header.Value)})
	}
	return lines.Record{
		Key:       lines.Pointer(record.Key),
		Value:     lines.Pointer(record.Value),
		Headers:   headers,
		Timestamp: &milliseconds,
		Offset:    record.Offset,
	}
}
