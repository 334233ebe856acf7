/* Everything that a tool library can do wrong below the SDK, as a subject of tests. Which of it is chosen by macros (the header and the
 * handshake) and by the name of the export (a call). */
#define _DEFAULT_SOURCE
#include "goondan_plugin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef MAGIC
#define MAGIC GOONDAN_MAGIC
#endif
#ifndef MAJOR
#define MAJOR GOONDAN_ABI_MAJOR
#endif
#ifndef FLAGS
#define FLAGS GOONDAN_PANICS_STOP_HERE
#endif
#ifndef OPEN
#define OPEN open_library
#endif
#ifndef OPENED
#define OPENED GOONDAN_OK
#endif
#ifndef START
#define START start
#endif
#ifndef MANIFEST
#define EXPORT(name) "{\"name\": \"" name "\"}"
#define MANIFEST                                                                                                        \
  "{\"name\": \"c-hostile\", \"exports\": [" EXPORT("double") ", " EXPORT("unknown") ", " EXPORT("not-json") ", " EXPORT("not-utf8") \
  ", " EXPORT("null") ", " EXPORT("flood") ", " EXPORT("refuse") ", " EXPORT("panic-status") ", " EXPORT("bad-request") ", "       \
  EXPORT("after-cancel") ", " EXPORT("block") ", " EXPORT("crash") ", " EXPORT("spin") ", " EXPORT("ok") "], \"future\": {\"a\": 1}}"
#endif

static const goondan_host *host;
static uint64_t cancelled_call; /* written before the thread that reads it is started */

static goondan_bytes text(const char *s) { return (goondan_bytes){(const uint8_t *)s, strlen(s)}; }
static goondan_status done(uint64_t call, const char *json) { return host->complete(host->ctx, call, GOONDAN_OK, text(json)); }

static goondan_status describe(void *self, void *sink, goondan_put put) {
  (void)self;
  const char manifest[] = MANIFEST; /* in two pieces */
  put(sink, (goondan_bytes){(const uint8_t *)manifest, strlen(manifest) / 2});
  put(sink, text(manifest + strlen(manifest) / 2));
  return GOONDAN_OK;
}

static void crash(void) { *(volatile int *)NULL = 1; }

static int asks_for(goondan_bytes request, const char *name) {
  char needle[64];
  int length = snprintf(needle, sizeof needle, "\"export\":\"%s\"", name);
  for (size_t at = 0; at + (size_t)length <= request.len; at++)
    if (memcmp(request.ptr + at, needle, (size_t)length) == 0) return 1;
  return 0;
}

static void report(uint64_t call, const char *what, goondan_status status) {
  char json[128];
  snprintf(json, sizeof json, "{\"output\": {\"%s\": %d}}", what, status);
  done(call, json);
}

static goondan_status start(void *self, uint64_t call, goondan_bytes request) {
  (void)self;
  if (asks_for(request, "ok")) return done(call, "{\"output\": \"fine\"}");
  if (asks_for(request, "double")) return done(call, "{\"output\": 1}"), done(call, "{\"output\": 2}"), GOONDAN_OK;
  if (asks_for(request, "unknown")) return report(call, "status", done(call + 1000000, "{\"output\": 1}")), GOONDAN_OK;
  if (asks_for(request, "not-json")) return done(call, "{\"output\": "), GOONDAN_OK;
  if (asks_for(request, "not-utf8")) return done(call, "{\"output\": \"\xff\xfe\"}"), GOONDAN_OK;
  if (asks_for(request, "null")) return host->complete(host->ctx, call, GOONDAN_OK, (goondan_bytes){NULL, 5}), GOONDAN_OK;
  if (asks_for(request, "refuse")) return GOONDAN_BAD_ARGUMENT;
  if (asks_for(request, "panic-status")) return host->complete(host->ctx, call, GOONDAN_PANIC, text("")), GOONDAN_OK;
  if (asks_for(request, "flood")) {
    goondan_status status = GOONDAN_OK;
    for (int i = 0; i < 100000 && status == GOONDAN_OK; i++) status = host->progress(host->ctx, call, text("{\"title\": \"x\"}"));
    return report(call, "status", status), GOONDAN_OK;
  }
  if (asks_for(request, "bad-request"))
    return report(call, "status", host->request(host->ctx, call, 7, text("no.such.thing"), text("{}"))), GOONDAN_OK;
  if (asks_for(request, "block")) return sleep(3600), GOONDAN_OK;
  if (asks_for(request, "spin"))
    for (volatile int i = 0;; i++) {
    }
  if (asks_for(request, "crash")) crash();
  if (asks_for(request, "after-cancel")) return GOONDAN_OK; /* `cancel` answers, from a thread, when it is too late */
  return GOONDAN_BAD_ARGUMENT;
}

/* Answers when it is too late: once the host says that the call is gone. */
static void *answer_late(void *unused) {
  (void)unused;
  while (host->progress(host->ctx, cancelled_call, text("{}")) != GOONDAN_UNKNOWN_CALL) usleep(1000);
  done(cancelled_call, "{\"output\": \"late\"}");
  return NULL;
}

static void cancel(void *self, uint64_t call) {
  (void)self;
  pthread_t thread;
  cancelled_call = call;
  if (pthread_create(&thread, NULL, answer_late, NULL) == 0) pthread_detach(thread);
}

static void reply(void *self, uint64_t op, goondan_status s, goondan_bytes b) { (void)self, (void)op, (void)s, (void)b; }
static goondan_status close_library(void *self, uint32_t grace_ms) { return (void)self, (void)grace_ms, GOONDAN_BUSY; }

static goondan_status open_library(const goondan_host *table, goondan_library *out, size_t out_size) {
  goondan_library own = {NULL, describe, START, cancel, reply, close_library};
  host = table;
#ifdef HANG
  sleep(3600);
#endif
#ifdef CRASH
  crash();
#endif
  memcpy(out, &own, out_size < sizeof own ? out_size : sizeof own);
  return OPENED;
}

GOONDAN_EXPORT const goondan_plugin_entry goondan_plugin = {
    MAGIC, MAJOR, GOONDAN_ABI_MINOR, sizeof(goondan_plugin_entry), sizeof(goondan_library), FLAGS, OPEN,
};
