// Members of consumer groups, in the classic protocol with the round-robin assignor.
import { client, parsePlace, place } from './client.js'

const members = []

async function join(request) {
  const consumer = client(request).consumer({
    groupId: request.group,
    heartbeatInterval: 500,
    sessionTimeout: 10_000,
    maxWaitTimeInMs: 100,
  })
  const member = { consumer, assigned: [], received: [], rebalances: 0, error: '' }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    member.rebalances += 1
    member.assigned = Object.entries(payload.memberAssignment).flatMap(([topic, partitions]) =>
      partitions.map(partition => place(topic, partition)))
  })
  consumer.on(consumer.events.REBALANCING, () => { member.assigned = [] })
  consumer.on(consumer.events.CRASH, ({ payload }) => { member.error = String(payload.error) })
  await consumer.connect()
  await consumer.subscribe({ topic: request.topic, fromBeginning: true })
  await consumer.run({
    autoCommit: request.auto_commit,
    eachMessage: async ({ topic, partition, message }) => {
      const value = message.value === null ? '' : message.value.toString()
      member.received.push([place(topic, partition), Number(message.offset), value])
    },
  })
  return members.push(member) - 1
}

function state({ member }) {
  const { assigned, received, rebalances, error } = members[member]
  return { assigned, received, rebalances, error }
}

async function commit({ member, offsets }) {
  const { consumer, received } = members[member]
  const wanted = offsets ?? Object.fromEntries(
    received.map(([where, offset]) => [where, { offset: offset + 1, metadata: '' }]))
  await consumer.commitOffsets(Object.entries(wanted).map(([where, { offset, metadata }]) =>
    ({ ...parsePlace(where), offset: String(offset), metadata })))
}

async function leave({ member }) {
  await members[member].consumer.disconnect()
}

export const operations = { join, state, commit, leave }
