// Records to one partition and from one partition.
import { randomUUID } from 'node:crypto'

import { client, codecs } from './client.js'

const PATIENCE_MS = 30_000

const bytes = text => (text === null ? null : Buffer.from(text, 'base64'))
const text = buffer => (buffer === null || buffer === undefined ? null : buffer.toString('base64'))

async function produce(request) {
  const settings = request.settings ?? {}
  const producer = client(request).producer({
    idempotent: settings['enable.idempotence'] === true,
    maxInFlightRequests: 1,
    createPartitioner: () => () => request.partition,
    retry: settings['enable.idempotence'] === true ? { retries: Number.MAX_SAFE_INTEGER } : {},
  })
  await producer.connect()
  try {
    const messages = request.records.map(record => ({
      key: bytes(record.key),
      value: bytes(record.value),
      headers: Object.fromEntries(record.headers.map(({ name, value }) => [name, bytes(value)])),
      ...(record.timestamp === null ? {} : { timestamp: String(record.timestamp) }),
    }))
    await producer.send({
      topic: request.topic,
      acks: settings.acks ?? -1,
      compression: codecs[request.codec],
      messages,
    })
  } finally {
    await producer.disconnect()
  }
}

// KafkaJS reads in a group only; it is sent to the offset once it has joined.
async function consume(request) {
  const groupId = `kafkajs-reads-${randomUUID()}`
  const consumer = client(request).consumer({ groupId, maxBytesPerPartition: 2_000_000, maxWaitTimeInMs: 100 })
  const received = []
  let enough
  const complete = new Promise((resolve, reject) => {
    enough = resolve
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    setTimeout(() => reject(new Error(`${received.length} of ${request.count} records came`)), PATIENCE_MS).unref()
  })
  complete.catch(() => {})
  try {
    await consumer.connect()
    await consumer.subscribe({ topic: request.topic, fromBeginning: true })
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        const wanted = partition === request.partition && Number(message.offset) >= request.offset
        if (!wanted || received.length === request.count) return
        received.push(show(message))
        if (received.length === request.count) enough()
      },
    })
    consumer.seek({ topic: request.topic, partition: request.partition, offset: String(request.offset) })
    if (request.count > 0) await complete
  } finally {
    await consumer.disconnect()
  }
  return received
}

function show(message) {
  const headers = Object.entries(message.headers ?? {}).flatMap(([name, values]) =>
    [values].flat().map(value => ({ name, value: text(value) })))
  return {
    key: text(message.key),
    value: text(message.value),
    headers,
    timestamp: Number(message.timestamp),
    offset: Number(message.offset),
  }
}

export const operations = { produce, consume }
