/* A library with an extension in C: it does what its config says, as `examples/plugins/layers` does in Rust. A layer that waits
 * for an answer names the function that goes on with it. All of it runs on the one thread that calls the library. */
#include "goondan_plugin.h"

#include "json.h"

typedef struct run run;
typedef void step(run *r, json answer, goondan_status status);

typedef struct {
  const char *does, *registers;
  step *layers[3];
  step *tool;
} behaviour;

typedef struct session {
  uint64_t number;
  const behaviour *does;
  char *extension, *agent, *instance, *state, *turn;
  int is_news; /* the host does not know the state yet */
  long calls;
  struct session *next;
} session;

/* One message that is not answered yet. */
struct run {
  uint64_t call;
  session *of;
  char *message;      /* the whole of it; the slices below point into it */
  json context, news;
  char letter;        /* of the layer, for `orders` */
  char *kept;         /* from one step of the run to the next */
  step *then;
};

static const goondan_host *host;
static session *sessions;

static goondan_bytes bytes(const char *text) { return (goondan_bytes){(const uint8_t *)text, strlen(text)}; }

/* ---- what a run says ---- */

static char *state_of(run *r) {
  if (!r->of || !r->of->is_news) return json_print("%s", "");
  r->of->is_news = 0;
  return json_print(",\"state\":{\"value\":%s}", r->of->state);
}

static void drop(run *r) { free(r->kept), free(r->message), free(r); }

/* The end: `result` and `events` are JSON; `fields` say what else is to be told. */
static void end_with(run *r, const char *result, const char *events, const char *more) {
  char *state = state_of(r);
  char *text = json_print("{\"output\":{\"result\":%s,\"changes\":{\"events\":[%s]}%s%s}}", result, events, more, state);
  host->complete(host->ctx, r->call, GOONDAN_OK, bytes(text));
  free(text), free(state), drop(r);
}

static void end(run *r, json result) {
  char *text = json_copy(result);
  end_with(r, text, "", ""), free(text);
}

static void fail(run *r, const char *error) {
  char *more = json_print(",\"error\":%s", error);
  end_with(r, "null", "", more), free(more);
}

static void ask(run *r, const char *name, const char *payload, step *then) {
  r->then = then;
  /* The number of the question is the place of the run. */
  host->request(host->ctx, r->call, (uint64_t)(uintptr_t)r, bytes(name), bytes(payload));
}

/* Runs what the layer wraps: `fields` and `events` are what it has changed. */
static void next(run *r, const char *fields, const char *events, step *then) {
  char *state = state_of(r);
  char *payload = json_print("{\"changes\":{\"fields\":{%s},\"events\":[%s]}%s}", fields, events, state);
  ask(r, "layer.next", payload, then), free(payload), free(state);
}

static void set_state(session *s, char *state) { free(s->state), s->state = state, s->is_news = 1; }
static json state(session *s) { return json_of(s->state); }

static char *appended(const char *role, const char *text) {
  return json_print("{\"type\":\"append\",\"message\":{\"data\":{\"role\":\"%s\",\"content\":\"%s\"}}}", role, text);
}

/* Passes on what `next` came to. */
static void pass(run *r, json answer, goondan_status status) {
  if (status != GOONDAN_OK) {
    char *error = json_copy(answer);
    fail(r, error), free(error);
  } else end(r, json_get(answer, "result"));
}

/* A result with other fields in its output. */
static void end_output(run *r, json result, const char *fields) {
  char *text = json_print("%.*s,\"output\":%.*s,%s}}", JSON(json_open(result)), JSON(json_open(json_get(result, "output"))), fields);
  end_with(r, text, "", ""), free(text);
}

/* ---- what it does ---- */

static void marked(run *r, json answer, goondan_status status) {
  if (status != GOONDAN_OK) { pass(r, answer, status); return; }
  char *fields = json_print("\"calls\":%ld,\"tool\":%.*s,\"step\":%.*s,\"agents\":%s,\"instance\":\"%s\"", r->of->calls,
                            JSON(json_get(r->context, "toolName")), JSON(json_get(r->context, "stepIndex")),
                            json_get(r->context, "runtime").ptr ? "false" : "true", r->of->instance);
  end_output(r, json_get(answer, "result"), fields), free(fields);
}

static void marks(run *r, json answer, goondan_status status) {
  (void)answer, (void)status;
  json args = json_get(r->context, "args");
  char *fields = json_print("\"args\":%.*s,\"text\":\"%.*s!\"}", JSON(json_open(args)), JSON(json_text(json_get(args, "text"))));
  r->of->calls++, next(r, fields, "", marked), free(fields);
}

static void ordered(run *r, json answer, goondan_status status) {
  if (status != GOONDAN_OK) { pass(r, answer, status); return; }
  json result = json_get(answer, "result"), way = json_get(json_get(answer, "metadata"), "way");
  json back = json_text(json_get(json_get(result, "output"), "back"));
  char *fields = json_print("\"back\":\"%.*s%c\",\"way\":%.*s", JSON(back), r->letter, JSON(way));
  end_output(r, result, fields), free(fields);
}

static void orders(run *r, json answer, goondan_status status) {
  (void)answer, (void)status;
  json text = json_text(json_get(json_get(r->context, "args"), "text")), metadata = json_get(r->context, "metadata");
  r->letter = "cba"[json_number(json_get(json_of(r->message), "layer"))];
  char *fields = json_print("\"args\":{\"text\":\"%.*s%c\"},\"metadata\":{\"way\":\"%.*s%c\"}", JSON(text), r->letter,
                            JSON(json_text(json_get(metadata, "way"))), r->letter);
  next(r, fields, "", ordered), free(fields);
}

static void counted(run *r, json answer, goondan_status status) {
  if (status != GOONDAN_OK) { pass(r, answer, status); return; }
  json result = json_get(answer, "result");
  long new = json_count(json_get(r->news, "events")) + json_count(json_get(json_get(answer, "news"), "events"));
  char *said = json_print("%ld new, %.*s", new, JSON(json_text(json_get(result, "finishReason"))));
  char *event = appended("system", said), *text = json_copy(result);
  end_with(r, text, event, ""), free(said), free(event), free(text);
}

static void counts_turns(run *r, json answer, goondan_status status) {
  (void)answer, (void)status;
  long turns = json_number(json_get(state(r->of), "turns")) + 1;
  set_state(r->of, json_print("{\"turns\":%ld}", turns));
  char *said = json_print("turn %ld", turns), *event = appended("system", said);
  next(r, "", event, counted), free(said), free(event);
}

static void counts_calls(run *r, json answer, goondan_status status) {
  (void)answer, (void)status;
  long calls = json_number(json_get(state(r->of), "calls")) + 1;
  set_state(r->of, json_print("%.*s,\"calls\":%ld}", JSON(json_open(state(r->of))), calls));
  next(r, "", "", pass);
}

static void filters(run *r, json answer, goondan_status status) {
  (void)answer, (void)status;
  char *left = json_print("%s", "");
  json catalog = json_get(r->context, "toolCatalog");
  const char *at = NULL;
  for (json tool; (tool = json_item(catalog, &at)).ptr != NULL;) {
    json name = json_get(tool, "name");
    if (json_is(name, "\"echo__slow\"")) continue;
    char *more = json_print("%s%s{\"name\":%.*s}", left, *left ? "," : "", JSON(name));
    free(left), left = more;
  }
  char *fields = json_print("\"toolCatalog\":[%s]", left);
  next(r, fields, "", pass), free(left), free(fields);
}

static void notes_call(run *r, json answer, goondan_status status) {
  json result = json_get(answer, "result");
  if (json_is(json_get(result, "status"), "\"ok\"")) free(r->of->turn), r->of->turn = json_copy(json_get(r->context, "turnId"));
  pass(r, answer, status);
}

static void insists_call(run *r, json answer, goondan_status status) { (void)answer, (void)status, next(r, "", "", notes_call); }

static void insisted(run *r, json answer, goondan_status status) {
  json result = json_get(answer, "result");
  int has_called = r->of->turn && json_is(json_get(r->context, "turnId"), r->of->turn);
  if (status != GOONDAN_OK || has_called || json_is(json_get(result, "shouldContinue"), "true")) { pass(r, answer, status); return; }
  char *event = appended("user", "call a tool first"), *text = json_print("%.*s,\"shouldContinue\":true}", JSON(json_open(result)));
  end_with(r, text, event, ""), free(event), free(text);
}

static void insists_step(run *r, json answer, goondan_status status) { (void)answer, (void)status, next(r, "", "", insisted); }

static void answers(run *r, json answer, goondan_status status) {
  (void)answer, (void)status;
  char *said = json_print("you said: %.*s", JSON(json_text(json_get(json_get(r->context, "inputEvent"), "input"))));
  char *event = appended("assistant", said);
  end_with(r, "{\"status\":\"completed\",\"shouldContinue\":false}", event, ""), free(said), free(event);
}

static void denies(run *r, json answer, goondan_status status) {
  (void)answer, (void)status;
  end(r, json_of("{\"status\":\"error\",\"error\":{\"code\":\"NOT_TODAY\",\"message\":\"not today\"}}"));
}

static void edited(run *r, json answer, goondan_status status) {
  if (status != GOONDAN_OK) { pass(r, answer, status); return; }
  json result = json_get(answer, "result");
  char *text = json_print("%.*s,\"responseMessage\":%.*s,\"data\":{\"role\":\"assistant\",\"content\":\"an answer of mine\"}}}",
                          JSON(json_open(result)), JSON(json_open(json_get(result, "responseMessage"))));
  end_with(r, text, "", ""), free(text);
}

static void edits(run *r, json answer, goondan_status status) {
  (void)answer, (void)status;
  json said = json_first(json_get(r->news, "base"));
  char *events = json_print(
      "{\"type\":\"append\",\"message\":{\"id\":\"gone\",\"data\":{\"role\":\"system\",\"content\":\"gone\"}}},"
      "{\"type\":\"remove\",\"targetId\":\"gone\"},{\"type\":\"remove\",\"targetId\":\"never-there\"},"
      "{\"type\":\"replace\",\"targetId\":%.*s,\"message\":{\"id\":%.*s,\"data\":{\"role\":\"user\",\"content\":\"other words\"}}}",
      JSON(json_get(said, "id")), JSON(json_get(said, "id")));
  next(r, "", events, edited), free(events);
}

static void forgets(run *r, json answer, goondan_status status) {
  (void)answer, (void)status;
  json said = json_last(json_get(r->news, "base"));
  char *events = json_print("{\"type\":\"truncate\"},{\"type\":\"append\",\"message\":%.*s,\"id\":\"%.*s-again\"}}",
                            JSON(json_open(said)), JSON(json_text(json_get(said, "id"))));
  next(r, "", events, pass), free(events);
}

static void adds_note(run *r, json answer, goondan_status status) {
  (void)answer, (void)status;
  json note = json_get(json_get(json_of(r->message), "arguments"), "note"), known = state(r->of);
  long notes = json_count(known);
  set_state(r->of, notes ? json_print("%.*s,%.*s]", (int)known.len - 1, known.ptr, JSON(note)) : json_print("[%.*s]", JSON(note)));
  char *text = json_print("{\"notes\":%ld,\"agent\":\"%s\"}", notes + 1, r->of->agent);
  end_with(r, text, "", ""), free(text);
}

static void nobody_there(run *r, json answer, goondan_status status) {
  char *said = json_print("nobody: %.*s", JSON(json_text(json_get(answer, "code")))), *second = appended("system", said);
  char *events = json_print("%s,%s", r->kept, second);
  if (status == GOONDAN_OK) fail(r, "{\"message\":\"somebody is there\"}");
  else next(r, "", events, pass);
  free(said), free(second), free(events);
}

static void was_sent(run *r, json answer, goondan_status status) {
  if (status != GOONDAN_OK || !json_is(json_get(answer, "accepted"), "true")) fail(r, "{\"message\":\"not accepted\"}");
  else ask(r, "layer.request", "{\"target\":\"nobody\",\"input\":\"hm?\"}", nobody_there);
}

static void was_answered(run *r, json answer, goondan_status status) {
  if (status != GOONDAN_OK) { pass(r, answer, status); return; }
  char *said = json_print("other says: %.*s", JSON(json_text(json_get(answer, "response"))));
  r->kept = appended("system", said), free(said);
  ask(r, "layer.send", "{\"target\":\"other\",\"input\":\"thanks\",\"instanceKey\":\"thanks\"}", was_sent);
}

static void asks(run *r, json answer, goondan_status status) {
  (void)answer, (void)status;
  ask(r, "layer.request", "{\"target\":\"other\",\"input\":\"what do you think?\"}", was_answered);
}

static void was_refused(run *r, json answer, goondan_status status) { (void)answer, (void)status, end(r, json_of(r->kept)); }

static void again(run *r, json answer, goondan_status status) {
  if (status != GOONDAN_OK) { pass(r, answer, status); return; }
  r->kept = json_copy(json_get(answer, "result")), next(r, "", "", was_refused);
}

static void twice(run *r, json answer, goondan_status status) { (void)answer, (void)status, next(r, "", "", again); }
static void silenced(run *r, json answer, goondan_status status) { (void)answer, (void)status, end(r, json_of("null")); }
static void silent(run *r, json answer, goondan_status status) { (void)answer, (void)status, next(r, "", "", silenced); }

static void throws(run *r, json answer, goondan_status status) {
  (void)answer, (void)status, fail(r, "{\"message\":\"no turn today\",\"code\":\"NO_TURN\"}");
}

static void throws_in_call(run *r, json answer, goondan_status status) { (void)answer, (void)status, fail(r, "{\"message\":\"no call today\"}"); }

static const behaviour BEHAVIOURS[] = {
    {"marks", "{\"layers\":[{\"kind\":\"toolCall\"}]}", {marks}, NULL},
    {"orders", "{\"layers\":[{\"kind\":\"toolCall\",\"priority\":5},{\"kind\":\"toolCall\"},{\"kind\":\"toolCall\",\"priority\":-1}]}", {orders, orders, orders}, NULL},
    {"counts", "{\"layers\":[{\"kind\":\"turn\"},{\"kind\":\"toolCall\"}]}", {counts_turns, counts_calls}, NULL},
    {"filters", "{\"layers\":[{\"kind\":\"step\"}]}", {filters}, NULL},
    {"insists", "{\"layers\":[{\"kind\":\"toolCall\"},{\"kind\":\"step\"}]}", {insists_call, insists_step}, NULL},
    {"answers", "{\"layers\":[{\"kind\":\"step\"}]}", {answers}, NULL},
    {"denies", "{\"layers\":[{\"kind\":\"toolCall\"}]}", {denies}, NULL},
    {"edits", "{\"layers\":[{\"kind\":\"turn\"}]}", {edits}, NULL},
    {"forgets", "{\"layers\":[{\"kind\":\"turn\"}]}", {forgets}, NULL},
    {"offers", "{\"tools\":[{\"name\":\"notes__add\",\"description\":\"Keep a note.\",\"parameters\":{\"type\":\"object\",\"properties\":{\"note\":{\"type\":\"string\"}},\"required\":[\"note\"]}}]}", {NULL}, adds_note},
    {"asks", "{\"layers\":[{\"kind\":\"turn\"}]}", {asks}, NULL},
    {"twice", "{\"layers\":[{\"kind\":\"step\"}]}", {twice}, NULL},
    {"silent", "{\"layers\":[{\"kind\":\"turn\"}]}", {silent}, NULL},
    {"throws", "{\"layers\":[{\"kind\":\"turn\"}]}", {throws}, NULL},
    {"throwsInCall", "{\"layers\":[{\"kind\":\"toolCall\"}]}", {throws_in_call}, NULL},
};

/* ---- the tables ---- */

static session *find(uint64_t number) {
  session *s = sessions;
  while (s && s->number != number) s = s->next;
  return s;
}

static void forget(uint64_t number) {
  for (session **at = &sessions; *at; at = &(*at)->next) {
    session *s = *at;
    if (s->number != number) continue;
    *at = s->next;
    free(s->extension), free(s->agent), free(s->instance), free(s->state), free(s->turn), free(s);
    return;
  }
}

static void register_session(run *r, json message, uint64_t number) {
  json does = json_text(json_get(json_get(message, "config"), "does"));
  for (size_t i = 0; i < sizeof BEHAVIOURS / sizeof *BEHAVIOURS; i++) {
    if (!json_is(does, BEHAVIOURS[i].does)) continue;
    session *s = calloc(1, sizeof *s);
    *s = (session){.number = number, .does = &BEHAVIOURS[i], .next = sessions};
    s->agent = json_copy(json_text(json_get(message, "agentName"))), s->instance = json_copy(json_text(json_get(message, "instanceKey")));
    s->state = json_copy(json_get(message, "state")), sessions = s;
    end(r, json_of(s->does->registers));
    return;
  }
  fail(r, "{\"message\":\"not in the mood\"}");
}

static goondan_status extend(void *self, uint64_t call, goondan_bytes bytes) {
  (void)self;
  json message = {(const char *)bytes.ptr, bytes.len}, kind = json_get(message, "kind");
  uint64_t number = (uint64_t)json_number(json_get(message, "session"));
  if (json_is(kind, "\"forget\"")) return forget(number), GOONDAN_OK;
  run *r = calloc(1, sizeof *r);
  if (r == NULL) return GOONDAN_BUSY;
  r->call = call, r->message = json_copy(message), r->of = find(number), message = json_of(r->message);
  r->context = json_get(message, "context"), r->news = json_get(message, "news");
  json kept = json_get(json_get(r->news, "state"), "value");
  if (r->of && kept.ptr) set_state(r->of, json_copy(kept)), r->of->is_news = 0;
  if (json_is(kind, "\"register\"")) register_session(r, message, number);
  else if (r->of == NULL) fail(r, "{\"message\":\"it has not registered\"}");
  else if (json_is(kind, "\"call\"")) r->of->does->tool(r, json_none(), GOONDAN_OK);
  else r->of->does->layers[json_number(json_get(message, "layer"))](r, json_none(), GOONDAN_OK);
  return GOONDAN_OK;
}

static void reply(void *self, uint64_t operation, goondan_status status, goondan_bytes bytes) {
  (void)self;
  run *r = (run *)(uintptr_t)operation;
  json answer = {(const char *)bytes.ptr, bytes.len}, kept = json_get(json_get(json_get(answer, "news"), "state"), "value");
  if (kept.ptr) set_state(r->of, json_copy(kept)), r->of->is_news = 0;
  r->then(r, answer, status);
}

static goondan_status describe(void *self, void *sink, goondan_put put) {
  (void)self, put(sink, bytes("{\"name\": \"c-layers\", \"version\": \"0.1.0\", \"sdk\": {\"language\": \"c\"}, \"exports\": []}"));
  return GOONDAN_OK;
}

static goondan_status start(void *self, uint64_t call, goondan_bytes request) { return (void)self, (void)call, (void)request, GOONDAN_UNKNOWN_OPERATION; }
static void cancel(void *self, uint64_t call) { (void)self, (void)call; }
static goondan_status close_library(void *self, uint32_t grace_ms) { return (void)self, (void)grace_ms, GOONDAN_OK; }

static goondan_status open_library(const goondan_host *table, goondan_library *out, size_t out_size) {
  goondan_extending_library own = {{NULL, describe, start, cancel, reply, close_library}, extend};
  host = table;
  memcpy(out, &own, out_size < sizeof own ? out_size : sizeof own);
  return GOONDAN_OK;
}

GOONDAN_EXPORT const goondan_plugin_entry goondan_plugin = {
    GOONDAN_MAGIC, GOONDAN_ABI_MAJOR, GOONDAN_ABI_MINOR, sizeof(goondan_plugin_entry), sizeof(goondan_extending_library), GOONDAN_PANICS_STOP_HERE, open_library,
};
