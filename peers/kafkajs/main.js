// The KafkaJS client as a program that is driven by JSON lines; peers/driver.py says what it takes.
import readline from 'node:readline'

import { operations as admin } from './admin.js'
import { operations as groups } from './groups.js'
import { operations as records } from './records.js'

const operations = { ...records, ...groups, ...admin }

async function answer(line) {
  const { id, op, ...request } = JSON.parse(line)
  try {
    if (!(op in operations)) throw new Error(`not offered: ${op}`)
    return { id, value: (await operations[op](request)) ?? null }
  } catch (error) {
    return { id, error: [error.type, error.message, ...(error.errors ?? [])].join(' ') }
  }
}

readline.createInterface({ input: process.stdin }).on('line', async line => {
  process.stdout.write(`${JSON.stringify(await answer(line))}\n`)
}).on('close', () => process.exit(0))
