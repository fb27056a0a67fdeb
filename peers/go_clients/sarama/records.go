package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"headwater.test/go_clients/lines"
)

const patience = 20 * time.Second

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

func produce(request *lines.Request) (any, error) {
	config := sarama.NewConfig()
	config.Producer.Compression = codecs[request.Codec]
	config.Producer.RequiredAcks = sarama.RequiredAcks(request.Acks())
	config.Producer.MaxMessageBytes = 2_000_000
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = request.Settings["enable.idempotence"] == true
	producer, err := sarama.NewSyncProducer(request.Bootstraps(), config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	messages := make([]*sarama.ProducerMessage, len(request.Records))
	for place, given := range request.Records {
		message := &sarama.ProducerMessage{Topic: request.Topic, Partition: request.Partition}
		if given.Key != nil {
			message.Key = sarama.ByteEncoder(lines.Bytes(given.Key))
		}
		if given.Value != nil {
			message.Value = sarama.ByteEncoder(lines.Bytes(given.Value))
		}
		if given.Timestamp != nil {
			message.Timestamp = time.UnixMilli(*given.Timestamp)
		}
		for _, header := range given.Headers {
			added := sarama.RecordHeader{Key: []byte(header.Name), Value: lines.Bytes(header.Value)}
			message.Headers = append(message.Headers, added)
		}
		messages[place] = message
	}
	return nil, reasons(producer.SendMessages(messages))
}

// reasons says why messages were not delivered: Sarama's own text only counts them.
func reasons(failed error) error {
	if each, ok := errors.AsType[sarama.ProducerErrors](failed); ok {
		for _, one := range each {
			failed = errors.Join(failed, one.Err)
		}
	}
	return failed
}

func consume(request *lines.Request) (any, error) {
	config := sarama.NewConfig()
	config.Consumer.Return.Errors = true
	consumer, err := sarama.NewConsumer(request.Bootstraps(), config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	reading, err := consumer.ConsumePartition(request.Topic, request.Partition, request.Offset)
	if err != nil {
		return nil, err
	}
	defer reading.AsyncClose()
	received := []lines.Record{}
	for len(received) < request.Count {
		select {
		case message := <-reading.Messages():
			received = append(received, show(message))
		case err := <-reading.Errors():
			return nil, err
		case <-time.After(patience):
			return nil, fmt.Errorf("%d of %d records came", len(received), request.Count)
		}
	}
	return received, nil
}

func show(message *sarama.ConsumerMessage) lines.Record {
	milliseconds := message.Timestamp.UnixMilli()
	headers := []lines.Header{}
	for _, header := range message.Headers {
		shown := lines.Header{Name: string(header.Key), Value: lines.Pointer(header.Value)}
		headers = append(headers, shown)
	}
	return lines.Record{
		Key:       lines.Pointer(message.Key),
		Value:     lines.Pointer(message.Value),
		Headers:   headers,
		Timestamp: &milliseconds,
		Offset:    message.Offset,
	}
}
