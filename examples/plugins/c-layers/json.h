/* Just enough JSON to read the messages of the host and to put answers together: values are slices of the text that was read. */
#ifndef JSON_H
#define JSON_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *ptr; /* null: there is none */
  size_t len;
} json;

#define JSON(v) (int)(v).len, (v).ptr /* for "%.*s" */

static json json_none(void) { return (json){NULL, 0}; }
static json json_of(const char *text) { return (json){text, strlen(text)}; }

static const char *json_space(const char *at, const char *end) {
  while (at < end && strchr(" \t\r\n", *at)) at++;
  return at;
}

/* The end of the value that begins at `at`. */
static const char *json_skip(const char *at, const char *end) {
  int depth = 0, in_text = 0;
  for (; at < end; at++) {
    if (in_text) {
      if (*at == '\\') at++;
      else if (*at == '"') in_text = 0, at = depth ? at : at + 1;
      if (!in_text && !depth) return at;
    } else if (*at == '"') in_text = 1;
    else if (*at == '{' || *at == '[') depth++;
    else if (*at == '}' || *at == ']') {
      if (depth == 0) return at;
      if (--depth == 0) return at + 1;
    } else if (depth == 0 && strchr(",: \t\r\n", *at)) return at;
  }
  return end;
}

/* The value of a field of an object. */
static json json_get(json object, const char *name) {
  if (object.ptr == NULL || object.len == 0 || object.ptr[0] != '{') return json_none();
  const char *end = object.ptr + object.len, *at = json_space(object.ptr + 1, end);
  while (at < end && *at == '"') {
    const char *key = at + 1, *key_end = json_skip(at, end);
    at = json_space(json_space(key_end, end) + 1, end);
    const char *value_end = json_skip(at, end);
    if ((size_t)(key_end - 1 - key) == strlen(name) && memcmp(key, name, strlen(name)) == 0)
      return (json){at, (size_t)(value_end - at)};
    at = json_space(value_end, end);
    if (at < end && *at == ',') at = json_space(at + 1, end);
  }
  return json_none();
}

/* The next item of a list; `at` is null at first. */
static json json_item(json list, const char **at) {
  if (list.ptr == NULL || list.len == 0 || list.ptr[0] != '[') return json_none();
  const char *end = list.ptr + list.len, *from = json_space(*at == NULL ? list.ptr + 1 : *at, end);
  if (*at != NULL && from < end && *from == ',') from = json_space(from + 1, end);
  *at = json_skip(from, end);
  return *at > from ? (json){from, (size_t)(*at - from)} : json_none();
}

static json json_first(json list) {
  const char *at = NULL;
  return json_item(list, &at);
}

static json json_last(json list) {
  json last = json_none();
  const char *at = NULL;
  for (json item; (item = json_item(list, &at)).ptr != NULL;) last = item;
  return last;
}

static long json_count(json list) {
  long count = 0;
  for (const char *at = NULL; json_item(list, &at).ptr != NULL;) count++;
  return count;
}

static int json_is(json value, const char *text) { return value.ptr && value.len == strlen(text) && memcmp(value.ptr, text, value.len) == 0; }
static long json_number(json value) { return value.ptr ? strtol(value.ptr, NULL, 10) : 0; }

/* A text without its quotes, as it is written. */
static json json_text(json value) {
  if (value.ptr == NULL || value.len < 2 || value.ptr[0] != '"') return (json){"", 0};
  return (json){value.ptr + 1, value.len - 2};
}

/* An object without its closing brace, for more fields to be put behind; those of the same name count that come last. */
static json json_open(json object) {
  return object.ptr && object.len > 1 ? (json){object.ptr, object.len - 1} : (json){"{\"_\":0", 6};
}

static char *json_print(const char *format, ...) {
  va_list once, again;
  va_start(once, format);
  va_copy(again, once);
  int length = vsnprintf(NULL, 0, format, once);
  char *text = malloc((size_t)length + 1);
  if (text != NULL) vsnprintf(text, (size_t)length + 1, format, again);
  va_end(once), va_end(again);
  return text;
}

static char *json_copy(json value) { return json_print("%.*s", JSON(value)); }

#endif
