// What KafkaJS's admin client offers.
import kafkajs from 'kafkajs'

import { client, parsePlace, place } from './client.js'

const { AssignerProtocol, ConfigResourceTypes } = kafkajs

const withAdmin = call => async request => {
  const admin = client(request).admin()
  await admin.connect()
  try {
    return await call(admin, request)
  } finally {
    await admin.disconnect()
  }
}

async function describeConfigs(admin, type, name) {
  const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type, name }] })
  return Object.fromEntries(resources[0].configEntries.map(entry => [entry.configName, entry.configValue]))
}

async function findOffset(admin, { topic, partition, time }) {
  const rows = time < 0 ? await admin.fetchTopicOffsets(topic) : await admin.fetchTopicOffsetsByTimestamp(topic, time)
  const row = rows.find(each => each.partition === partition)
  return Number(time === -2 ? row.low : row.offset)
}

async function describeGroup(admin, { group }) {
  const { groups } = await admin.describeGroups([group])
  const members = groups[0].members.map(({ memberId, memberAssignment }) => {
    const { assignment } = AssignerProtocol.MemberAssignment.decode(memberAssignment)
    return [memberId, Object.entries(assignment).flatMap(([topic, partitions]) =>
      partitions.map(partition => place(topic, partition)))]
  })
  return { state: groups[0].state, members: Object.fromEntries(members) }
}

async function groupOffsets(admin, { group }) {
  const topics = await admin.fetchOffsets({ groupId: group })
  const rows = topics.flatMap(({ topic, partitions }) => partitions.map(each =>
    [place(topic, each.partition), { offset: Number(each.offset), metadata: each.metadata ?? '' }]))
  return Object.fromEntries(rows)
}

// KafkaJS joins the group for each topic, and waits for a fetch that finds nothing.
async function alterOffsets(admin, { group, offsets }) {
  const topics = new Map()
  for (const [where, { offset }] of Object.entries(offsets)) {
    const { topic, partition } = parsePlace(where)
    topics.set(topic, [...(topics.get(topic) ?? []), { partition, offset: String(offset) }])
  }
  for (const [topic, partitions] of topics) await admin.setOffsets({ groupId: group, topic, partitions })
}

async function createTopic(admin, { topic, partitions, configs }) {
  const created = await admin.createTopics({
    topics: [{
      topic,
      numPartitions: partitions,
      replicationFactor: 1,
      configEntries: Object.entries(configs).map(([name, value]) => ({ name, value })),
    }],
  })
  if (!created) throw new Error(`topic ${topic} exists`)
}

async function deleteRecords(admin, { topic, partition, offset }) {
  await admin.fetchTopicOffsets(topic) // it looks for the leader only among topics that it knows
  await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(offset) }] })
  return offset
}

async function listReassignments(admin, { topic, partition }) {
  const { topics } = await admin.listPartitionReassignments({ topics: [{ topic, partitions: [partition] }] })
  return topics.flatMap(each => each.partitions.map(row => place(each.topic, row.partition)))
}

const calls = {
  create_topic: createTopic,
  grow_topic: (admin, { topic, partitions }) =>
    admin.createPartitions({ topicPartitions: [{ topic, count: partitions }] }),
  count_partitions: async (admin, { topic }) =>
    (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length,
  list_topics: admin => admin.listTopics(),
  delete_topic: (admin, { topic }) => admin.deleteTopics({ topics: [topic] }),
  describe_configs: (admin, { topic }) => describeConfigs(admin, ConfigResourceTypes.TOPIC, topic),
  broker_configs: (admin, { broker }) => describeConfigs(admin, ConfigResourceTypes.BROKER, String(broker)),
  alter_configs: (admin, { topic, configs }) => admin.alterConfigs({
    validateOnly: false,
    resources: [{
      type: ConfigResourceTypes.TOPIC,
      name: topic,
      configEntries: Object.entries(configs).map(([name, value]) => ({ name, value })),
    }],
  }),
  delete_records: deleteRecords,
  cluster: async admin => (await admin.describeCluster()).brokers.map(({ nodeId, host, port }) =>
    ({ id: nodeId, address: `${host}:${port}` })),
  find_offset: findOffset,
  list_groups: async admin =>
    Object.fromEntries((await admin.listGroups()).groups.map(({ groupId }) => [groupId, {}])),
  describe_group: describeGroup,
  delete_group: (admin, { group }) => admin.deleteGroups([group]),
  group_offsets: groupOffsets,
  alter_offsets: alterOffsets,
  reassign: (admin, { topic, partition, broker }) => admin.alterPartitionReassignments({
    topics: [{ topic, partitionAssignment: [{ partition, replicas: [broker] }] }],
  }),
  list_reassignments: listReassignments,
}

export const operations = Object.fromEntries(
  Object.entries(calls).map(([name, call]) => [name, withAdmin(call)]))
