/* Records what a kernel for an NPU does, so that `inlay npu check` proves its synchronisation and times it. C11 or C++,
 * nothing besides this header; docs/npu_import.md has the table of events and a kernel that is recorded.
 *
 *   inlay_npu_log log;
 *   const char *streams[] = {"AIV"};
 *   inlay_npu_open(&log, "add.jsonl", "add", 1, streams, 1);
 *   uint32_t x = inlay_npu_buffer(&log, INLAY_NPU_HERE("x"), "x", "global", 0, 4096);
 *   uint32_t tile = inlay_npu_allocate(&log, INLAY_NPU_HERE("InitBuffer"), "tile", "vector", 0, 4096);
 *   inlay_npu_copy(&log, INLAY_NPU_HERE("DataCopy"), "global", "vector", NULL,
 *                  inlay_npu_in(tile, 0, 4096), inlay_npu_in(x, 0, 4096));
 *   inlay_npu_set(&log, INLAY_NPU_HERE("SetFlag"), "load_vector", "vector", 0);
 *   if (inlay_npu_close(&log) != 0) perror("add.jsonl");
 *
 * Kernels run one core after the other, or in any order in which each stream's verbs come as it issues them. A log has
 * one thread at a time. What is recorded is not judged here: a wrong event is refused when the log is read, by its line
 * and the kernel's. Spaces: global, staging, left, right, accumulator, vector. Pipes: scalar, load, load_vector, feed,
 * matrix, vector, drain, store. Types: f32, f16, bf16, i8, u8, i4, u4, i32. */
#ifndef INLAY_NPU_LOG_H
#define INLAY_NPU_LOG_H

#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct inlay_npu_log {
  FILE *file; /* NULL: it was not opened, and nothing is recorded */
  uint64_t events;
  uint32_t buffers;
  uint32_t core, stream; /* whose verbs are recorded: inlay_npu_on */
  int failed;            /* a write has failed */
} inlay_npu_log;

/* Where a verb stands in the kernel, and what the kernel calls it. */
typedef struct inlay_npu_here {
  const char *file;
  uint32_t line;
  const char *verb;
} inlay_npu_here;

static inline inlay_npu_here inlay_npu_at(const char *file, uint32_t line, const char *verb) {
  inlay_npu_here here;
  here.file = file;
  here.line = line;
  here.verb = verb;
  return here;
}
#define INLAY_NPU_HERE(verb) inlay_npu_at(__FILE__, __LINE__, verb)

/* `runs` runs of `bytes` bytes, `stride` bytes from one start to the next, in a buffer or (space not NULL) a memory. */
typedef struct inlay_npu_bytes {
  uint32_t buffer;
  const char *space;
  uint64_t begin; /* from the start of the buffer, or of the memory */
  uint64_t bytes;
  uint32_t runs;
  uint64_t stride;
  int atomic; /* of a copy to global memory: it adds to what is there */
} inlay_npu_bytes;

static inline inlay_npu_bytes inlay_npu_in(uint32_t buffer, uint64_t offset, uint64_t bytes) {
  inlay_npu_bytes result;
  result.buffer = buffer;
  result.space = NULL;
  result.begin = offset;
  result.bytes = bytes;
  result.runs = 1;
  result.stride = 0;
  result.atomic = 0;
  return result;
}
static inline inlay_npu_bytes inlay_npu_address(const char *space, uint64_t address, uint64_t bytes) {
  inlay_npu_bytes result = inlay_npu_in(0, address, bytes);
  result.space = space;
  return result;
}
static inline inlay_npu_bytes inlay_npu_strided(inlay_npu_bytes first, uint32_t runs, uint64_t stride) {
  first.runs = runs;
  first.stride = stride;
  return first;
}

/* ---- of this header alone: text ---- */

static inline void inlay_npu_put(inlay_npu_log *log, const char *text) {
  if (log->file != NULL && fputs(text, log->file) < 0) log->failed = 1;
}
static inline void inlay_npu_put_number(inlay_npu_log *log, const char *key, uint64_t value) {
  if (log->file != NULL && fprintf(log->file, ", \"%s\": %llu", key, (unsigned long long)value) < 0) log->failed = 1;
}
static inline void inlay_npu_put_quoted(inlay_npu_log *log, const char *text) {
  if (log->file == NULL) return;
  inlay_npu_put(log, "\"");
  for (; *text != '\0'; ++text) {
    const unsigned char c = (unsigned char)*text;
    if ((c < ' ' ? fprintf(log->file, "\\u%04x", c)
                 : fprintf(log->file, c == '"' || c == '\\' ? "\\%c" : "%c", c)) < 0)
      log->failed = 1;
  }
  inlay_npu_put(log, "\"");
}
static inline void inlay_npu_put_text(inlay_npu_log *log, const char *key, const char *value) {
  inlay_npu_put(log, ", \"");
  inlay_npu_put(log, key);
  inlay_npu_put(log, "\": ");
  inlay_npu_put_quoted(log, value);
}
static inline void inlay_npu_begin(inlay_npu_log *log, inlay_npu_here here, const char *event) {
  ++log->events;
  inlay_npu_put(log, "{\"event\": ");
  inlay_npu_put_quoted(log, event);
  if (here.verb != NULL) inlay_npu_put_text(log, "verb", here.verb);
  if (here.file != NULL) inlay_npu_put_text(log, "file", here.file);
  inlay_npu_put_number(log, "line", here.line);
  inlay_npu_put_number(log, "core", log->core);
  inlay_npu_put_number(log, "stream", log->stream);
}
static inline void inlay_npu_end(inlay_npu_log *log) { inlay_npu_put(log, "}\n"); }
static inline void inlay_npu_put_access(inlay_npu_log *log, inlay_npu_bytes at) {
  if (at.space == NULL) {
    if (log->file != NULL && fprintf(log->file, "{\"buffer\": %lu", (unsigned long)at.buffer) < 0) log->failed = 1;
  } else {
    inlay_npu_put(log, "{\"space\": ");
    inlay_npu_put_quoted(log, at.space);
  }
  inlay_npu_put_number(log, at.space == NULL ? "offset" : "address", at.begin);
  inlay_npu_put_number(log, "bytes", at.bytes);
  if (at.runs != 1) inlay_npu_put_number(log, "runs", at.runs);
  if (at.runs != 1) inlay_npu_put_number(log, "stride", at.stride);
  if (at.atomic) inlay_npu_put(log, ", \"atomic\": true");
  inlay_npu_put(log, "}");
}
static inline void inlay_npu_put_accesses(inlay_npu_log *log, const char *key, const inlay_npu_bytes *all,
                                          uint32_t count) {
  uint32_t i;
  if (count == 0) return;
  inlay_npu_put(log, ", \"");
  inlay_npu_put(log, key);
  inlay_npu_put(log, "\": [");
  for (i = 0; i < count; ++i) {
    if (i > 0) inlay_npu_put(log, ", ");
    inlay_npu_put_access(log, all[i]);
  }
  inlay_npu_put(log, "]");
}

/* ---- a log ---- */

/* streams: the streams of each core that the kernel runs on, by the names of the device's description ("AIC", "AIV",
 * "AIV"); none of them: all of the device, or the only one. 0, or -1 with errno. */
static inline int inlay_npu_open(inlay_npu_log *log, const char *path, const char *kernel, uint32_t cores,
                                 const char *const *streams, uint32_t stream_count) {
  uint32_t i;
  log->events = 0;
  log->buffers = log->core = log->stream = 0;
  log->failed = 0;
  log->file = fopen(path, "wb");
  if (log->file == NULL) return -1;
  inlay_npu_put(log, "{\"inlay_npu_log\": 1");
  inlay_npu_put_text(log, "kernel", kernel);
  inlay_npu_put_number(log, "cores", cores);
  for (i = 0; i < stream_count; ++i) {
    inlay_npu_put(log, i == 0 ? ", \"streams\": [" : ", ");
    inlay_npu_put_quoted(log, streams[i]);
  }
  inlay_npu_put(log, stream_count > 0 ? "]}\n" : "}\n");
  return 0;
}
/* 0, or -1 where any of it could not be written. */
static inline int inlay_npu_close(inlay_npu_log *log) {
  if (log->file == NULL) return -1;
  if (fprintf(log->file, "{\"event\": \"end\", \"events\": %llu}\n", (unsigned long long)log->events) < 0)
    log->failed = 1;
  if (fclose(log->file) != 0) log->failed = 1;
  log->file = NULL;
  return log->failed ? -1 : 0;
}
/* Whose verbs come from now on: the stream is an index into those of inlay_npu_open. */
static inline void inlay_npu_on(inlay_npu_log *log, uint32_t core, uint32_t stream) {
  log->core = core;
  log->stream = stream;
}

/* ---- buffers ---- */

static inline uint32_t inlay_npu_put_buffer(inlay_npu_log *log, inlay_npu_here here, const char *event,
                                            const char *name, const char *space, uint64_t address, uint64_t bytes) {
  inlay_npu_begin(log, here, event);
  inlay_npu_put_number(log, "buffer", log->buffers);
  inlay_npu_put_text(log, "name", name);
  inlay_npu_put_text(log, "space", space);
  inlay_npu_put_number(log, "address", address);
  inlay_npu_put_number(log, "bytes", bytes);
  inlay_npu_end(log);
  return log->buffers++;
}
/* A place that reports call by its name: an operand in global memory. Its contents are there from the start. */
static inline uint32_t inlay_npu_buffer(inlay_npu_log *log, inlay_npu_here here, const char *name, const char *space,
                                        uint64_t address, uint64_t bytes) {
  return inlay_npu_put_buffer(log, here, "buffer", name, space, address, bytes);
}
/* One whose life is watched: reads of what nothing has written, uses behind its release, two in one place. */
static inline uint32_t inlay_npu_allocate(inlay_npu_log *log, inlay_npu_here here, const char *name, const char *space,
                                          uint64_t address, uint64_t bytes) {
  return inlay_npu_put_buffer(log, here, "allocate", name, space, address, bytes);
}
static inline void inlay_npu_release(inlay_npu_log *log, inlay_npu_here here, uint32_t buffer) {
  inlay_npu_begin(log, here, "release");
  inlay_npu_put_number(log, "buffer", buffer);
  inlay_npu_end(log);
}

/* ---- work ---- */

/* A transfer on the pipe of the path between the two spaces. change: NULL, or "nd2nz" (rows become fractal blocks), or
 * "turn" (an operand is turned on its way). */
static inline void inlay_npu_copy(inlay_npu_log *log, inlay_npu_here here, const char *from, const char *to,
                                  const char *change, inlay_npu_bytes target, inlay_npu_bytes source) {
  inlay_npu_begin(log, here, "copy");
  inlay_npu_put_text(log, "from", from);
  inlay_npu_put_text(log, "to", to);
  if (change != NULL) inlay_npu_put_text(log, "change", change);
  inlay_npu_put_accesses(log, "reads", &source, 1);
  inlay_npu_put_accesses(log, "writes", &target, 1);
  inlay_npu_end(log);
}
/* sum = left right (init), or sum += left right: m x k elements by k x n. */
static inline void inlay_npu_matrix(inlay_npu_log *log, inlay_npu_here here, uint32_t m, uint32_t n, uint32_t k,
                                    const char *in, const char *out, int init, inlay_npu_bytes sum,
                                    inlay_npu_bytes left, inlay_npu_bytes right) {
  inlay_npu_bytes reads[3];
  reads[0] = left;
  reads[1] = right;
  reads[2] = sum;
  inlay_npu_begin(log, here, "matrix");
  inlay_npu_put_number(log, "m", m);
  inlay_npu_put_number(log, "n", n);
  inlay_npu_put_number(log, "k", k);
  inlay_npu_put_text(log, "in", in);
  inlay_npu_put_text(log, "out", out);
  inlay_npu_put_accesses(log, "reads", reads, init ? 2 : 3);
  inlay_npu_put_accesses(log, "writes", &sum, 1);
  inlay_npu_end(log);
}
/* op: of the table of the page (add, mul, exp, reduce_max, cast ..); elements: of the widest operand, in `rows` rows of
 * which each starts in lane 0 (1: without gaps); broadcast: an operand is one column, brought to all lanes. */
static inline void inlay_npu_vector(inlay_npu_log *log, inlay_npu_here here, const char *op, const char *in,
                                    const char *out, uint64_t elements, uint32_t rows, int broadcast,
                                    inlay_npu_bytes target, const inlay_npu_bytes *sources, uint32_t source_count) {
  inlay_npu_begin(log, here, "vector");
  inlay_npu_put_text(log, "op", op);
  inlay_npu_put_text(log, "in", in);
  inlay_npu_put_text(log, "out", out);
  inlay_npu_put_number(log, "elements", elements);
  if (rows != 1) inlay_npu_put_number(log, "rows", rows);
  if (broadcast) inlay_npu_put(log, ", \"broadcast\": true");
  inlay_npu_put_accesses(log, "reads", sources, source_count);
  inlay_npu_put_accesses(log, "writes", &target, 1);
  inlay_npu_end(log);
}
/* The scalar unit reads or writes bytes itself. */
static inline void inlay_npu_scalar(inlay_npu_log *log, inlay_npu_here here, int write, inlay_npu_bytes at) {
  inlay_npu_begin(log, here, "scalar");
  inlay_npu_put_accesses(log, write ? "writes" : "reads", &at, 1);
  inlay_npu_end(log);
}
/* It writes its cache's lines of these bytes back ("clean"), or forgets them ("invalidate"). */
static inline void inlay_npu_cache(inlay_npu_log *log, inlay_npu_here here, const char *verb, inlay_npu_bytes at) {
  inlay_npu_begin(log, here, "scalar");
  inlay_npu_put_text(log, "cache", verb);
  inlay_npu_put_accesses(log, "reads", &at, 1);
  inlay_npu_end(log);
}

/* ---- synchronisation ---- */

static inline void inlay_npu_put_flag(inlay_npu_log *log, inlay_npu_here here, const char *event, const char *from,
                                      const char *to, uint32_t flag) {
  inlay_npu_begin(log, here, event);
  inlay_npu_put_text(log, "from", from);
  inlay_npu_put_text(log, "to", to);
  inlay_npu_put_number(log, "flag", flag);
}
/* Between two queues of one stream. */
static inline void inlay_npu_set(inlay_npu_log *log, inlay_npu_here here, const char *from, const char *to,
                                 uint32_t flag) {
  inlay_npu_put_flag(log, here, "set", from, to, flag);
  inlay_npu_end(log);
}
static inline void inlay_npu_wait(inlay_npu_log *log, inlay_npu_here here, const char *from, const char *to,
                                  uint32_t flag) {
  inlay_npu_put_flag(log, here, "wait", from, to, flag);
  inlay_npu_end(log);
}
/* Between two streams of one core; peer: the other one. A set that reaches several is one for each. */
static inline void inlay_npu_stream_set(inlay_npu_log *log, inlay_npu_here here, const char *from, const char *to,
                                        uint32_t flag, uint32_t peer) {
  inlay_npu_put_flag(log, here, "stream_set", from, to, flag);
  inlay_npu_put_number(log, "peer_stream", peer);
  inlay_npu_end(log);
}
static inline void inlay_npu_stream_wait(inlay_npu_log *log, inlay_npu_here here, const char *from, const char *to,
                                         uint32_t flag, uint32_t peer) {
  inlay_npu_put_flag(log, here, "stream_wait", from, to, flag);
  inlay_npu_put_number(log, "peer_stream", peer);
  inlay_npu_end(log);
}
/* Between cores; peer: the one whose wait takes it. */
static inline void inlay_npu_cross_set(inlay_npu_log *log, inlay_npu_here here, const char *pipe, uint32_t flag,
                                       uint32_t peer) {
  inlay_npu_begin(log, here, "cross_set");
  inlay_npu_put_text(log, "pipe", pipe);
  inlay_npu_put_number(log, "flag", flag);
  inlay_npu_put_number(log, "peer", peer);
  inlay_npu_end(log);
}
static inline void inlay_npu_cross_wait(inlay_npu_log *log, inlay_npu_here here, const char *pipe, uint32_t flag) {
  inlay_npu_begin(log, here, "cross_wait");
  inlay_npu_put_text(log, "pipe", pipe);
  inlay_npu_put_number(log, "flag", flag);
  inlay_npu_end(log);
}
/* What the queue is given from now on starts when all that it was given is done. */
static inline void inlay_npu_barrier(inlay_npu_log *log, inlay_npu_here here, const char *pipe) {
  inlay_npu_begin(log, here, "barrier");
  inlay_npu_put_text(log, "pipe", pipe);
  inlay_npu_end(log);
}
/* The stream stops until its queues are empty; until all streams of all cores have come, their queues empty. */
static inline void inlay_npu_barrier_all(inlay_npu_log *log, inlay_npu_here here) {
  inlay_npu_begin(log, here, "barrier_all");
  inlay_npu_end(log);
}
static inline void inlay_npu_sync_all(inlay_npu_log *log, inlay_npu_here here) {
  inlay_npu_begin(log, here, "sync_all");
  inlay_npu_end(log);
}

#ifdef __cplusplus
}
#endif

#endif
