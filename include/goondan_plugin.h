/*
 * The contract of a tool library for `gdn`, version 1.1. Libraries of version 1.0 go on working.
 *
 * A library exports one symbol, `goondan_plugin`: plain data that the host reads before it calls anything. `open` fills a
 * table of functions; everything else travels through two tables, as UTF-8 JSON.
 *
 * - Bytes are borrowed for the call that they are passed to. The receiver copies; nobody frees anybody's memory.
 * - The host table, and what its `ctx` points at, stay valid until the process ends. Its functions may be called from any thread,
 *   at any time; they copy, enqueue and return, never block and never call back into the library.
 * - The functions of the library table are called on one thread, one after another. Nothing is called after `close`.
 * - Nothing unwinds or jumps across the line.
 *
 * The JSON of each payload stands beside its function. Ignore fields that you do not know. docs/native-tools.md has the rest.
 */
#ifndef GOONDAN_PLUGIN_H
#define GOONDAN_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define GOONDAN_EXPORT __declspec(dllexport)
#else
#define GOONDAN_EXPORT __attribute__((visibility("default")))
#endif

#define GOONDAN_MAGIC UINT64_C(0x474F4F4E44414E01)
#define GOONDAN_ABI_MAJOR 1
#define GOONDAN_ABI_MINOR 1

/* goondan_plugin_entry.flags: faults of the language, such as panics, stop inside the library. C sets it: it has none. */
#define GOONDAN_PANICS_STOP_HERE 1u

/* A log line that is not about a call. */
#define GOONDAN_NO_CALL 0

typedef int32_t goondan_status;
#define GOONDAN_OK 0
#define GOONDAN_BAD_ARGUMENT (-1)      /* the bytes are not what the function takes */
#define GOONDAN_UNKNOWN_CALL (-2)      /* not open: it never was, is answered, or was given up */
#define GOONDAN_UNKNOWN_OPERATION (-3) /* no operation of that name */
#define GOONDAN_TOO_LARGE (-4)         /* more bytes than max_payload */
#define GOONDAN_CLOSED (-5)            /* this side is shut */
#define GOONDAN_BUSY (-6)              /* too much is waiting already */
#define GOONDAN_PANIC (-7)             /* a panic was caught; the bytes may be an error object */
#define GOONDAN_CANCELLED (-8)         /* the call was cancelled */
#define GOONDAN_INTERNAL (-9)          /* a fault of this side */
#define GOONDAN_FAILED (-10)           /* the call or operation failed; the bytes are an error object */

/* Borrowed for the call. `ptr` may be null only where `len` is 0. */
typedef struct {
  const uint8_t *ptr;
  size_t len;
} goondan_bytes;

/* What the library calls. Look at a field only where `struct_size` covers it. */
typedef struct {
  void *ctx; /* first argument of everything below */
  uint32_t struct_size;
  uint16_t abi_major;
  uint16_t abi_minor;
  uint64_t max_payload; /* in bytes */

  /* Answers a call, exactly once. GOONDAN_OK: {"output": any, "title"?, "metadata"?: {}, "attachments"?: [{"mediaType", "data"}]}.
   * Anything else: {"message", "code"?, "suggestion"?, "helpUrl"?}, or no bytes. */
  goondan_status (*complete)(void *ctx, uint64_t call, goondan_status status, goondan_bytes bytes);

  /* {"title", "metadata"?: {}} */
  goondan_status (*progress)(void *ctx, uint64_t call, goondan_bytes bytes);

  /* {"level": "debug|info|warn|error", "message", "target"?, "fields"?: {}} */
  goondan_status (*log)(void *ctx, uint64_t call, goondan_bytes bytes);

  /* Asks for something by name: runtime.request, runtime.send, runtime.spawn, runtime.list, runtime.catalog; in a layer of an
   * extension: layer.next, layer.request, layer.send.
   * GOONDAN_OK: `reply` of the library table will come for `operation`, a number of your choice. */
  goondan_status (*request)(void *ctx, uint64_t call, uint64_t operation, goondan_bytes name, goondan_bytes bytes);

  /* 1 where the call should end: it was cancelled, is answered, or never was. */
  int32_t (*cancelled)(void *ctx, uint64_t call);
} goondan_host;

/* Takes what `describe` writes, in one piece or several. */
typedef void (*goondan_put)(void *sink, goondan_bytes bytes);

/* What the host calls. */
typedef struct {
  void *self; /* first argument of everything below */

  /* Writes {"name", "version", "exports": [{"name", "description", "parameters": a JSON Schema of type object,
   * "permissions"?: ["read" | "write" | "execute" | "network"], "optionalPermissions"?, "readOnly"?, "idempotent"?}]}. */
  goondan_status (*describe)(void *self, void *sink, goondan_put put);

  /* Begins a call and returns promptly: {"tool", "export", "arguments": {}, "config": {}, "context": {"agentName", "instanceKey",
   * "turnId", "traceId", "toolCallId", "workdir", "projectDir", "timeoutMs", "permissions", "message"}}. GOONDAN_OK: `complete` will be
   * called for it, from any thread, perhaps before this returns. */
  goondan_status (*start)(void *self, uint64_t call, goondan_bytes request);

  /* Asks a call to end soon. May come for a call that is over. */
  void (*cancel)(void *self, uint64_t call);

  /* The answer to `request` of the host table. */
  void (*reply)(void *self, uint64_t operation, goondan_status status, goondan_bytes bytes);

  /* Ends the library's own threads. GOONDAN_OK: none is left. */
  goondan_status (*close)(void *self, uint32_t grace_ms);
} goondan_library;

/* What the host calls in a library that has extensions (since 1.1): `open` writes this in place of the table above, as far as
 * `out_size` goes, and `library_size` of the entry says its size. docs/extensions.md tells what extensions are. */
typedef struct {
  goondan_library library;

  /* Begins what an extension is told, and returns promptly. Like `start`, it ends with `complete`, whose output is
   * {"result": any, "error"?: {"message", "code"?}, "changes"?: CHANGES, "state"?: {"value": any}}. The message is one of
   *   {"kind": "register", "session", "extension", "agentName", "instanceKey", "workdir", "projectDir", "config", "state"}
   *     result: {"layers": [{"kind": "turn" | "step" | "toolCall", "priority"?}], "tools"?: [{"name", "description",
   *     "parameters"}]}
   *   {"kind": "layer", "session", "layer": its place in that list, "context": {}, "news": NEWS}
   *     result: what the layer returns. `request` of "layer.next" with {"changes": CHANGES, "state"?} runs what it wraps, once;
   *     the reply is {"result", "metadata", "news": NEWS}.
   *   {"kind": "call", "session", and what `start` gets; "export" is the tool's name}
   *     result: the output of the tool
   *   {"kind": "forget", "session"}, with GOONDAN_NO_CALL: nothing is completed
   * CHANGES: {"fields"?: {"metadata"?, "args"?, "toolCatalog"?}, "events"?: [message events]}
   * NEWS: {"base"?: [messages before the turn], "events"?: [message events since then], "state"?: {"value": any}} */
  goondan_status (*extend)(void *self, uint64_t call, goondan_bytes message);
} goondan_extending_library;

/* The type of the one exported symbol. */
typedef struct {
  uint64_t magic; /* GOONDAN_MAGIC */
  uint16_t abi_major;
  uint16_t abi_minor;
  uint32_t struct_size;  /* sizeof(goondan_plugin_entry) */
  uint32_t library_size; /* sizeof(goondan_library), or sizeof(goondan_extending_library) */
  uint32_t flags;        /* GOONDAN_PANICS_STOP_HERE */

  /* Fills `out`, which the host has zeroed, with at most `out_size` bytes. */
  goondan_status (*open)(const goondan_host *host, goondan_library *out, size_t out_size);
} goondan_plugin_entry;

extern GOONDAN_EXPORT const goondan_plugin_entry goondan_plugin;

#ifdef __cplusplus
}
#endif

#endif
