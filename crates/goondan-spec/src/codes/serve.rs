//! Error codes of the HTTP server.

use super::shell;

codes! {
    /// A request has no token, or a wrong one.
    SERVE_TOKEN = "E_SERVE_TOKEN" {
        why: "Every request to `gdn serve` needs the server token. The request has no token or a \
            wrong one.",
        next: "Send the header `Authorization: Bearer TOKEN`. At startup, `gdn serve` prints the \
            location of the \
              token.",
        more: Some("serving.md#who-may-talk-to-it"),
    }
    /// A request has a host name or an origin that is not allowed.
    SERVE_ORIGIN = "E_SERVE_ORIGIN" {
        why: "A web page in a browser could use a server on the same machine without the user's \
            consent. Therefore the \
              server accepts only known host names and origins.",
        next: "If the host name or the page is yours, start `gdn serve` with `--allow-host NAME` \
            or `--allow-origin \
              ORIGIN`.",
        more: Some("serving.md#who-may-talk-to-it"),
    }
    /// A request is invalid.
    SERVE_REQUEST = "E_SERVE_REQUEST" {
        why: "The body or a parameter of the request does not match the API.",
        next: "Compare the request with the description of its URL in `/openapi.json`.",
        more: Some("serving.md#the-api"),
    }
    /// The body of a request exceeds the size limit.
    SERVE_TOO_LARGE = "E_SERVE_TOO_LARGE" {
        why: "The body exceeds the limit of the server. Default: 32 MiB, or the value of \
            `--max-body`.",
        next: "Send a smaller body, or write large data to a file and send its path.",
        more: Some("serving.md#limits"),
    }
    /// The server has nothing at this URL.
    SERVE_NOT_FOUND = "E_SERVE_NOT_FOUND" {
        why: "The URL is misspelled, or its resource no longer exists.",
        next: "Use one of the URLs in `/openapi.json`.",
        more: Some("serving.md#the-api"),
    }
    /// A request concerns a turn or an approval request that has already ended.
    SERVE_CLOSED = "E_SERVE_CLOSED" {
        why: "The turn had ended, or the approval request was answered or withdrawn, before the \
            request arrived.",
        next: "Usually no action is needed, because another client was faster.",
        more: Some("serving.md#the-api"),
    }
    /// A project file has changed since the client read it.
    SERVE_FILE_CHANGED = "E_SERVE_FILE_CHANGED" {
        why: "The studio saves a file only if the file on disk is the one that was opened. Another \
            program, or another page, has changed or removed the file.",
        next: "Copy your changes, open the file again, and apply them to the new text.",
        more: Some("studio.md#editing-files"),
    }
    /// The server address cannot be used.
    SERVE_ADDRESS = "E_SERVE_ADDRESS" {
        why: "Another program uses this address, this machine does not have the address, or the \
            address requires more \
              privileges.",
        example: shell("gdn serve --listen 127.0.0.1:80\n", "gdn serve --listen 127.0.0.1:4747\n"),
        next: "Choose another address with `--listen`. Port 0 selects any free port.",
        more: Some("serving.md"),
    }
    /// The OTLP endpoint rejected the export.
    TELEMETRY_RECEIVER = "E_TELEMETRY_RECEIVER" {
        why: "The OTLP endpoint cannot be reached, or it refused the data. For example, it \
            supports only gRPC at this \
              port, or requires a key.",
        example: shell("gdn logs --otlp\n", "gdn logs --otlp --json\n"),
        next: "Set `OTEL_EXPORTER_OTLP_ENDPOINT` to the HTTP port of the collector, usually 4318. \
            Set a key in \
              `OTEL_EXPORTER_OTLP_HEADERS`. To print the spans instead, use `--json`.",
        more: Some("telemetry.md"),
    }
}
