/* The extension `__NAME__`. It registers layers around turns, steps ("step") and tool calls ("toolCall"), once per
 * conversation. Code before `layer.next` runs before the wrapped part, the rest after it. See goondan_plugin.h for the
 * messages and docs/extensions.md for layers. Everything runs on the calling thread. */
#include "goondan_plugin.h"

#include "json.h"

/* A conversation that the extension has registered for. */
typedef struct session {
  uint64_t number;
  long turns;
  char *what;
  struct session *next;
} session;

static const goondan_host *host;
static session *sessions;

static goondan_bytes bytes(const char *text) { return (goondan_bytes){(const uint8_t *)text, strlen(text)}; }

static session *find(uint64_t number) {
  session *s = sessions;
  while (s && s->number != number) s = s->next;
  return s;
}

static void forget(uint64_t number) {
  for (session **at = &sessions; *at; at = &(*at)->next) {
    session *s = *at;
    if (s->number != number) continue;
    *at = s->next, free(s->what), free(s);
    return;
  }
}

static void end(uint64_t call, json result) {
  char *text = json_print("{\"output\":{\"result\":%.*s}}", JSON(result));
  host->complete(host->ctx, call, GOONDAN_OK, bytes(text)), free(text);
}

static void fail(uint64_t call, json error) {
  char *text = json_copy(error.len ? error : json_of("{\"message\":\"it was cancelled\"}"));
  host->complete(host->ctx, call, GOONDAN_FAILED, bytes(text)), free(text);
}

static void register_session(uint64_t call, json message, uint64_t number) {
  session *s = calloc(1, sizeof *s);
  if (s == NULL) abort();
  s->number = number, s->next = sessions, sessions = s;
  s->what = json_copy(json_text(json_get(json_get(message, "config"), "what")));
  /* The state belongs to the conversation and survives a restart. */
  s->turns = json_number(json_get(json_get(message, "state"), "turns"));
  end(call, json_of("{\"layers\":[{\"kind\":\"turn\"}]}"));
}

/* Around a turn: `reply` continues when the turn ends. */
static void layer(uint64_t call, json message, session *s) {
  json kept = json_get(json_get(json_get(message, "news"), "state"), "value");
  s->turns = 1 + (kept.ptr ? json_number(json_get(kept, "turns")) : s->turns);
  char *next = json_print(
      "{\"changes\":{\"events\":[{\"type\":\"append\",\"message\":{\"data\":{\"role\":\"system\",\"content\":"
      "\"This is %s %ld of the conversation.\"}}}]},\"state\":{\"value\":{\"turns\":%ld}}}", s->what, s->turns, s->turns);
  /* The number of the question is that of the call. */
  host->request(host->ctx, call, call, bytes("layer.next"), bytes(next)), free(next);
}

static void reply(void *self, uint64_t operation, goondan_status status, goondan_bytes said) {
  (void)self;
  json answer = {(const char *)said.ptr, said.len};
  if (status == GOONDAN_OK) end(operation, json_get(answer, "result"));
  else fail(operation, answer);
}

static goondan_status extend(void *self, uint64_t call, goondan_bytes said) {
  (void)self;
  json message = {(const char *)said.ptr, said.len}, kind = json_get(message, "kind");
  uint64_t number = (uint64_t)json_number(json_get(message, "session"));
  session *s = find(number);
  if (json_is(kind, "\"forget\"")) forget(number);
  else if (json_is(kind, "\"register\"")) register_session(call, message, number);
  else if (json_is(kind, "\"layer\"") && s) layer(call, message, s);
  else fail(call, json_of("{\"message\":\"it has no such layer or tool\"}"));
  return GOONDAN_OK;
}

static goondan_status describe(void *self, void *sink, goondan_put put) {
  (void)self, put(sink, bytes("{\"name\": \"__NAME__\", \"version\": \"0.1.0\", \"exports\": []}"));
  return GOONDAN_OK;
}

static goondan_status start(void *self, uint64_t call, goondan_bytes request) {
  return (void)self, (void)call, (void)request, GOONDAN_UNKNOWN_OPERATION;
}
static void cancel(void *self, uint64_t call) { (void)self, (void)call; }
static goondan_status close_library(void *self, uint32_t grace_ms) { return (void)self, (void)grace_ms, GOONDAN_OK; }

static goondan_status open_library(const goondan_host *table, goondan_library *out, size_t out_size) {
  goondan_extending_library own = {{NULL, describe, start, cancel, reply, close_library}, extend};
  host = table;
  memcpy(out, &own, out_size < sizeof own ? out_size : sizeof own);
  return GOONDAN_OK;
}

GOONDAN_EXPORT const goondan_plugin_entry goondan_plugin = {
    GOONDAN_MAGIC, GOONDAN_ABI_MAJOR, GOONDAN_ABI_MINOR,
    sizeof(goondan_plugin_entry), sizeof(goondan_extending_library), GOONDAN_PANICS_STOP_HERE, open_library,
};
