// A client whose log goes to standard error, with the codecs that KafkaJS leaves to its users.
import * as zstd from '@bokuweb/zstd-wasm'
import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'
import lz4 from 'lz4-napi'

const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = kafkajs

await zstd.init()

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: encoder => lz4.compressFrame(encoder.buffer),
  decompress: buffer => lz4.decompressFrame(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from(zstd.compress(encoder.buffer, 3)),
  decompress: async buffer => Buffer.from(zstd.decompress(buffer)),
})

export const codecs = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

export function client(request) {
  return new Kafka({
    clientId: 'kafkajs-member',
    brokers: request.bootstrap.split(','),
    logLevel: logLevel.WARN,
    logCreator: () => entry => process.stderr.write(`${JSON.stringify(entry)}\n`),
  })
}

export const place = (topic, partition) => `${topic}:${partition}`

export function parsePlace(text) {
  const cut = text.lastIndexOf(':')
  return { topic: text.slice(0, cut), partition: Number(text.slice(cut + 1)) }
}
