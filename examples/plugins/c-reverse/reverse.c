/* A tool library in C: `reverse` turns text around, character by character.
 * Compiled with `cc -shared -fPIC` and the folder of the header as `-I`. */
#include "goondan_plugin.h"

#include <stdlib.h>
#include <string.h>

static const goondan_host *the_host;

static goondan_bytes text(const char *s) { return (goondan_bytes){(const uint8_t *)s, strlen(s)}; }

static const char MANIFEST[] =
    "{\"name\": \"c-reverse\", \"version\": \"0.1.0\", \"sdk\": {\"language\": \"c\"}, \"exports\": [{"
    "\"name\": \"reverse\", \"description\": \"Turn text around\", \"readOnly\": true, \"idempotent\": true, \"parameters\": {"
    "\"type\": \"object\", \"properties\": {\"text\": {\"type\": \"string\", \"description\": \"Text without escapes\"}}, "
    "\"required\": [\"text\"]}}]}";

static goondan_status describe(void *self, void *sink, goondan_put put) {
  (void)self;
  put(sink, text(MANIFEST));
  return GOONDAN_OK;
}

/* Finds the argument in {"arguments":{"text":"..."}}. A real library uses a JSON parser; this one takes text without escapes. */
static goondan_bytes argument(goondan_bytes request) {
  const char key[] = "\"arguments\":{\"text\":\"";
  const uint8_t *end = request.ptr + request.len;
  for (const uint8_t *at = request.ptr; at + sizeof key - 1 <= end; at++) {
    if (memcmp(at, key, sizeof key - 1) != 0) continue;
    const uint8_t *start = at + sizeof key - 1, *stop = start;
    while (stop < end && *stop != '"' && *stop != '\\') stop++;
    if (stop < end && *stop == '"') return (goondan_bytes){start, (size_t)(stop - start)};
  }
  return (goondan_bytes){NULL, 0};
}

static goondan_status start(void *self, uint64_t call, goondan_bytes request) {
  (void)self;
  const char before[] = "{\"output\":{\"result\":\"", after[] = "\"}}";
  goondan_bytes in = argument(request);
  if (in.ptr == NULL) {
    the_host->complete(the_host->ctx, call, GOONDAN_FAILED, text("{\"message\": \"only text without escapes can be reversed\"}"));
    return GOONDAN_OK;
  }
  uint8_t *out = malloc(sizeof before + in.len + sizeof after), *write = out;
  if (out == NULL) return GOONDAN_BUSY;
  memcpy(write, before, sizeof before - 1), write += sizeof before - 1;
  for (size_t left = in.len; left > 0;) {
    size_t head = left - 1; /* where the last character of UTF-8 begins */
    while (head > 0 && (in.ptr[head] & 0xC0) == 0x80) head--;
    memcpy(write, in.ptr + head, left - head), write += left - head, left = head;
  }
  memcpy(write, after, sizeof after - 1), write += sizeof after - 1;
  the_host->complete(the_host->ctx, call, GOONDAN_OK, (goondan_bytes){out, (size_t)(write - out)});
  free(out);
  return GOONDAN_OK;
}

static void cancel(void *self, uint64_t call) { (void)self, (void)call; }
static void reply(void *self, uint64_t op, goondan_status s, goondan_bytes b) { (void)self, (void)op, (void)s, (void)b; }
static goondan_status close_library(void *self, uint32_t grace_ms) { return (void)self, (void)grace_ms, GOONDAN_OK; }

static goondan_status open_library(const goondan_host *host, goondan_library *out, size_t out_size) {
  goondan_library table = {NULL, describe, start, cancel, reply, close_library};
  the_host = host;
  memcpy(out, &table, out_size < sizeof table ? out_size : sizeof table);
  return GOONDAN_OK;
}

GOONDAN_EXPORT const goondan_plugin_entry goondan_plugin = {
    GOONDAN_MAGIC, GOONDAN_ABI_MAJOR, GOONDAN_ABI_MINOR, sizeof(goondan_plugin_entry), sizeof(goondan_library), GOONDAN_PANICS_STOP_HERE, open_library,
};
