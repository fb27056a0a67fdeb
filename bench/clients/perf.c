/* A load generator on librdkafka, so that the client is never the bottleneck of a measurement.
 *
 *   perf produce BOOTSTRAP TOPIC PARTITIONS RECORDS SIZE RATE [name=value ...]
 *   perf consume BOOTSTRAP TOPIC PARTITIONS RECORDS [name=value ...]
 *   perf latency BOOTSTRAP TOPIC PARTITIONS SECONDS SIZE RATE [name=value ...]
 *   perf small   BOOTSTRAP TOPIC PARTITIONS SECONDS SIZE PRODUCERS [name=value ...]
 *   perf steady  BOOTSTRAP TOPIC PARTITIONS SECONDS SIZE RATE PRODUCERS [name=value ...]
 *
 * Each prints one line of JSON. RATE is in records a second, evenly spaced; 0 is as fast as it
 * goes. `latency` gives the time to the acknowledgement and to the consumer's hands in
 * microseconds, without the first second. `small` keeps five records in flight per producer, each
 * in its own request. `steady` shares RATE among producers that leave the choice of
 * partitions to librdkafka, as applications without keys do; they wake up every five milliseconds,
 * so that their timers do not take the processor from the servers on the same machine.
 */
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WARM_UP_US 1000000
#define IN_FLIGHT 5
#define SLOTS 200 /* a second, in which a steady producer wakes up: its linger is as long */

static int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void die(const char *what, const char *why) {
    fprintf(stderr, "perf: %s: %s\n", what, why);
    exit(1);
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char why[256];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK) die(name, why);
}

/* Grows to any number of samples; sorted when it is printed. */
typedef struct { int64_t *at; size_t count, room; } samples_t;

static void add_sample(samples_t *s, int64_t value) {
    if (s->count == s->room) {
        s->room = s->room ? s->room * 2 : 4096;
        s->at = realloc(s->at, s->room * sizeof *s->at);
    }
    s->at[s->count++] = value;
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void print_samples(const char *name, samples_t *s, const char *end) {
    if (!s->count) die(name, "no samples");
    qsort(s->at, s->count, sizeof *s->at, ascending);
    printf("\"%s\": {\"count\": %zu, \"p50\": %ld, \"p99\": %ld, \"max\": %ld}%s", name, s->count,
           (long)s->at[s->count / 2], (long)s->at[s->count * 99 / 100],
           (long)s->at[s->count - 1], end);
}

static atomic_long acknowledged, failed;
static samples_t ack_times;
static int64_t measured_from;

/* The opaque of a message is the time at which it was sent. */
static void delivered(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk, (void)opaque;
    if (message->err) failed++; else acknowledged++;
    int64_t sent = (int64_t)message->_private;
    if (sent && sent >= measured_from) add_sample(&ack_times, now_us() - sent);
}

static rd_kafka_conf_t *common(char **argv, char **settings) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", argv[2]);
    for (; *settings; settings++) {
        char name[128];
        char *value = strchr(*settings, '=');
        if (!value || value - *settings >= (long)sizeof name) die(*settings, "not name=value");
        snprintf(name, sizeof name, "%.*s", (int)(value - *settings), *settings);
        set(conf, name, value + 1);
    }
    return conf;
}

static rd_kafka_t *client(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
    char why[256];
    rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof why);
    if (!rk) die("client", why);
    return rk;
}

static rd_kafka_t *producer(char **argv, char **settings) {
    rd_kafka_conf_t *conf = common(argv, settings);
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    return client(RD_KAFKA_PRODUCER, conf);
}

static void enqueue(rd_kafka_topic_t *topic, int partition, void *payload, size_t size, int64_t mark) {
    while (rd_kafka_produce(topic, partition, RD_KAFKA_MSG_F_BLOCK, payload, size, NULL, 0,
                            (void *)mark) == -1)
        if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            die("produce", rd_kafka_err2str(rd_kafka_last_error()));
}

static char *payload_of(size_t size) {
    char *payload = malloc(size);
    srand(1);
    for (size_t i = 0; i < size; i++) payload[i] = (char)(rand() >> 7);
    return payload;
}

/* Acknowledgements are taken off the sending thread's hands, as a server's client would do. */
static atomic_int polling = 1;
static void *poll_loop(void *rk) {
    while (polling) rd_kafka_poll(rk, 50);
    return NULL;
}

/* Connections, metadata and the producer id come before the clock starts. */
static void warm(rd_kafka_topic_t *topic, rd_kafka_t *rk, int partitions, char *payload) {
    for (int p = 0; p < partitions; p++) enqueue(topic, p, payload, 10, 0);
    if (rd_kafka_flush(rk, 60000)) die("warm up", "not acknowledged in a minute");
    acknowledged = 0;
}

/* Wait for the moment at which record number `i` is due. */
static void pace(int64_t began, long i, double rate) {
    int64_t wait = rate > 0 ? began + (int64_t)((double)i * 1e6 / rate) - now_us() : 0;
    if (wait <= 0) return;
    struct timespec pause = {wait / 1000000, wait % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

static int run_produce(char **argv) {
    int partitions = atoi(argv[4]);
    long records = atol(argv[5]);
    size_t size = (size_t)atol(argv[6]);
    double rate = atof(argv[7]);
    char *payload = payload_of(size);
    rd_kafka_t *rk = producer(argv, argv + 8);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, argv[3], NULL);
    warm(topic, rk, partitions, payload);
    pthread_t poller;
    pthread_create(&poller, NULL, poll_loop, rk);
    int64_t began = now_us();
    for (long i = 0; i < records; i++) {
        pace(began, i, rate);
        enqueue(topic, (int)(i % partitions), payload, size, 0);
    }
    if (rd_kafka_flush(rk, 120000)) die("flush", "not acknowledged in two minutes");
    while (acknowledged + failed < records) rd_kafka_poll(rk, 10);
    double seconds = (double)(now_us() - began) / 1e6;
    polling = 0;
    pthread_join(poller, NULL);
    printf("{\"records\": %ld, \"failed\": %ld, \"seconds\": %.6f, \"mb_per_second\": %.3f}\n",
           (long)acknowledged, (long)failed, seconds,
           (double)acknowledged * (double)size / 1e6 / seconds);
    return failed != 0;
}

static rd_kafka_queue_t *start_reading(rd_kafka_t *rk, rd_kafka_topic_t *topic, int partitions,
                                       int64_t from) {
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    for (int p = 0; p < partitions; p++)
        if (rd_kafka_consume_start_queue(topic, p, from, queue) == -1)
            die("consume", rd_kafka_err2str(rd_kafka_last_error()));
    return queue;
}

static int run_consume(char **argv) {
    int partitions = atoi(argv[4]);
    long wanted = atol(argv[5]), records = 0;
    rd_kafka_t *rk = client(RD_KAFKA_CONSUMER, common(argv, argv + 6));
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, argv[3], NULL);
    static rd_kafka_message_t *messages[10000];
    int64_t bytes = 0, launched = now_us(), began = 0;
    rd_kafka_queue_t *queue = start_reading(rk, topic, partitions, RD_KAFKA_OFFSET_BEGINNING);
    while (records < wanted) {
        /* It waits for as many as are asked for: never ask for more than will come. */
        size_t most = wanted - records < 10000 ? (size_t)(wanted - records) : 10000;
        ssize_t came = rd_kafka_consume_batch_queue(queue, 1000, messages, most);
        if (!began && came > 0) began = now_us();
        if (now_us() - launched > 120000000) die("consume", "two minutes are over");
        for (ssize_t i = 0; i < came; i++) {
            if (messages[i]->err) die("consume", rd_kafka_message_errstr(messages[i]));
            bytes += (int64_t)messages[i]->len;
            rd_kafka_message_destroy(messages[i]);
        }
        records += came;
    }
    double seconds = (double)(now_us() - began) / 1e6;
    printf("{\"records\": %ld, \"seconds\": %.6f, \"mb_per_second\": %.3f, "
           "\"first_after\": %.6f}\n",
           records, seconds, (double)bytes / 1e6 / seconds, (double)(began - launched) / 1e6);
    return 0;
}

static samples_t end_to_end;
static atomic_int reading = 1;

static void *read_loop(void *queue) {
    while (reading) {
        rd_kafka_message_t *message = rd_kafka_consume_queue(queue, 100);
        if (!message) continue;
        int64_t sent = 0;
        if (!message->err && message->len >= sizeof sent)
            memcpy(&sent, message->payload, sizeof sent);
        if (sent && sent >= measured_from) add_sample(&end_to_end, now_us() - sent);
        rd_kafka_message_destroy(message);
    }
    return NULL;
}

static int run_latency(char **argv) {
    int partitions = atoi(argv[4]);
    double rate = atof(argv[7]);
    long records = (long)(atof(argv[5]) * rate);
    size_t size = (size_t)atol(argv[6]);
    char *payload = payload_of(size);
    memset(payload, 0, sizeof(int64_t));
    rd_kafka_t *rk = producer(argv, argv + 8);
    char *none[] = {NULL};
    rd_kafka_conf_t *conf = common(argv, none);
    set(conf, "fetch.min.bytes", "1");
    rd_kafka_t *reader = client(RD_KAFKA_CONSUMER, conf);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, argv[3], NULL);
    rd_kafka_topic_t *source = rd_kafka_topic_new(reader, argv[3], NULL);
    warm(topic, rk, partitions, payload);
    rd_kafka_queue_t *queue = start_reading(reader, source, partitions, RD_KAFKA_OFFSET_END);
    struct timespec settle = {1, 0};
    nanosleep(&settle, NULL);
    pthread_t poller, consumer;
    int64_t began = now_us();
    measured_from = began + WARM_UP_US;
    pthread_create(&poller, NULL, poll_loop, rk);
    pthread_create(&consumer, NULL, read_loop, queue);
    for (long i = 0; i < records; i++) {
        pace(began, i, rate);
        int64_t sent = now_us();
        memcpy(payload, &sent, sizeof sent);
        while (rd_kafka_produce(topic, (int)(i % partitions), RD_KAFKA_MSG_F_COPY, payload, size,
                                NULL, 0, (void *)sent) == -1)
            if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                die("produce", rd_kafka_err2str(rd_kafka_last_error()));
    }
    if (rd_kafka_flush(rk, 60000)) die("flush", "not acknowledged in a minute");
    double seconds = (double)(now_us() - began) / 1e6;
    nanosleep(&settle, NULL);
    polling = reading = 0;
    pthread_join(poller, NULL);
    pthread_join(consumer, NULL);
    printf("{\"records\": %ld, \"failed\": %ld, \"seconds\": %.6f, ", (long)acknowledged,
           (long)failed, seconds);
    print_samples("ack_us", &ack_times, ", ");
    print_samples("end_to_end_us", &end_to_end, "}\n");
    return failed != 0;
}

typedef struct { char **argv; size_t size; int partition; int64_t until; } small_t;

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static void count_only(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk, (void)opaque;
    int64_t sent = (int64_t)message->_private;
    if (message->err) failed++;
    if (message->err || sent < measured_from) return;
    pthread_mutex_lock(&counting);
    acknowledged++;
    add_sample(&ack_times, now_us() - sent);
    pthread_mutex_unlock(&counting);
}

static void *small_producer(void *given) {
    small_t *work = given;
    rd_kafka_conf_t *conf = common(work->argv, work->argv + 8);
    set(conf, "linger.ms", "0");
    set(conf, "batch.num.messages", "1");
    rd_kafka_conf_set_dr_msg_cb(conf, count_only);
    rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, conf);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, work->argv[3], NULL);
    char *payload = payload_of(work->size);
    while (now_us() < work->until) {
        while (rd_kafka_outq_len(rk) < IN_FLIGHT)
            enqueue(topic, work->partition, payload, work->size, now_us());
        rd_kafka_poll(rk, 100);
    }
    rd_kafka_flush(rk, 30000);
    return NULL;
}

static int run_small(char **argv) {
    int partitions = atoi(argv[4]), producers = atoi(argv[7]);
    int64_t length = (int64_t)(atof(argv[5]) * 1e6);
    small_t *work = calloc((size_t)producers, sizeof *work);
    pthread_t *threads = calloc((size_t)producers, sizeof *threads);
    measured_from = now_us() + 2 * WARM_UP_US;
    for (int i = 0; i < producers; i++) {
        work[i] = (small_t){argv, (size_t)atol(argv[6]), i % partitions, measured_from + length};
        pthread_create(&threads[i], NULL, small_producer, &work[i]);
    }
    for (int i = 0; i < producers; i++) pthread_join(threads[i], NULL);
    double seconds = (double)(now_us() - measured_from) / 1e6;
    printf("{\"records\": %ld, \"failed\": %ld, \"seconds\": %.6f, \"per_second\": %.1f, ",
           (long)acknowledged, (long)failed, seconds, (double)acknowledged / seconds);
    print_samples("ack_us", &ack_times, "}\n");
    return failed != 0;
}

typedef struct { char **argv; int share; int64_t began, until; } steady_t;

static void *steady_producer(void *given) {
    steady_t *work = given;
    size_t size = (size_t)atol(work->argv[6]);
    double rate = atof(work->argv[7]) / work->share;
    rd_kafka_conf_t *conf = common(work->argv, work->argv + 9);
    rd_kafka_conf_set_dr_msg_cb(conf, count_only);
    rd_kafka_t *rk = client(RD_KAFKA_PRODUCER, conf);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, work->argv[3], NULL);
    char *payload = payload_of(size);
    pthread_t poller;
    pthread_create(&poller, NULL, poll_loop, rk);
    for (long i = 0; now_us() < work->until; i++) {
        long slot = (long)((double)i / rate * SLOTS);
        pace(work->began, slot, SLOTS);
        enqueue(topic, RD_KAFKA_PARTITION_UA, payload, size, now_us());
    }
    if (rd_kafka_flush(rk, 120000)) die("flush", "not acknowledged in two minutes");
    return NULL;
}

static int run_steady(char **argv) {
    int producers = atoi(argv[8]);
    steady_t *work = calloc((size_t)producers, sizeof *work);
    pthread_t *threads = calloc((size_t)producers, sizeof *threads);
    int64_t began = now_us();
    measured_from = began + 3 * WARM_UP_US;
    int64_t until = measured_from + (int64_t)(atof(argv[5]) * 1e6);
    for (int i = 0; i < producers; i++) {
        work[i] = (steady_t){argv, producers, began, until};
        pthread_create(&threads[i], NULL, steady_producer, &work[i]);
    }
    for (int i = 0; i < producers; i++) pthread_join(threads[i], NULL);
    double seconds = (double)(now_us() - measured_from) / 1e6;
    printf("{\"records\": %ld, \"failed\": %ld, \"seconds\": %.6f, \"mb_per_second\": %.3f, ",
           (long)acknowledged, (long)failed, seconds,
           (double)acknowledged * atof(argv[6]) / 1e6 / seconds);
    print_samples("ack_us", &ack_times, "}\n");
    return failed != 0;
}

int main(int argc, char **argv) {
    if (argc >= 8 && !strcmp(argv[1], "produce")) return run_produce(argv);
    if (argc >= 6 && !strcmp(argv[1], "consume")) return run_consume(argv);
    if (argc >= 8 && !strcmp(argv[1], "latency")) return run_latency(argv);
    if (argc >= 8 && !strcmp(argv[1], "small")) return run_small(argv);
    if (argc >= 9 && !strcmp(argv[1], "steady")) return run_steady(argv);
    die("usage", "see the head of perf.c");
    return 2;
}
